"""Prediction of the next token from those before it (GPT, Radford et al. 2018, section 3.1)."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.cache import Prompts
from bert_tf.layers.mlm_head import MaskedLMHead
from bert_tf.layers.pooling import last_token
from bert_tf.models.families import build_encoder
from bert_tf.tasks.base.objective import Objective, weighed
from bert_tf.tasks.pretraining import generation
from bert_tf.tasks.pretraining.continuation import added_text, prompt_of
from bert_tf.tasks.pretraining.keeps_tokenizer import KeepsTokenizer
from bert_tf.tasks.pretraining.scoring import log_probabilities
from bert_tf.tokenization.morphemes import pretokenize
from bert_tf.tokenization.texts import check_batch_size, text_list


@keras.saving.register_keras_serializable("bert_tf")
class LanguageModel(KeepsTokenizer, Objective):
    """An encoder that reads from left to right and predicts the next token at every position.

    GPT, GPT-2, Qwen3 and Gemma 3 decode with their word embeddings alone. Every other family is
    the "LTR & No NSP" of the BERT paper (section 5.1): the head that predicts masked tokens, at
    every position.

    Call: a batch, a dict of int32 `input_word_ids`, `input_mask` and, where there are several
    segments, `input_type_ids`, `[b, seq_length]`; other keys are left alone. Returns a dict of
    float32 `language_model_logits [b, seq_length - 1, vocab]`: row `t`, which saw positions 0 to
    `t`, is about position `t + 1`. The last position predicts nothing and is not decoded.

    The accounting methods read the same keys and, where present, float32 `example_weights` `[b]`;
    a prediction counts where the token and the one before it are real.

    Args:
        config: a `ModelConfig` with causal attention.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.

    Raises:
        UsageError: a position would see what it is to predict, or embeddings that decode have
            another width than the layers.
    """

    saved_as = "language_model"
    text_method = "generate"
    tasks = ("language_model",)

    def __init__(self, config, dtype=None, seed=None, name="language_model", **kwargs):
        super().__init__(dtype=dtype, name=name, **kwargs)
        _check(config)
        self.config = config
        self.seed = seed
        self.encoder = build_encoder(config, dtype=self.dtype_policy, seed=seed)
        self.head = MaskedLMHead.of_model(config, seed, self.dtype_policy)
        # Built here for its path, as in `Pretrainer`.
        with keras.name_scope("cls"):
            self.head.build((None, None, config.hidden_size))
        self.built = True

    def call(self, batch, training=False):
        """Compute the logits of the next token at every position but the last, float32."""
        hidden = self.hidden_of(batch, training)[:, :-1]
        return {"language_model_logits": self.decode(hidden, training)}

    def next_token_logits(self, batch):
        """Compute the logits of the token after each row's last real one: float32 `[b, vocab]`.

        Args:
            batch: as of `call`; padding is on the right, every row has a real token.
        """
        return self.decode(last_token(self.hidden_of(batch), batch["input_mask"]))

    def generate(self, texts, max_new_tokens=32, top_k=None, temperature=1.0, seed=0,
                 batch_size=32, top_p=None):
        """Continue texts up to their end or by `max_new_tokens`; see `bert_tf.generate` for ids.

        A text begins as the tokenizer has it, with `[CLS]` or nothing; of a long one the end is
        read, so that what is added fits into the window, unless that is shorter than
        `max_new_tokens`.

        Args:
            texts: a str, or a list of them.
            max_new_tokens, top_k, temperature, seed, top_p: as of `bert_tf.generate`.
            batch_size: texts that are read together; another one draws the same.

        Returns: what is to be put after it: a str, or a list of them.

        Raises:
            UsageError: an option is out of range, or the model has no tokenizer, or another's; or
                there are other numbers of seeds and texts.
        """
        self.need_tokenizer()
        if isinstance(texts, str | bytes):
            return self.generate([texts], max_new_tokens, top_k, temperature, seed, batch_size,
                                 top_p)[0]
        check_batch_size(batch_size)
        generation.check_options(max_new_tokens, top_k, temperature, seed, top_p)
        texts, continuations = pretokenize(self.tokenizer, text_list(texts)), []
        if np.ndim(seed) and len(seed) != len(texts):
            raise UsageError(explain(f"{len(seed)} seeds for {len(texts)} texts",
                                     "one for all, or one for each"))
        longest = tf.maximum(2, self.config.longest - tf.cast(max_new_tokens, tf.int32))
        for start in range(0, len(texts), batch_size):
            prompt = prompt_of(self.tokenizer, tf.constant(texts[start:start + batch_size]),
                               longest)
            made = generation.generate(
                self, prompt.to_tensor(), tf.sequence_mask(prompt.row_lengths(), dtype=tf.int32),
                max_new_tokens, top_k, temperature,
                seed if np.ndim(seed) == 0 else seed[start:start + batch_size],
                self.tokenizer.vocabulary.sep_id, first_row=start,
                num_tokens=len(self.tokenizer.vocabulary), top_p=top_p)
            new = tf.ragged.boolean_mask(made["output_word_ids"], made["output_mask"] > 0)
            continuations += added_text(self.tokenizer, prompt, new).numpy().tolist()
        return [text.decode() for text in continuations]

    def score(self, texts, batch_size=32):
        """Compute the log-probability of texts, each with its end, and their perplexity.

        A text stands between the tokenizer's `[CLS]` and `[SEP]`, however these are called, and
        is predicted with its end. One that is longer than the model reads is read in windows that
        overlap by half.

        Args:
            texts: a str, or a list of them.
            batch_size: texts, or windows of them, that are read together at most; of long ones
                fewer, as memory is bounded.

        Returns: for each text a dict of `log_probability`, the sum over its tokens, nats;
            `num_tokens`, how many these are; and `perplexity`, exp(-log_probability / num_tokens).
            Of a str that of the one text.

        Raises:
            UsageError: the model has no tokenizer, or another's, or `batch_size` is below 1.
        """
        self.need_tokenizer()
        check_batch_size(batch_size)
        if isinstance(texts, str | bytes):
            return self.score([texts], batch_size)[0]
        texts, vocabulary = pretokenize(self.tokenizer, text_list(texts)), self.tokenizer.vocabulary
        pieces = self.tokenizer.tokenize(tf.constant(texts, tf.string))
        begin, end = (tf.fill([len(texts), 1], token)
                      for token in (vocabulary.cls_id, vocabulary.sep_id))
        rows = tf.concat([begin, pieces, end], axis=1)
        sums, counts = log_probabilities(self, rows, batch_size), rows.row_lengths().numpy() - 1
        return [{"log_probability": float(total), "num_tokens": int(count),
                 "perplexity": float(np.exp(-total / count))}
                for total, count in zip(sums, counts, strict=True)]

    def prompt_past(self, batch):
        """Run over the rows of a batch and keep what further tokens need: a `cache.Prompts`."""
        layout = Prompts.of_mask(batch["input_mask"], self.compute_dtype, causal=True)
        self.backbone.hidden_of(_inputs(batch), layout)
        return layout

    def token_logits(self, batch, layout):
        """Compute logits float32 `[b, vocab]` of what follows the tokens of a `cache.NextTokens`
        layout."""
        return self.decode(self.backbone.hidden_of(_inputs(batch), layout))

    def decode(self, hidden, training=False):
        """Compute logits float32 `[…, vocab]` of what follows encoded tokens `[…, hidden]`."""
        return self.head(hidden, None, self.encoder.backbone.embeddings.table(),
                         training=training)

    def hidden_of(self, batch, training=False):
        """Encode the tokens of a batch, as of `call`: `[b, seq_length, hidden]`."""
        return self.encoder(_inputs(batch), training=training)["sequence_output"]

    def weights_of(self, batch):
        """Return `{task: float32 [b, seq_length - 1]}`: 1 where a real token follows a real one."""
        mask = batch["input_mask"]
        return {"language_model": weighed(mask[:, 1:] * mask[:, :-1], batch)}

    def labels_of(self, outputs, batch):
        """Return `{task: int32 [b, seq_length - 1]}`: the next token of every position but the
        last."""
        return {"language_model": batch["input_word_ids"][:, 1:]}


def _inputs(batch):
    """Return the encoder's inputs; a batch without segments or a mask is one segment, all real."""
    ids = tf.convert_to_tensor(batch["input_word_ids"])
    return {"input_word_ids": ids,
            "input_mask": tf.convert_to_tensor(batch.get("input_mask", tf.ones_like(ids))),
            "input_type_ids": tf.convert_to_tensor(batch.get("input_type_ids",
                                                             tf.zeros_like(ids)))}


def _check(config):
    if config.attention != "causal":
        raise UsageError(explain(
            f"a language model with attention={config.attention!r} would see the tokens that it "
            "is to predict", "attention='causal'"))
    if config.bilstm:
        raise UsageError("a language model with bilstm=True would see the tokens that it is to "
                         "predict: the LSTM reads backwards too; it is for fine-tuning")

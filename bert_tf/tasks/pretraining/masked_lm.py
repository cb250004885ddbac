"""Masked-token prediction and a sentence task (Devlin et al. 2019, section 3.1)."""

import numbers

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.layers.label_head import LabelHead
from bert_tf.layers.mlm_head import MaskedLMHead
from bert_tf.models.families import INPUTS, build_encoder
from bert_tf.tasks.base.objective import Objective, weighed
from bert_tf.tasks.pretraining.keeps_tokenizer import KeepsTokenizer
from bert_tf.tokenization.morphemes import pretokenize
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.texts import check_batch_size, text_list

# The sentence tasks, and the official names of their heads: next sentence (BERT paper, section
# 3.1, task 2) and sentence order (ALBERT paper, section 3.1).
SENTENCE_HEADS = {"next_sentence": "seq_relationship", "sentence_order": "sentence_order"}


@keras.saving.register_keras_serializable("bert_tf")
class Pretrainer(KeepsTokenizer, Objective):
    """An encoder with the masked-token head and, where requested, the head of a sentence task.

    Call: a batch, a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids`
    `[b, seq_length]` and `masked_lm_positions` `[b, P]`; other keys are left alone. Returns a
    dict of float32 `masked_lm_logits [b, P, vocab]` and, with a sentence task,
    `next_sentence_logits` or `sentence_order_logits` `[b, 2]`.

    The accounting methods also read int32 `masked_lm_ids` and float32 `masked_lm_weights`
    `[b, P]` (0 marks unused slots), int32 `next_sentence_labels` or `sentence_order_labels` `[b]`
    or `[b, 1]` (0 = follows, in order) and, where present, float32 `example_weights` `[b]`.

    Where there are int32 `causal_rows` `[b]`, a row with 1 is read left to right.

    Args:
        config: a `ModelConfig`.
        sentence_task: `next_sentence`, `sentence_order` or None.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
    """

    saved_as = "pretraining"
    text_method = "fill_mask"
    required_options = ("sentence_task",)
    call_inputs = (*INPUTS, "masked_lm_positions")

    def __init__(self, config, sentence_task="next_sentence", dtype=None, seed=None,
                 name="pretrainer", **kwargs):
        super().__init__(dtype=dtype, name=name, **kwargs)
        if sentence_task is not None:
            check_choice("sentence_task", sentence_task, SENTENCE_HEADS)
        self.config = config
        self.sentence_task = sentence_task
        self.seed = seed
        self.encoder = build_encoder(config, dtype=self.dtype_policy, seed=seed)
        self.masked_lm_head = MaskedLMHead.of_model(config, seed, self.dtype_policy)
        self.sentence_head = None
        if sentence_task:
            self.sentence_head = LabelHead(2, config.initializer_range, seed,
                                           name=SENTENCE_HEADS[sentence_task],
                                           dtype=self.dtype_policy)
        # Built here rather than at the first call, where paths would begin with this model's
        # name: the official checkpoint's begin with `cls`.
        with keras.name_scope("cls"):
            self.masked_lm_head.build((None, None, config.hidden_size))
            if self.sentence_head is not None:
                self.sentence_head.build((None, config.hidden_size))
        self.built = True

    @property
    def tasks(self):
        """The names of the losses."""
        return ("masked_lm", self.sentence_task) if self.sentence_task else ("masked_lm",)

    def options(self):
        """See `Saved.options`."""
        return {"sentence_task": self.sentence_task}

    def call(self, batch, training=False):
        """Compute the logits of all heads, float32."""
        inputs = {name: batch[name] for name in INPUTS}
        if "causal_rows" in batch:
            outputs = self.backbone({**inputs, "causal_rows": batch["causal_rows"]},
                                    training=training)
        else:
            outputs = self.encoder(inputs, training=training)
        table = self.encoder.backbone.embeddings.table()
        logits = {"masked_lm_logits": self.masked_lm_head(
            outputs["sequence_output"], batch["masked_lm_positions"], table, training=training)}
        if self.sentence_task:
            logits[f"{self.sentence_task}_logits"] = self.sentence_head(outputs["pooled_output"])
        return logits

    def fill_mask(self, texts, top_k=5, batch_size=32):
        """Predict the tokens for the masks, such as `[MASK]`, written in texts.

        Args:
            texts: a str, or what `text_list` takes.
            top_k: predictions for each mask, at most the vocabulary.
            batch_size: texts that are read together.

        Returns: for each text, for each mask, a list of dicts of `token`, `score`, its
            probability, and `text`, what the token writes, with U+FFFD for a part of a character;
            best first. Of a str that of the one text.

        Raises:
            UsageError: the model has no tokenizer, or another's; `top_k` is out of range, or a mask
                stands after the window, where the model does not read.
        """
        self.need_tokenizer()
        check_batch_size(batch_size)
        vocabulary, rows = self.tokenizer.vocabulary, []
        if not isinstance(top_k, numbers.Integral) or not 1 <= top_k <= len(vocabulary):
            raise UsageError(explain(f"top_k={top_k!r}", f"1 to {len(vocabulary)}, the vocabulary"))
        if isinstance(texts, str):
            return self.fill_mask([texts], top_k)[0]
        texts = text_list(texts)
        analysed = pretokenize(self.tokenizer, texts)
        for start in range(0, len(texts), batch_size):
            pieces = self.tokenizer.tokenize(
                tf.constant(analysed[start:start + batch_size], tf.string), True)
            inputs = pack(vocabulary, [pieces], self.config.longest, fixed=False)
            found = self.likeliest(inputs, vocabulary.mask_id, top_k, len(vocabulary))
            counts = found["num_masks"].numpy()
            written = tf.reduce_sum(tf.cast(pieces == vocabulary.mask_id, tf.int32), axis=1)
            for row in np.flatnonzero(counts < written.numpy())[:1]:
                raise UsageError(explain(
                    f"texts[{start + row}] has {written[row]} masks, {counts[row]} of them in the "
                    f"{self.config.longest} tokens that the model reads", "all of them there",
                    "a shorter text"))
            ids = found["ids"]
            parts = self.tokenizer.tokens(ids), found["scores"], self.tokenizer.texts(ids)
            rows += [[[{"token": token.decode(), "score": float(score),
                        "text": text.decode()}
                       for token, score, text in zip(*candidates, strict=True)]
                      for candidates in zip(*(part[:count] for part in row), strict=True)]
                     for *row, count in zip(*(part.numpy() for part in parts), counts,
                                            strict=True)]
        return rows

    def likeliest(self, inputs, mask_id, top_k, num_tokens=None):
        """Predict tokens at the masks of token ids.

        Args:
            inputs: dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[B, S]`.
            mask_id: of the mask token.
            top_k: predictions for each mask.
            num_tokens: how many ids are tokens', the first ones; None for all that there are.

        Returns: dict of `ids` int32 and `scores` float32, `[B, M, top_k]`, best first; `positions`
            int32 `[B, M]` and `num_masks` int32 `[B]`; M is the most masks of a row, after a row's
            last one come 0.
        """
        is_mask = inputs["input_word_ids"] == mask_id
        num_masks = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
        indices = tf.cast(tf.where(is_mask), tf.int32)
        positions = tf.RaggedTensor.from_row_lengths(indices[:, 1], num_masks,
                                                     validate=False).to_tensor()
        outputs = self({**inputs, "masked_lm_positions": positions}, training=False)
        logits = outputs["masked_lm_logits"][..., :num_tokens]
        scores, ids = tf.math.top_k(tf.nn.softmax(logits), top_k)
        real = tf.sequence_mask(num_masks, tf.shape(positions)[1])[:, :, tf.newaxis]
        return {"ids": ids, "scores": tf.where(real, scores, 0.0), "positions": positions,
                "num_masks": num_masks}

    def weights_of(self, batch):
        """Return `{task: float32}`: of predicted tokens `[b, P]`, and of examples `[b]`."""
        weights = {"masked_lm": weighed(batch["masked_lm_weights"], batch)}
        if self.sentence_task:
            labels = self._sentence_labels(batch)
            weights[self.sentence_task] = weighed(tf.ones_like(labels, tf.float32), batch)
        return weights

    def labels_of(self, outputs, batch):
        """Return `{task: int32}` labels of the same shapes."""
        labels = {"masked_lm": batch["masked_lm_ids"]}
        if self.sentence_task:
            labels[self.sentence_task] = self._sentence_labels(batch)
        return labels

    def _sentence_labels(self, batch):
        return tf.reshape(batch[f"{self.sentence_task}_labels"], [-1])

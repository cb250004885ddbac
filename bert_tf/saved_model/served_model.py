"""The served model: a trained model of any task with its tokenizer, read from a model folder."""

import dataclasses
import os

import keras
import tensorflow as tf

from bert_tf.errors import NoTextError, UsageError, explain
from bert_tf.layers.vector_pooling import VectorPooling
from bert_tf.models.families import EncoderModel
from bert_tf.models.pretrained import CHECKPOINT, READ_OTHERWISE
from bert_tf.retrieval.codes import VectorCode
from bert_tf.saved_model.int8_weights import Int8Weights
from bert_tf.saved_model.quantize import MAX_LOSS, int8_weights
from bert_tf.shapes import check_weights
from bert_tf.storage import variables
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.signature import calibrated, served_pooling
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.pretrained import from_pretrained, read_saved_task
from bert_tf.tasks.pretraining.continuation import prompt_of
from bert_tf.tasks.pretraining.generation import check_options
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.registry import model_classes
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.packing import pack

_ANALYSED = ("text must come split into morphemes, as bert_tf.analyse does it: the graph does not; "
             "offsets are into that text, bert_tf.original_offsets leads back")
_TOP_K = 5  # predictions for a mask, by default
_NEW_TOKENS = 32  # tokens that a language model adds by default
_MAX_TERMS = 256  # of a text, by default


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A trained model and its tokenizer, as the signatures need them."""

    model: keras.Model  # of one of `registry.model_classes()`
    tokenizer: object | None  # as `load_tokenizer` gives it; None where only ids can be taken
    seq_length: int  # the window in tokens; longer text is truncated
    top_k: int = _TOP_K  # predictions of `fill_mask`, likeliest tokens that `sample` draws from
    temperature: float = 1.0  # by which `sample` divides the logits
    top_p: float = 1.0  # the part of their probability from which it draws
    max_new_tokens: int = _NEW_TOKENS  # length of a continuation; part of the window
    max_terms: int = _MAX_TERMS  # that `sparse` gives of a text, the heaviest
    notes: tuple = ()  # lines that tell what is not served and why, and how text must come
    pooling: VectorPooling | None = None  # from tokens to the vector of a text
    code: VectorCode = VectorCode()  # how that is stored
    int8: Int8Weights | None = None  # in place of the model's own, within `computed_with`
    int8_report: dict = dataclasses.field(default_factory=dict)  # what that loses
    pair: bool = False  # whether the model takes pairs of texts

    @property
    def encoder(self):
        """The Keras encoder."""
        return encoder_of(self.model)

    @property
    def weights(self):
        """All variables."""
        own = self.model.weights
        held = {id(variable) for variable in own}
        return own + [variable for variable in self.pooling.weights if id(variable) not in held]

    @property
    def stored_weights(self):
        """All that a version's variables hold."""
        if self.int8 is not None:
            return self.int8.stored(self.weights)
        return [variable.value for variable in self.weights]

    @property
    def dtype(self):
        """What the graph computes in."""
        if self.int8 is not None:
            return "int8"
        return keras.backend.standardize_dtype(self.model.compute_dtype)

    @property
    def objectives(self):
        """See `Objective.objectives`."""
        return getattr(self.model, "objectives", ())

    @property
    def text_names(self):
        """The names of the texts that the model was trained on."""
        return ("text_a", "text_b") if self.pair else ("text",)

    def read(self, inputs, allow_special=False):
        """Return the token ids, mask and segment ids int32 `[B, S]` of what a signature is given.

        Args:
            inputs: dict of string `[B]` `text`, or `text_a` and `text_b`; else of the ids, mask and
                segment ids themselves, which are truncated to the window.
            allow_special: take special tokens written in the text for what they name.
        """
        texts = [value for name, value in inputs.items() if name.startswith("text")]
        if texts:
            pieces = [self.tokenizer.tokenize(text, allow_special) for text in texts]
            inputs = pack(self.tokenizer.vocabulary, pieces, self.seq_length, fixed=False)
        return self._fit(inputs)

    def prompt(self, inputs):
        """Return the tokens from which a text is continued: RaggedTensor int32 `[B, (tokens)]`.

        The last tokens of what a signature is given, so that `max_new_tokens` more stay within the
        window; text begins as of `prompt_of`.

        Args:
            inputs: dict of string `[B]` `text`, or of ids and mask.
        """
        max_tokens = self.seq_length - self.max_new_tokens
        if "text" not in inputs:
            inputs = self._pad({name: inputs[name] for name in ("input_word_ids", "input_mask")})
            real = inputs["input_mask"] > 0
            # A row without a token begins as a text without one does; without a tokenizer, by its
            # first id.
            ids, first = inputs["input_word_ids"], tf.range(tf.shape(real)[1]) == 0
            empty = first & ~tf.reduce_any(real, axis=1, keepdims=True)
            if self.tokenizer is not None:
                ids = tf.where(empty, self.tokenizer.vocabulary.cls_id, ids)
            return tf.ragged.boolean_mask(ids, real | empty)[:, -max_tokens:]
        return prompt_of(self.tokenizer, inputs["text"], max_tokens)

    def _fit(self, inputs):
        """Truncate `inputs` to the window and pad with `padding_id`."""
        inputs = self._pad({name: ids[:, :self.seq_length] for name, ids in inputs.items()})
        # RoBERTa finds the padding by the ids.
        inputs["input_word_ids"] = tf.where(tf.cast(inputs["input_mask"], tf.bool),
                                            inputs["input_word_ids"], self.model.config.padding_id)
        return inputs

    @staticmethod
    def _pad(inputs):
        """Give a batch without rows or positions one position."""
        missing = tf.maximum(1 - tf.shape(inputs["input_word_ids"])[1], 0)
        return {name: tf.pad(ids, [[0, 0], [0, missing]]) for name, ids in inputs.items()}

    def tokens(self, ids, real):
        """Return `{"tokens": string}` of the shape of `ids`, `""` where `real` is false or an id
        is no token's.

        Nothing where the vocabulary is not known.
        """
        if self.tokenizer is None:
            return {}
        known = ids < len(self.tokenizer.vocabulary)
        return {"tokens": tf.where(real & known, self.tokenizer.tokens(tf.where(known, ids, 0)),
                                   "")}

    def read_tokens(self, inputs):
        """Return what was read: `tokens`, where the vocabulary is known, and `num_tokens [B]`."""
        mask = inputs["input_mask"]
        return {**self.tokens(inputs["input_word_ids"], tf.cast(mask, tf.bool)),
                "num_tokens": tf.reduce_sum(mask, axis=1)}


def encoder_of(model):
    """Return the Keras encoder of a model of any task."""
    return model if isinstance(model, EncoderModel) else model.encoder


def load_served(model_folder, dtype="float32", seq_length=None, top_k=None, max_new_tokens=None,
                embedding=None, term_weights=None, code=None, sample=None, calibration=None,
                max_loss=MAX_LOSS, max_terms=None, temperature=None, top_p=None, pair=False):
    """Read a model folder as a `ServedModel`.

    Args:
        model_folder: what `from_pretrained` reads. Of an ELECTRA model that has a generator the
            discriminator alone is taken.
        dtype, seq_length, top_k, max_new_tokens, embedding, term_weights, code, sample,
            calibration, max_loss, max_terms, temperature, top_p, pair: as of
            `save.export_saved_model`.

    Raises:
        BertTfError: a file is missing or damaged, or a weight is not finite.
        UsageError: an option or the tokenizer does not fit the model.
    """
    shapes = variables.VariableReader(os.path.join(model_folder, CHECKPOINT)).shapes
    task = read_saved_task(model_folder, shapes)
    options, notes = {}, []
    if task.get("generator"):
        options["generator"] = None
        notes.append("the generator is not served, the discriminator alone is")
    if "reading" not in task and model_classes()[task["task"]].preprocessor_class is not None:
        options["preprocessor"] = None  # texts are read by the window of the export
    # Not the mixed policy: casting the kernels at every request would take longer than a short
    # text. LayerNorm and the embeddings are float32 all the same.
    model = from_pretrained(model_folder, dtype="float32" if dtype == "int8" else dtype, **options)
    check_weights(model, model_folder)
    encoder_of(model).backbone.padding_free = True
    preprocessor = getattr(model, "preprocessor", None)
    try:
        # That of the preprocessor, whose resources the exported graph holds.
        if model.text_read_otherwise:
            raise NoTextError(READ_OTHERWISE)
        tokenizer = load_tokenizer(model_folder) if preprocessor is None else preprocessor.tokenizer
    except NoTextError as error:
        tokenizer = None
        notes.append(f"no signature takes text, only token ids: {error}")
    if tokenizer is not None and tokenizer.python_only:
        notes.append(f"no signature takes text, only token ids: {tokenizer.python_only}")
        tokenizer = None
        if preprocessor is not None:  # which a graph would hold
            model.preprocessor = None
    if getattr(tokenizer, "pretokenize", None):
        notes.append(_ANALYSED)
    config = model.config
    if seq_length is None:
        seq_length = config.longest if preprocessor is None else preprocessor.seq_length
    elif preprocessor is not None:
        preprocessor.resize(seq_length)
    for name, value, kinds in (("top_k", top_k, (Pretrainer, LanguageModel)),
                               ("temperature", temperature, (LanguageModel,)),
                               ("top_p", top_p, (LanguageModel,)),
                               ("max_new_tokens", max_new_tokens, (LanguageModel,)),
                               ("max_terms", max_terms, (SparseEmbedder,))):
        if value is not None and not isinstance(model, kinds):
            raise UsageError(explain(f"{name}={value} of a {model.saved_as}", "a " + " or a ".join(
                kind.saved_as for kind in kinds)))
    if max_new_tokens is None:
        max_new_tokens = min(_NEW_TOKENS, seq_length // 3)
    num_tokens = _check(model, tokenizer, model_folder, seq_length, max_new_tokens)
    if top_k is None:
        top_k = _TOP_K if top_p is None and temperature is None else num_tokens
    if not 1 <= top_k <= num_tokens:
        raise UsageError(explain(f"top_k={top_k}", f"1 to {num_tokens}, the vocabulary"))
    temperature, top_p = (1.0 if value is None else value for value in (temperature, top_p))
    check_options(max_new_tokens, top_k, temperature, 0, top_p)
    if max_terms is None:
        max_terms = min(_MAX_TERMS, num_tokens)
    elif not 1 <= max_terms <= num_tokens:
        raise UsageError(explain(f"max_terms={max_terms}", f"1 to {num_tokens}, the vocabulary"))
    served = ServedModel(model, tokenizer, seq_length, top_k, float(temperature), float(top_p),
                         max_new_tokens, max_terms, tuple(notes),
                         served_pooling(model, tokenizer, embedding, term_weights),
                         code or VectorCode(), pair=_takes_pairs(model, tokenizer, pair))
    served = dataclasses.replace(served, code=calibrated(served, sample))
    if dtype != "int8":
        return served
    weights, report = int8_weights(served, calibration, max_loss)
    return dataclasses.replace(served, int8=weights, int8_report=report)


def _takes_pairs(model, tokenizer, pair):
    """Return whether texts come in pairs: what the model's files say, or `pair` if they do not."""
    stated = getattr(getattr(model, "preprocessor", None), "pair", None)
    labels = isinstance(model, Classifier)
    if pair and not stated and (stated is False or tokenizer is None or not labels):
        raise UsageError(explain(
            f"pair=True of a {model.saved_as}" + " of single texts" * (labels and stated is False),
            "a classifier of texts whose files do not say whether it reads pairs"))
    return bool(pair or stated)


def _check(model, tokenizer, model_folder, seq_length, max_new_tokens):
    """Refuse what does not fit; return how many tokens there are."""
    config, shortest = model.config, 3
    num_tokens = config.vocab_size
    if tokenizer is not None:
        vocabulary = tokenizer.vocabulary
        shortest = 4 + vocabulary.pair_separators  # [CLS] a [SEP] b [SEP]
        num_tokens = len(vocabulary)
        if vocabulary.num_rows > config.vocab_size:
            raise UsageError(explain(f"{model_folder}: its tokenizer has {num_tokens} tokens",
                                     f"vocab_size={config.vocab_size}"))
        if config.positions_from_padding and vocabulary.pad_id != config.padding_id:
            raise UsageError(explain(f"{model_folder}: its tokenizer pads with the id "
                                     f"{vocabulary.pad_id}", f"padding_id={config.padding_id}"))
    if not shortest <= seq_length <= config.longest:
        raise UsageError(explain(f"seq_length={seq_length}",
                                 f"{shortest} to {config.longest}, the most that the model takes"))
    if not 1 <= max_new_tokens <= seq_length - 2:
        raise UsageError(explain(f"max_new_tokens={max_new_tokens}",
                                 f"1 to {seq_length - 2}, which leaves the text two tokens of "
                                 "the window"))
    return num_tokens

"""Tiny models of every kind with random weights and small vocabularies, and calls of exports."""

import contextlib
import functools
import io
import os
from unittest import mock

import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.models.families import build_encoder
from bert_tf.saved_model import save as save_module
from bert_tf.saved_model import signatures as signature_module
from bert_tf.saved_model.guards import guarded
from bert_tf.saved_model.requests import make_examples
from bert_tf.saved_model.save import export_saved_model
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.signatures import signatures
from bert_tf.storage import files, locks
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXTS = ["The quick brown fox [MASK] over the lazy dog.", "", "안녕하세요, [MASK] ㅋㅋ 😀 [MASK]!",
         "Café CAFÉ", "a [MASK] " * 40]
SEQ_LENGTH = 24
TOP_K = 3
LABELS = ["no", "maybe", "네"]
TAGS = ["B-한", "I-한", "B-b", "I-b", "O"]
WORDS = """
    the quick brown fox jumps over lazy dog . , ! a café cafe The Caf ##é ##C
    안녕 ##하세요 ㅋ ##ㅋ 😀 C ##A ##F ##É t h e ##h ##e
"""


@functools.cache
def word_piece(lower_case=True):
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS.split()]), lower_case=lower_case)


@functools.cache
def byte_pair():
    merges = [tuple(pair.split()) for pair in ("t h", "Ġ th", "Ġth e", "o x", "f ox", "Ġ fox",
                                               "Ġ d", "o g", "Ġd og", "Ġ a", "ì ķ")]
    return BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", *byte_alphabet(),
                              *map("".join, merges), "<mask>"], merges)


@functools.cache
def sentence_piece():
    import sentencepiece

    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS, WORDS]), model_writer=stream, vocab_size=90,
        hard_vocab_limit=False, minloglevel=3, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    return SentencePieceTokenizer(stream.getvalue())


def config_of(tokenizer, **values):
    """Wide enough that answers differ; `SEQ_LENGTH` tokens at most."""
    pad_id = tokenizer.vocabulary.pad_id
    reserved = pad_id + 1 if values.get("family") == "roberta" else 0
    return ModelConfig.from_dict({
        "vocab_size": len(tokenizer.vocabulary), "hidden_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 32, "padding_id": pad_id,
        "max_position_embeddings": SEQ_LENGTH + reserved, "initializer_range": 0.5, **values})


def _electra(tokenizer):
    config = config_of(tokenizer, family="electra", embedding_size=8)
    return ReplacedTokens(config, config.replace(hidden_size=8), seed=7)


_CAUSAL = {"attention": "causal", "pooling": "last"}
# name: (the tokenizer, a model for it, the signatures of its export)
_EVERY = ("serving_default", "describe")
_ALL = (*_EVERY, "embed", "embed_ids", "encode", "encode_ids")
MODELS = {
    "bert": (word_piece, lambda tokenizer: Pretrainer(config_of(tokenizer), seed=7),
             (*_ALL, "fill_mask", "next_sentence", "count_tokens")),
    "cased": (lambda: word_piece(lower_case=False),
              lambda tokenizer: Pretrainer(config_of(tokenizer), None, seed=7),
              (*_EVERY, "embed", "encode", "fill_mask")),
    "roberta": (byte_pair,
                lambda tokenizer: Pretrainer(config_of(tokenizer, family="roberta"), None, seed=7),
                (*_ALL, "fill_mask")),
    "albert": (sentence_piece,
               lambda tokenizer: Pretrainer(config_of(tokenizer, family="albert", embedding_size=8,
                                                    num_hidden_layers=2), "sentence_order", seed=7),
               (*_ALL, "fill_mask", "sentence_order")),
    "electra": (word_piece, _electra, (*_ALL, "replaced_ids", "replaced")),
    "gpt": (byte_pair, lambda tokenizer: LanguageModel(config_of(tokenizer, family="gpt"), seed=7),
            (*_ALL, "generate_ids", "sample_ids", "generate", "sample")),
    "left_to_right": (sentence_piece,
                      lambda tokenizer: LanguageModel(config_of(tokenizer, **_CAUSAL), seed=7),
                      (*_EVERY, "embed", "generate_ids", "sample_ids", "generate", "sample")),
    "classifier": (word_piece,
                   lambda tokenizer: Classifier(config_of(tokenizer), LABELS, seed=7),
                   (*_EVERY, "predict", "classify", "count_tokens")),
    "several": (word_piece,  # labels a pair
                lambda tokenizer: Classifier(config_of(tokenizer), LABELS, "multi_label", seed=7,
                                             preprocessor=TextPreprocessor(tokenizer, SEQ_LENGTH,
                                                                           pair=True)),
                (*_EVERY, "predict", "classify", "count_tokens")),
    "regressor": (word_piece,
                  lambda tokenizer: Classifier(config_of(tokenizer), ["likeness"], "regression",
                                               seed=7, preprocessor=TextPreprocessor(tokenizer,
                                                                                     SEQ_LENGTH)),
                  (*_EVERY, "predict", "regress")),
    "ranker": (word_piece,
               lambda tokenizer: Classifier(config_of(tokenizer), ["relevance"], "regression",
                                            seed=7, preprocessor=TextPreprocessor(
                                                tokenizer, SEQ_LENGTH, pair=True)),
               (*_EVERY, "rank", "count_tokens")),
    "span": (word_piece,
             lambda tokenizer: QuestionAnswering(config_of(tokenizer), 4, 5, -0.5, seed=7,
                                    preprocessor=QuestionPreprocessor(tokenizer, SEQ_LENGTH, 4, 6)),
             (*_EVERY, "answer")),
    "tagger": (word_piece,
               lambda tokenizer: TokenClassifier(config_of(tokenizer), TAGS, seed=7,
                                        preprocessor=WordPreprocessor(tokenizer, SEQ_LENGTH,
                                                                      stride=9)),
               (*_EVERY, "tag")),
    "characters": (sentence_piece,
                   lambda tokenizer: TokenClassifier(
                       config_of(tokenizer, family="albert", embedding_size=8), TAGS, seed=7,
                       features={"layers": [0, -1], "combine": "weighted_sum", "lstm_size": 8},
                       preprocessor=WordPreprocessor(tokenizer, SEQ_LENGTH, "character")),
                   (*_EVERY, "tag")),
    "sparse": (word_piece,
               lambda tokenizer: SparseEmbedder(
                   config_of(tokenizer), seed=7, prompts={"query": "the "}, query_table=True,
                   preprocessor=TextPreprocessor(tokenizer, SEQ_LENGTH)),
               (*_EVERY, "sparse", "sparse_ids", "sparse_queries")),
    "multi_vector": (word_piece,
                     lambda tokenizer: MultiVectorEmbedder(
                         config_of(tokenizer), dim=6, query_length=8, skiplist=["dog"], seed=7,
                         prompts={"query": "the "},
                         preprocessor=TextPreprocessor(tokenizer, SEQ_LENGTH)),
                     (*_EVERY, "passage_vectors", "query_vectors", "rank")),
    "encoder": (word_piece, lambda tokenizer: build_encoder(config_of(tokenizer), seed=7), _ALL),
}


# What `serving_default` stands for, where not for `embed`.
DEFAULTS = {**dict.fromkeys(("classifier", "several", "regressor"), "predict"), "ranker": "rank",
            **dict.fromkeys(("tagger", "characters"), "tag"), "span": "answer",
            "sparse": "sparse", "multi_vector": "passage_vectors"}


def save_model(folder, name="bert"):
    """A model folder of one of `MODELS`."""
    make_tokenizer, make_model, _ = MODELS[name]
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(folder, tokenizer)
    return folder


def own_signatures(name):
    """A context in which exports have the signatures in `MODELS` alone: others are tested once."""
    return only_signatures(*MODELS[name][2])


@contextlib.contextmanager
def only_signatures(*names):
    """A context in which exports have the signatures of these names alone."""
    def own(rows_of):
        return lambda served: {key: row for key, row in rows_of(served).items() if key in names}

    with contextlib.ExitStack() as patches:
        for function in ("type_signatures", "common_signatures"):
            patches.enter_context(mock.patch.object(
                signature_module, function, own(getattr(signature_module, function))))
        yield


def export_once(folder, name, dtype="float32", save=save_model):
    """The model folder of one of `MODELS` and its first version, made by whoever needs them first.

    Whether an export answers as its model is what they are made to test: `verify` need not.

    Args:
        folder: `made_once`.
        save: writes the model; as `save_model`.

    Returns: two paths; the version's folder is that of no other model.
    """
    own = os.path.join(folder, f"{name}_{dtype}")
    model, served = os.path.join(own, "model"), os.path.join(own, "served")
    with locks.held(own, wait=True):
        if not files.exists(served):
            top_k = TOP_K if {"fill_mask", "sample"} & {*MODELS[name][2]} else None
            with own_signatures(name), mock.patch.object(save_module, "verify"):
                export_saved_model(save(model, name), served, dtype=dtype, top_k=top_k)
    return model, os.path.join(served, "1")


def examples(**columns):
    """Serialized `tf.Example`s, a list of bytes: a feature for each column of str."""
    return make_examples({name: tf.constant(column) for name, column in columns.items()}
                         ).numpy().tolist()


class Caller:
    """Calls a SavedModel's signatures with lists; string outputs are arrays of bytes."""

    def __init__(self, version):
        self.signatures = tf.saved_model.load(version).signatures

    def __call__(self, signature, **inputs):
        function = self.signatures[signature]
        specs = function.structured_input_signature[1]
        tensors = {name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()}
        return {name: value.numpy() for name, value in function(**tensors).items()}


class Traced(Caller):
    """As `Caller`, of a model folder that is not exported: the graphs that an export would hold.

    A graph is traced when it is asked for. Options are those of `load_served`.
    """

    def __init__(self, folder, **options):
        served = load_served(str(folder), **options)
        self.signatures = _Traces(served)


class _Traces(dict):
    def __init__(self, served):
        super().__init__()
        self._served, self._rows = served, signatures(served)

    def __contains__(self, name):
        return name in self._rows

    def __iter__(self):
        return iter(self._rows)

    def __missing__(self, name):
        row = self._rows[name]
        self[name] = tf.function(guarded(self._served, row), autograph=False
                                 ).get_concrete_function(**row.inputs)
        return self[name]

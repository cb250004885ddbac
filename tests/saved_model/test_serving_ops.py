"""Only ops that TF Serving links are in an exported graph, and none more often than needed."""

import collections
import pathlib

import pytest
import tensorflow as tf
from exports import LONG
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.saved_model.ops import SERVING_TEXT_OPS, unservable_ops, used_ops

WORD_PIECE = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets", "NormalizeUTF8"}
SENTENCE_PIECE = {"FastBertNormalize", "SentencepieceOp", "SentencepieceTokenizeOp"}
TEXT_OPS = {  # the fewer the better: older servers link fewer
    "bert": WORD_PIECE, "electra": WORD_PIECE, "encoder": WORD_PIECE,
    "classifier": WORD_PIECE, "several": WORD_PIECE, "regressor": WORD_PIECE,
    "span": WORD_PIECE, "tagger": WORD_PIECE,
    "characters": SENTENCE_PIECE,
    **dict.fromkeys(("albert", "left_to_right"), {*SENTENCE_PIECE, "SentencepieceDetokenizeOp"}),
    "roberta": set(), "gpt": set(),
}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in TEXT_OPS])
def test_an_export_uses_only_servable_ops(name, exported):
    version = exported(name).version
    assert unservable_ops(version) == []
    assert used_ops(version) & SERVING_TEXT_OPS == TEXT_OPS[name]


def test_signatures_share_tokenizer_and_encoder(exported):
    """Four signatures cut text; of the encoder one graph gives all layers, for `embed`."""
    proto = saved_model_pb2.SavedModel.FromString(
        pathlib.Path(exported("bert").version, "saved_model.pb").read_bytes())
    functions = proto.meta_graphs[0].graph_def.library.function
    ops = [(node.op, node.name) for function in functions for node in function.node_def]
    # One graph takes special tokens in the text for what they name, the other one does not.
    assert collections.Counter(op for op, _ in ops)["FastWordpieceTokenizeWithOffsets"] == 2
    assert sum(op == "MatMul" and "/query" in name for op, name in ops) == 2


def test_an_op_of_another_library_is_found_inside_functions(tmp_path):
    import tensorflow_text as tf_text

    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def inner(text):
        words = tf.strings.split(text)
        return tf_text.metrics.rouge_l(words, words).f_measure

    module.f = tf.function(lambda text: inner(text) + 1.0,
                           input_signature=[tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(module, str(tmp_path))
    assert unservable_ops(str(tmp_path)) == ["RougeL"]

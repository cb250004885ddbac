"""Only ops that TF Serving links are in an exported graph."""

import pytest
import tensorflow as tf

from bert_tf.saved_model.ops import SERVING_TEXT_OPS, unservable_ops, used_ops


@pytest.mark.parametrize("fixture", ["version", "cased_version"])
def test_an_export_uses_only_servable_ops(fixture, request):
    version = request.getfixturevalue(fixture)
    assert unservable_ops(version) == []
    text_ops = used_ops(version) & SERVING_TEXT_OPS
    # The fewer the better: older servers link fewer.
    assert text_ops == {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets", "NormalizeUTF8",
                        "RegexSplitWithOffsets"}


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

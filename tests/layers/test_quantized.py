"""Quantized parts in files: what they were quantized with comes back."""

import keras
import numpy as np
from tiny_model import config_of, word_piece

import bert_tf


def test_how_it_was_quantized_is_kept(tmp_path):
    model = bert_tf.Classifier(config_of(word_piece()), ["a", "b"], seed=1)
    # Kernels alone: inputs stay as they are.
    model.quantize(config=keras.quantizers.Int8QuantizationConfig(activation_quantizer=None))
    ids = np.array([[2, 7, 8, 3]])
    inputs = {"input_word_ids": ids, "input_mask": ids > 0, "input_type_ids": ids * 0}
    expected = model(inputs).numpy()
    path = str(tmp_path / "model.keras")
    for _ in range(2):
        model.save(path)
        model = bert_tf.load_model(path)
        np.testing.assert_array_equal(model(inputs).numpy(), expected)
        assert {layer.inputs_quantizer for layer in model._flatten_layers()
                if layer.quantization_mode} == {None}

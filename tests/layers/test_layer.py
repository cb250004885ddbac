"""What a subclass of a layer here is rebuilt from."""

import keras
import numpy as np
import pytest

from bert_tf.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable("tests")
class Named(TransformerBlock):
    def __init__(self, extra=1, **options):
        super().__init__(**options)
        self.extra = extra


@keras.saving.register_keras_serializable("tests")
class Unnamed(TransformerBlock):
    def __init__(self, *args, extra=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = extra


SIZES = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12}


@pytest.mark.parametrize("make", [Named, Unnamed])
def test_a_subclass_hands_arguments_on(make, tmp_path):
    """The file of such a model could not be read."""
    hidden = keras.Input((5, 8))
    model = keras.Model(hidden, make(extra=3, **SIZES, dtype="float32", name="mine")(hidden))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    layer = loaded.get_layer("mine")
    assert layer.extra == 3 and SIZES.items() <= layer.get_config().items()
    values = np.random.default_rng(1).normal(size=(2, 5, 8)).astype("float32")
    np.testing.assert_array_equal(loaded(values), model(values))


def test_arguments_without_names_are_refused():
    with pytest.raises(TypeError, match=r"Unnamed\(\*args\) was called with \(8, 2, 12\)"):
        Unnamed(8, 2, 12).get_config()

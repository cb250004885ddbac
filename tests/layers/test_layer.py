"""What a subclass of a layer here is rebuilt from."""

import keras
import numpy as np
import pytest
from text_models import TINY

from bert_tf.layers.layer_norm import LayerNorm
from bert_tf.layers.pooling import Pooler
from bert_tf.layers.transformer_block import TransformerBlock
from bert_tf.models.families import INPUTS, build_encoder
from bert_tf.tasks.classification.model import Classifier


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


def test_what_is_multiplied_by_a_number_is_dense():
    """Keras says that a symbolic one is sparse."""
    hidden, mask = keras.Input((5, 8)), keras.Input((5,))
    adder = (1.0 - mask)[:, None, None, :] * -10000.0
    assert adder.sparse and (hidden * 0.5).sparse
    block = TransformerBlock(**SIZES)
    model = keras.Model([hidden, mask], [LayerNorm()(hidden * 0.5), Pooler(3)(hidden * 0.5),
                                         block(hidden * 0.5, adder=adder)])
    assert [tuple(output.shape) for output in model.output] == [(None, 5, 8), (None, 3),
                                                                (None, 5, 8)]
    values = np.random.default_rng(1).normal(size=(2, 5, 8)).astype("float32")
    seen = np.float32([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    np.testing.assert_allclose(model([values, seen])[2][1:, :2], block(values[1:, :2] * 0.5),
                               atol=1e-5)


@pytest.mark.parametrize("make", [build_encoder, Classifier])
def test_ids_that_are_multiplied_by_a_number_are_dense(make):
    ids = {name: keras.Input((5,), dtype="int32") for name in INPUTS}
    model = make(TINY, **({"labels": ["no", "yes"]} if make is Classifier else {}))
    scaled = model({**ids, "input_type_ids": ids["input_type_ids"] * 0})
    assert keras.tree.flatten(scaled)[0].shape[0] is None

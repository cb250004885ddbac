"""Models are read wherever they were made."""

import pickle
import subprocess
import sys

import keras
import numpy as np
from text_models import CONFIG, classifier, pack_words

import bert_tf

INPUTS = pack_words([["a", "b"], ["c"]])
FRESH = """
import pickle, sys
import numpy as np
with open(sys.argv[1] + "model.pkl", "rb") as file:
    model = pickle.load(file)
assert type(model.optimizer).__name__ == "AdamW"
np.save(sys.argv[1] + "told.npy", model(["good a", "bad"]))
"""


class Inner(keras.Layer):
    """Makes models where Keras opens a scope of names."""

    def build(self, shape):
        self.parts = [bert_tf.build_encoder(CONFIG, seed=1), classifier(),
                      bert_tf.LanguageModel(CONFIG.replace(attention="causal", pooling="last"))]

    def call(self, inputs):
        return self.parts[0](inputs)["pooled_output"]


def test_paths_are_the_same_in_every_scope(tmp_path):
    """They began with `inner/`: a folder could not be read, a file forgot what was frozen."""
    inner, outer = Inner(), Inner()
    inner(INPUTS)
    outer.build.__wrapped__(None)  # Keras' `build` opens the scope
    for made, expected in zip(inner.parts, outer.parts, strict=True):
        assert [v.path for v in made.weights] == [v.path for v in expected.weights]
    encoder, model, _ = inner.parts
    encoder.save_pretrained(tmp_path / "encoder")
    model.backbone.encoder.trainable = False
    model.save(tmp_path / "model.keras")
    with keras.name_scope("other"):
        read = bert_tf.from_pretrained(tmp_path / "encoder")
        loaded = bert_tf.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(read(INPUTS)["pooled_output"], encoder(INPUTS)["pooled_output"])
    assert len(loaded.trainable_weights) == len(model.trainable_weights) < len(model.weights)


def test_a_pickle_is_read_in_a_fresh_process(tmp_path):
    """Keras knew no AdamW there."""
    model = classifier()
    model.compile(bert_tf.AdamW(bert_tf.WarmupLinearDecay(0.01, 2, 10)))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    subprocess.run([sys.executable, "-c", FRESH, f"{tmp_path}/"], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "told.npy"), model(["good a", "bad"]), atol=1e-6)

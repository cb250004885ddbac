"""What models on an encoder have in common."""

import numpy as np
import tensorflow as tf
from text_models import TINY, classifier, pack_words

from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens


def test_saved_models_have_a_signature(tmp_path):
    model, inputs = classifier(), pack_words([["a", "b"], ["c"]])
    tf.saved_model.save(model, str(tmp_path / "model"))
    serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    [logits] = serve(**{name: tf.constant(ids, tf.int32) for name, ids in inputs.items()}).values()
    np.testing.assert_allclose(logits, model(inputs), atol=1e-5)
    electra = TINY.replace(family="electra", pooling="first")
    assert ReplacedTokens(electra, electra)._default_save_signature is None
    assert ReplacedTokens(electra)._default_save_signature is not None

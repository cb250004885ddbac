"""The same weights in tf-models-official and in keras-nlp give the same numbers."""

import numpy as np
import tensorflow as tf
from test_families import TINY, batch

from bert_tf.models.families import build_encoder


def make_encoder(hidden_act):
    """Our encoder, every variable random, biases too."""
    model = build_encoder(TINY.replace(hidden_act=hidden_act), encoder_outputs=True,
                          dtype="float32")
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape) * 0.2
                        + variable.path.endswith("gamma"))
    return model


def weights_of(encoder):
    return {v.path.removeprefix("bert/"): np.asarray(v) for v in encoder.trainable_variables}


def assign_all(pairs):
    """Assign `(variable, value)` pairs, giving each value the variable's shape."""
    for variable, value in pairs:
        variable.assign(value.reshape(variable.shape))


def test_tf_models_official():
    from official.nlp.modeling.networks import BertEncoderV2

    encoder = make_encoder("gelu")
    peer = BertEncoderV2(
        vocab_size=50, hidden_size=16, num_layers=2, num_attention_heads=2, inner_dim=32,
        inner_activation=lambda x: tf.nn.gelu(x, approximate=False),
        max_sequence_length=12, type_vocab_size=2)
    inputs = batch()
    peer(inputs)
    ours = weights_of(encoder)
    # Both list embeddings first, then block by block query, key, value, output, norms and
    # feed-forward; the official blocks put both norms where they are made.
    order = ["embeddings/word_embeddings", "embeddings/position_embeddings",
             "embeddings/token_type_embeddings", "embeddings/LayerNorm/gamma",
             "embeddings/LayerNorm/beta"]
    for block in ("encoder/layer_0", "encoder/layer_1"):
        order += [f"{block}/attention/{part}/{kind}"
                  for part in ("self/query", "self/key", "self/value", "output/dense")
                  for kind in ("kernel", "bias")]
        order += [f"{block}/attention/output/LayerNorm/{kind}" for kind in ("gamma", "beta")]
        order += [f"{block}/{part}/dense/{kind}" for part in ("intermediate", "output")
                  for kind in ("kernel", "bias")]
        order += [f"{block}/output/LayerNorm/{kind}" for kind in ("gamma", "beta")]
    order += ["pooler/dense/kernel", "pooler/dense/bias"]
    assert set(order) == set(ours)
    assign_all(zip(peer.trainable_variables, (ours[name] for name in order), strict=True))
    got, want = encoder(inputs), peer(inputs)
    for key in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(got[key], want[key], atol=1e-4)
    for a, b in zip(got["encoder_outputs"], want["encoder_outputs"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_keras_nlp():
    import keras_hub

    encoder = make_encoder("gelu_approximate")
    peer = keras_hub.models.BertBackbone(
        vocabulary_size=50, num_layers=2, num_heads=2, hidden_dim=16, intermediate_dim=32,
        dropout=0.0, max_sequence_length=12, dtype="float32")
    ours = weights_of(encoder)
    parts = {"query": "attention/self/query", "key": "attention/self/key",
             "value": "attention/self/value", "attention_output": "attention/output/dense",
             "self_attention_layer_norm": "attention/output/LayerNorm",
             "feedforward_intermediate_dense": "intermediate/dense",
             "feedforward_output_dense": "output/dense",
             "feedforward_layer_norm": "output/LayerNorm"}
    heads = {"token_embedding": "embeddings/word_embeddings",
             "position_embedding": "embeddings/position_embeddings",
             "segment_embedding": "embeddings/token_type_embeddings"}

    def name_of(path):
        *folders, kind = path.split("/")
        if folders[0].startswith("transformer_layer_"):
            block = folders[0].removeprefix("transformer_layer_")
            return f"encoder/layer_{block}/{parts[folders[-1]]}/{kind}"
        if "embeddings_layer_norm" in folders:
            return f"embeddings/LayerNorm/{kind}"
        if "pooled_dense" in folders:
            return f"pooler/dense/{kind}"
        return next(name for part, name in heads.items() if part in folders)

    names = [name_of(variable.path) for variable in peer.trainable_variables]
    assert set(names) == set(ours)
    assign_all((variable, ours[name])
               for variable, name in zip(peer.trainable_variables, names, strict=True))
    inputs = batch()
    got = encoder(inputs)
    want = peer({"token_ids": inputs["input_word_ids"], "padding_mask": inputs["input_mask"],
                 "segment_ids": inputs["input_type_ids"]})
    attended = inputs["input_mask"] == 1
    np.testing.assert_allclose(got["sequence_output"][attended],
                               np.asarray(want["sequence_output"])[attended], atol=1e-4)
    np.testing.assert_allclose(got["pooled_output"], want["pooled_output"], atol=1e-4)

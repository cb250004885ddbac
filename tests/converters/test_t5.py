"""The encoders of T5's folders, of both versions and of whole models, beside NumPy."""

import json

import numpy as np
import pytest
from rotary_encoders import WORDS, as_inputs, drawn, examples, write
from safetensors.numpy import load_file

import bert_tf
from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint
from bert_tf.errors import UsageError

HIDDEN, HEADS, HEAD_SIZE, INNER, LAYERS, BUCKETS, FARTHEST, LABELS = 16, 4, 6, 24, 2, 8, 20, 3
CONFIG = {"architectures": ["T5EncoderModel"], "model_type": "t5", "vocab_size": len(WORDS),
          "d_model": HIDDEN, "d_kv": HEAD_SIZE, "d_ff": INNER, "num_layers": LAYERS,
          "num_decoder_layers": 1, "num_heads": HEADS, "dropout_rate": 0.1,
          "feed_forward_proj": "relu", "relative_attention_num_buckets": BUCKETS,
          "relative_attention_max_distance": FARTHEST, "layer_norm_epsilon": 1e-6,
          "initializer_factor": 1.0, "is_encoder_decoder": True, "pad_token_id": 0,
          "eos_token_id": 1, "n_positions": 64, "task_specific_params": {"x": {"prefix": "y: "}}}
GATED = {**CONFIG, "feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new",
         "is_gated_act": True, "tie_word_embeddings": False}
DECODER = {"decoder.embed_tokens.weight": (len(WORDS), HIDDEN),
           "decoder.block.0.layer.1.EncDecAttention.q.weight": (HEADS * HEAD_SIZE, HIDDEN),
           "decoder.final_layer_norm.weight": (HIDDEN,), "lm_head.weight": (len(WORDS), HIDDEN)}
LABEL_HEAD = {"classifier.weight": (LABELS, HIDDEN), "classifier.bias": (LABELS,)}


def tensors_of(config, head=(), prefix=""):
    """A model's tensors under their names."""
    inner = "wi_0 wi_1" if config["feed_forward_proj"].startswith("gated-") else "wi"
    return drawn(prefix, {
        "shared.weight": (len(WORDS), HIDDEN), "encoder.final_layer_norm.weight": (HIDDEN,),
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": (BUCKETS, HEADS)},
        "encoder.block.{}.layer.", {
            **{f"0.SelfAttention.{part}.weight": (HEADS * HEAD_SIZE, HIDDEN) for part in "qkv"},
            "0.SelfAttention.o.weight": (HIDDEN, HEADS * HEAD_SIZE),
            "0.layer_norm.weight": (HIDDEN,), "1.layer_norm.weight": (HIDDEN,),
            **{f"1.DenseReluDense.{part}.weight": (INNER, HIDDEN) for part in inner.split()},
            "1.DenseReluDense.wo.weight": (HIDDEN, INNER)}, LAYERS, dict(head))


def rms_norm(x, gamma):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gamma


def bucket_of(distance):
    """The row of the table of a distance, to - from: of the paper's appendix on distances."""
    after, size, exact = distance > 0, abs(distance), BUCKETS // 4
    if size >= exact:
        wide = np.log(size / exact) / np.log(FARTHEST / exact) * (BUCKETS // 2 - exact)
        size = min(exact + int(wide), BUCKETS // 2 - 1)
    return size + after * (BUCKETS // 2)


def states(tensors, ids, mask, gated):
    """`[batch, tokens, hidden]` after the last norm, in float64."""
    own = {name.removeprefix("transformer.").removesuffix(".weight"): value.astype(np.float64).T
           for name, value in tensors.items()}
    places = range(ids.shape[1])
    table = own["encoder.block.0.layer.0.SelfAttention.relative_attention_bias"]  # [N, buckets]
    bias = table[:, [[bucket_of(to - place) for to in places] for place in places]]
    x = own["shared"].T[ids]
    for layer in range(LAYERS):
        def part(name, layer=layer):
            return own[f"encoder.block.{layer}.layer.{name}"]

        entering = rms_norm(x, part("0.layer_norm"))
        query, key, value = ((entering @ part(f"0.SelfAttention.{name}")).reshape(
            *ids.shape, HEADS, HEAD_SIZE).swapaxes(1, 2) for name in "qkv")
        scores = query @ key.swapaxes(2, 3) + bias  # not scaled
        scores = np.exp(scores - scores.max(-1, keepdims=True)) * mask[:, None, None]
        context = (scores / scores.sum(-1, keepdims=True)) @ value
        x = x + context.swapaxes(1, 2).reshape(*ids.shape, -1) @ part("0.SelfAttention.o")
        entering = rms_norm(x, part("1.layer_norm"))
        if gated:
            inner = entering @ part("1.DenseReluDense.wi_0")
            inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
            inner = inner * (entering @ part("1.DenseReluDense.wi_1"))
        else:
            inner = np.maximum(entering @ part("1.DenseReluDense.wi"), 0)
        x = x + inner @ part("1.DenseReluDense.wo")
    return rms_norm(x, own["encoder.final_layer_norm"])


def long_examples():
    """Inputs of more tokens than distances have buckets of their own."""
    ids, _, mask, _ = (np.repeat(each, 4, axis=1) for each in examples())
    return ids, np.zeros_like(ids), mask, np.zeros((3, 1), int)


@pytest.mark.parametrize(("config", "head", "name"), [
    (CONFIG, {}, "T5EncoderModel"), (GATED, {}, "T5EncoderModel"),
    (GATED, {}, "MT5EncoderModel"), (CONFIG, DECODER, "T5ForConditionalGeneration"),
    (GATED, DECODER, "MT5ForConditionalGeneration")])
def test_states(config, head, name, tmp_path):
    """Of a whole model the decoder is left out."""
    config = {**config, "architectures": [name], "model_type": name.lower().partition("5")[0] + "5"}
    tensors = tensors_of(config, head)
    folder = write(tmp_path / "model", config, tensors)
    assert set(hf_safetensors.read(folder).dropped) == set(head)
    model = bert_tf.from_pretrained(folder)
    assert model.fresh_variables == () and model.config.longest == 64
    batch = long_examples()
    inputs = {key: value for key, value in as_inputs(*batch).items() if "masked" not in key}
    wanted = states(tensors, batch[0], batch[2], config is not CONFIG and "wi_0" in str(tensors))
    found = model(inputs)["sequence_output"] * batch[2][..., None]
    np.testing.assert_allclose(found, wanted * batch[2][..., None], atol=1e-4)
    mean = (wanted * batch[2][..., None]).sum(1) / batch[2].sum(1, keepdims=True)
    np.testing.assert_allclose(model(inputs)["pooled_output"], mean, atol=1e-4)


def test_labels_of_tokens(tmp_path):
    config = {**CONFIG, "architectures": ["T5ForTokenClassification"],
              "id2label": {str(i): f"B-{i}" for i in range(LABELS)}}
    tensors = tensors_of(config, LABEL_HEAD, "transformer.")
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    batch = long_examples()
    inputs = {key: value for key, value in as_inputs(*batch).items() if "masked" not in key}
    head = {name: tensors.pop(name) for name in LABEL_HEAD}
    wanted = states(tensors, batch[0], batch[2], False) @ head["classifier.weight"].T
    real = batch[2][..., None]
    np.testing.assert_allclose(model(inputs) * real,
                               (wanted + head["classifier.bias"]) * real, atol=3e-4)


@pytest.mark.parametrize("config", [CONFIG, GATED])
def test_written_as_read(config, tmp_path):
    """Tensors come back byte for byte, with a configuration of the encoder alone."""
    tensors = tensors_of(config)
    tied = {"encoder.embed_tokens.weight": tensors["shared.weight"]}  # as old files have it
    checkpoint = hf_safetensors.read(write(tmp_path / "model", config, tensors | tied))
    hf_safetensors.write(checkpoint, str(tmp_path / "again"))
    written = load_file(tmp_path / "again" / "model.safetensors")
    assert {each: value.tobytes() for each, value in written.items()} == {
        each: value.tobytes() for each, value in tensors.items()}
    stated = json.loads((tmp_path / "again" / "config.json").read_text())
    assert stated["architectures"] == ["T5EncoderModel"] and not stated["is_encoder_decoder"]
    assert {key: stated[key] for key in ("feed_forward_proj", "d_kv", "dropout_rate")} == {
        key: config[key] for key in ("feed_forward_proj", "d_kv", "dropout_rate")}
    assert hf_safetensors.read(str(tmp_path / "again")).config == checkpoint.config


@pytest.mark.parametrize(("change", "message"), [
    ({"feed_forward_proj": "both-gelu"}, "feed_forward_proj='both-gelu'; expected an activation"),
    ({"feed_forward_proj": 3}, "feed_forward_proj=3"),
    ({"feed_forward_proj": "gated-selu"}, "feed_forward_proj='selu'"),
    ({"dense_act_fn": "gelu"}, "dense_act_fn='gelu' with feed_forward_proj='relu'; exp"),
    ({"is_gated_act": True}, "is_gated_act=True"),
    ({"relative_attention_num_buckets": 2}, "position_buckets=2"),
    ({"model_type": "umt5"}, "model_type='umt5'"),
    ({"architectures": ["T5ForSequenceClassification"]}, "architectures=")])
def test_other_models_are_refused(change, message, tmp_path):
    folder = write(tmp_path / "model", {**CONFIG, **change}, tensors_of(CONFIG))
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)


@pytest.mark.parametrize("change", [
    {"norm": "layer_norm"}, {"attention_probs_dropout_prob": 0.2}, {"score_size": 0},
    {"pooling": "first"}, {"feed_forward": "gated", "hidden_act": "gelu"}])
def test_what_a_folder_cannot_say_is_refused(change, tmp_path):
    checkpoint = hf_safetensors.read(write(tmp_path / "model", CONFIG, tensors_of(CONFIG)))
    with pytest.raises(UsageError, match=list(change)[-1].removeprefix("attention_probs_")):
        hf_safetensors.write(Checkpoint(checkpoint.config.replace(**change), checkpoint.task,
                                        checkpoint.tensors), str(tmp_path / "again"))

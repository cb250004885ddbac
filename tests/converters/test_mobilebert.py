"""MobileBERT's folders, beside tf-models-official's MobileBERTEncoder and its masked-LM head."""

import json

import numpy as np
import pytest
import tensorflow as tf
from official.nlp.modeling import layers, networks
from rotary_encoders import WORDS, as_inputs, check_written, drawn, examples, write
from safetensors.numpy import load_file

import bert_tf
from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors
from bert_tf.distill.distiller import _last_relations
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder

HIDDEN, WITHIN, WIDTH, HEADS, INNER, LAYERS, LABELS = 16, 12, 6, 2, 20, 2, 3
CONFIG = {"architectures": ["MobileBertForPreTraining"], "model_type": "mobilebert",
          "vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "relu",
          "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.1,
          "max_position_embeddings": 32, "type_vocab_size": 2, "initializer_range": 0.02,
          "layer_norm_eps": 1e-12, "pad_token_id": 0, "embedding_size": WIDTH,
          "trigram_input": True, "use_bottleneck": True, "intra_bottleneck_size": WITHIN,
          "use_bottleneck_attention": False, "key_query_shared_bottleneck": True,
          "num_feedforward_networks": 3, "normalization_type": "no_norm",
          "classifier_activation": False, "true_hidden_size": WITHIN, "tie_word_embeddings": True}
ALIKE = {"use_bottleneck_attention": False, "key_query_shared_bottleneck": False,
         "intra_bottleneck_size": HIDDEN}
LAYER_NORM = {"normalization_type": "layer_norm", "layer_norm_eps": 1e-5}
MASKED_LM = {"cls.predictions.bias": (len(WORDS),),
             "cls.predictions.dense.weight": (HIDDEN - WIDTH, len(WORDS)),
             "cls.predictions.transform.dense.weight": (HIDDEN, HIDDEN),
             "cls.predictions.transform.dense.bias": (HIDDEN,),
             "cls.predictions.transform.LayerNorm.weight": (HIDDEN,),
             "cls.predictions.transform.LayerNorm.bias": (HIDDEN,)}
NEXT = {"cls.seq_relationship.weight": (2, HIDDEN), "cls.seq_relationship.bias": (2,)}
POOLER = {"mobilebert.pooler.dense.weight": (HIDDEN, HIDDEN),
          "mobilebert.pooler.dense.bias": (HIDDEN,)}
LABEL_HEAD = {"classifier.weight": (LABELS, HIDDEN), "classifier.bias": (LABELS,)}
LABELLED = {"id2label": {str(i): str(i) for i in range(LABELS)}}


def tensors_of(head, config=CONFIG, prefix="mobilebert."):
    """A model's tensors under their names; norms scale by about 1."""
    within = config["intra_bottleneck_size"] if config["use_bottleneck"] else HIDDEN
    value = within if config["use_bottleneck_attention"] else HIDDEN
    dense = {"attention.self.query": (within, within), "attention.self.key": (within, within),
             "attention.self.value": (within, value), "attention.output.dense": (within, within)}
    norms = {"attention.output": within, "output": within}
    networks = ["", *(f"ffn.{i}." for i in range(config["num_feedforward_networks"] - 1))]
    for network in networks:
        dense |= {f"{network}intermediate.dense": (INNER, within),
                  f"{network}output.dense": (within, INNER)}
        norms[f"{network}output"] = within
    bottlenecks = {"bottleneck.input": (within, HIDDEN), "output.bottleneck": (HIDDEN, within)}
    if config["key_query_shared_bottleneck"]:
        bottlenecks["bottleneck.attention"] = within, HIDDEN
    for name, shape in bottlenecks.items() if config["use_bottleneck"] else ():
        dense[f"{name}.dense"], norms[name] = shape, shape[0]
    block = {f"{name}.{end}": shape[:size] for name, shape in dense.items()
             for end, size in (("weight", 2), ("bias", 1))}
    block |= {f"{name}.LayerNorm.{end}": (width,) for name, width in norms.items()
              for end in ("weight", "bias")}
    embeddings = {"word_embeddings.weight": (len(WORDS), WIDTH),
                  "position_embeddings.weight": (32, HIDDEN),
                  "token_type_embeddings.weight": (2, HIDDEN),
                  "embedding_transformation.weight": (HIDDEN, 3 * WIDTH),
                  "embedding_transformation.bias": (HIDDEN,),
                  "LayerNorm.weight": (HIDDEN,), "LayerNorm.bias": (HIDDEN,)}
    tensors = drawn(prefix, {f"embeddings.{name}": shape for name, shape in embeddings.items()},
                    "encoder.layer.{}.", block, LAYERS, head)
    return {name: 1 + value / 5 if "LayerNorm.weight" in name else
            value / 4 if "layer" in name and "weight" in name else value
            for name, value in tensors.items()}


def fill(layer, tensors, name):
    """Give a Keras 2 layer the weights that Hugging Face's files have under a name."""
    ends = {"kernel": "weight", "gamma": "weight", "embeddings": "weight", "beta": "bias",
            "bias": "bias"}
    for variable in layer.trainable_variables:
        kind = variable.name.split("/")[-1].split(":")[0]
        value = tensors[f"{name}.{ends[kind]}"]
        variable.assign((value.T if kind == "kernel" else value).reshape(variable.shape))


def official(tensors, config):
    """tf-models-official's encoder with these weights."""
    names = ("type_vocab_size", "hidden_size", "num_attention_heads", "intermediate_size",
             "intra_bottleneck_size", "use_bottleneck_attention", "key_query_shared_bottleneck",
             "num_feedforward_networks", "normalization_type", "classifier_activation")
    encoder = networks.MobileBERTEncoder(
        word_vocab_size=len(WORDS), word_embed_size=WIDTH, max_sequence_length=32,
        num_blocks=LAYERS, intermediate_act_fn=config["hidden_act"],
        **{name: config[name] for name in names})
    own, theirs = encoder.embedding_layer, "mobilebert.embeddings"
    for layer, name in ((own.word_embedding, "word_embeddings"), (own.layer_norm, "LayerNorm"),
                        (own.type_embedding, "token_type_embeddings"),
                        (own.pos_embedding, "position_embeddings"),
                        (own.word_embedding_proj, "embedding_transformation")):
        fill(layer, tensors, f"{theirs}.{name}")
    for number, block in enumerate(encoder.transformer_layers):
        parts, theirs = block.block_layers, f"mobilebert.encoder.layer.{number}"
        attention, norm = parts["attention"]
        named = [(attention._query_dense, "attention.self.query"),
                 (attention._key_dense, "attention.self.key"),
                 (attention._value_dense, "attention.self.value"),
                 (attention._output_dense, "attention.output.dense"),
                 (norm, "attention.output.LayerNorm")]
        for name, other in (("bottleneck_input", "bottleneck.input"),
                            ("kq_shared_bottleneck", "bottleneck.attention"),
                            ("bottleneck_output", "output.bottleneck")):
            if name in parts and parts[name][0].built:
                named += [(parts[name][0], f"{other}.dense"),
                          (parts[name][-1], f"{other}.LayerNorm")]
        for index, network in enumerate(parts["ffn"]):
            prefix = "" if index == len(parts["ffn"]) - 1 else f"ffn.{index}."
            named += zip(network, (f"{prefix}{end}" for end in (
                "intermediate.dense", "output.dense", "output.LayerNorm")), strict=True)
        for layer, name in named:
            fill(layer, tensors, f"{theirs}.{name}")
    if config["classifier_activation"]:
        fill(encoder.pooler_layer, tensors, "mobilebert.pooler.dense")
    return encoder


def check_close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(("change", "head"), [
    ({}, {}), ({"classifier_activation": True, "num_feedforward_networks": 1}, POOLER),
    ({"use_bottleneck_attention": True, "hidden_act": "tanh"}, {}), (ALIKE, {}), (LAYER_NORM, {})])
def test_states_and_logits(change, head, tmp_path):
    """Rows end with padding, which the last token of some has as a neighbour."""
    config = CONFIG | change
    tensors = tensors_of(MASKED_LM | NEXT | head, config)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    assert model.fresh_variables == () and model.config.longest == 32
    batch = examples()
    ids, segments, mask, positions = batch
    ids[~mask] = 0
    inputs = as_inputs(*batch)
    peer = official(tensors, config)
    expected = peer({name: inputs[name] for name in (
        "input_word_ids", "input_mask", "input_type_ids")})
    mlm = layers.MobileBertMaskedLM(peer.get_embedding_table(), activation=config["hidden_act"])
    positions = tf.constant(positions, tf.int32)
    mlm(expected["sequence_output"], positions)
    mlm.extra_output_weights.assign(tensors["cls.predictions.dense.weight"].T)
    mlm.bias.assign(tensors["cls.predictions.bias"])
    fill(mlm.dense, tensors, "cls.predictions.transform.dense")
    fill(mlm.layer_norm, tensors, "cls.predictions.transform.LayerNorm")
    encoder = model.encoder.backbone
    for padding_free in (False, True):
        encoder.padding_free = padding_free
        states = encoder(inputs, encoder_outputs=True)
        for ours, theirs in zip([states["embedding_output"], *states["encoder_outputs"]],
                                expected["encoder_outputs"], strict=True):
            check_close(ours * mask[..., None], theirs * mask[..., None])
        check_close(states["pooled_output"], expected["pooled_output"])
        check_close(encoder(inputs, pooled_only=True), expected["pooled_output"])
        logits = model(inputs)
        check_close(logits["masked_lm_logits"], mlm(expected["sequence_output"], positions))
        check_close(logits["next_sentence_logits"],
                    expected["pooled_output"] @ tensors["cls.seq_relationship.weight"].T
                    + tensors["cls.seq_relationship.bias"])


@pytest.mark.parametrize(("name", "head", "change"), [
    ("MobileBertForPreTraining", MASKED_LM | NEXT, {}),
    ("MobileBertForPreTraining", MASKED_LM | NEXT | POOLER, {"classifier_activation": True}),
    ("MobileBertForMaskedLM", MASKED_LM, LAYER_NORM), ("MobileBertModel", {}, ALIKE),
    ("MobileBertForSequenceClassification", LABEL_HEAD | POOLER, {"classifier_activation": True}),
    ("MobileBertForSequenceClassification", LABEL_HEAD,
     {"use_bottleneck": False, "num_feedforward_networks": 2}),
    ("MobileBertForTokenClassification", LABEL_HEAD, {}),
    ("MobileBertForQuestionAnswering", {"qa_outputs.weight": (2, HIDDEN), "qa_outputs.bias": (2,)},
     {"use_bottleneck_attention": True, "key_query_shared_bottleneck": False})])
def test_written_as_read(name, head, change, tmp_path):
    """Tensors come back byte for byte, and the configuration."""
    config = CONFIG | change | {"architectures": [name]} | (
        LABELLED if "classifier.bias" in head else {})
    tensors = tensors_of(head, config, "" if name == "MobileBertModel" else "mobilebert.")
    read = hf_safetensors.read(write(tmp_path / "model", config, tensors))
    check_written(read, tensors, tmp_path / "again")
    written = json.loads((tmp_path / "again" / "config.json").read_text())
    unread = {"true_hidden_size"} | ({"intra_bottleneck_size", "key_query_shared_bottleneck"}
                                     if not config["use_bottleneck"] else set())
    assert {key: written.get(key) for key in config.keys() - unread} == {
        key: config[key] for key in config.keys() - unread}
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == tensors.keys()


def test_weights_that_are_not_used_stay_behind(tmp_path):
    """As transformers has them, of a bottleneck, and as files have a pooler of none."""
    config = CONFIG | {"use_bottleneck_attention": True}
    read = hf_safetensors.read(write(tmp_path / "model", config, tensors_of(
        MASKED_LM | NEXT | POOLER, config)))
    assert {name.split(".")[-3] for name in read.dropped} == {"attention", "pooler"}
    assert not read.config.key_query_shared_bottleneck and read.config.pooling == "first"


def test_as_first_published(tmp_path):
    """Without the name of a class, and with copies of what is tied."""
    config = {key: value for key, value in CONFIG.items() if key != "architectures"}
    tensors = tensors_of(MASKED_LM | NEXT)
    words = tensors["mobilebert.embeddings.word_embeddings.weight"]
    copies = {"cls.predictions.decoder.weight": words,
              "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
              "mobilebert.embeddings.position_ids": np.arange(32)[None]}
    read = hf_safetensors.read(write(tmp_path / "model", config, tensors | copies))
    assert {*read.dropped} == copies.keys()
    check_written(read, tensors, tmp_path / "again")


def test_relations_of_the_last_layer():
    """Queries are made of their bottleneck, values of what enters the layer."""
    config = ModelConfig.from_dict({
        "family": "mobilebert", "vocab_size": len(WORDS), "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "embedding_size": WIDTH,
        "intra_bottleneck_size": WITHIN})
    encoder = build_encoder(config, encoder_outputs=True, seed=1)
    inputs = {name: value for name, value in as_inputs(*examples()).items()
              if name.startswith("input")}
    states = encoder(inputs)["encoder_outputs"]
    weights = {variable.path.split("layer_1/")[-1]: variable.numpy()
               for variable in encoder.weights}

    def dense(x, name):
        return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    query, _, value = _last_relations(encoder, states)
    shared = dense(states[0], "kq_shared_bottleneck/dense")  # its scale is 1, its shift 0 at first
    np.testing.assert_allclose(query, dense(shared, "attention/self/query"), atol=1e-5)
    np.testing.assert_allclose(value, dense(states[0], "attention/self/value"), atol=1e-5)


@pytest.mark.parametrize(("change", "message"), [
    ({"trigram_input": False}, "trigram_input=False; expected True"),
    ({"normalization_type": "rms"}, "normalization_type='rms'; expected one of no_norm, layer_nor"),
    ({"normalization_type": "layer_norm"}, "layer_norm_eps=1e-12; expected 1e-05, which transform"),
    ({"key_query_shared_bottleneck": False}, "which transformers does not compute; expected hidde"),
    ({"intra_bottleneck_size": 13}, "intra_bottleneck_size=13 over num_attention_heads=2"),
    ({"embedding_size": HIDDEN}, "embedding_size=16 with masked_lm_head='extended'; expected les"),
    ({"expand": 2}, "expand=2, which we do not know")])
def test_other_models_are_refused(change, message, tmp_path):
    folder = write(tmp_path / "model", CONFIG | change, tensors_of(MASKED_LM | NEXT))
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)


def test_what_their_format_has_no_place_for(tmp_path):
    read = hf_safetensors.read(write(tmp_path / "model", CONFIG, tensors_of(MASKED_LM | NEXT)))
    for change, message in (({"trigram_input": False}, "trigram_input=False cannot be written"),
                            ({"norm": "rms_norm"}, "normalization_type='rms_norm'"),
                            ({"pooling": "mean"}, "pooling='mean' cannot be written")):
        assert message in hf_safetensors.refusal(read.config.replace(**change), read.task)

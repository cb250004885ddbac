"""Hugging Face folders: every byte there and back, what real files hold."""

import json

import hf_models
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save

from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors, ours
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.converters.hf_tokenizer import to_json
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.families import build_encoder
from bert_tf.presets import generator_config, preset
from bert_tf.tokenization.byte_pair import BytePairTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

# Keys of config.json that say nothing about what is computed from our inputs.
_SILENT = {"transformers_version", "use_cache", "bos_token_id", "eos_token_id", "is_decoder",
           "add_cross_attention", "pad_token_id"}


def _same(one, other):
    assert list(one) == list(other)
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("name", hf_models.MODELS)
def test_there_and_back_changes_no_byte(shared, tmp_path, name):
    checkpoint = hf_models.read(shared, name)
    assert not checkpoint.dropped
    assert checkpoint.tensors.shapes == parameter_shapes(checkpoint.config, checkpoint.task)
    assert hf_safetensors.write(checkpoint, str(tmp_path / "out")) == []

    source = shared / "reference" / name
    theirs, written = ((folder / "model.safetensors").read_bytes()
                       for folder in (source, tmp_path / "out"))
    assert theirs == written
    stated, said = (json.loads((folder / "config.json").read_text())
                    for folder in (source, tmp_path / "out"))
    assert {key: said[key] for key in said if key not in _SILENT} == {
        key: value for key, value in stated.items()
        if key not in _SILENT and value is not None and not key.startswith("summary_")}

    again = hf_safetensors.read(str(tmp_path / "out"))
    assert (again.config, again.task) == (checkpoint.config, checkpoint.task)
    _same(checkpoint.tensors, again.tensors)


@pytest.mark.parametrize(("family", "expected"), [
    ("bert", {}), ("eurobert", {"bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]"}),
    ("modernbert", {"bos": "[CLS]", "eos": "[SEP]", "cls": "[CLS]", "sep": "[SEP]"})])
def test_special_tokens_are_those_of_the_vocabulary(tmp_path, family, expected):
    """Else their classes have numbers of their own, beyond a small vocabulary."""
    entries = ["a", *SPECIAL_TOKENS]
    config = preset(family, "tiny", len(entries)).replace(padding_id=1)
    build_encoder(config, seed=1).save_pretrained(
        str(tmp_path / "own"), Tokenizer(Vocabulary(entries), lower_case=True))
    hf_safetensors.write(ours.read(str(tmp_path / "own")), str(tmp_path / "out"))
    said = json.loads((tmp_path / "out/config.json").read_text())
    assert {key: said[key] for key in said if key.endswith("_token_id") and key[:3] != "pad"} == {
        f"{name}_token_id": entries.index(token) for name, token in expected.items()}


@pytest.mark.parametrize(("name", "fields", "task"), [
    ("hf_bert", {"family": "bert", "hidden_act": "gelu", "head_act": "", "pooling": "dense"},
     {"task": "pretraining", "sentence_task": "next_sentence"}),
    ("hf_bert_tasks/token_classification", {"pooling": "first"},
     {"task": "tagger", "labels": [f"LABEL_{i}" for i in range(5)]}),
    ("hf_albert", {"hidden_act": "gelu_approximate", "embedding_size": 16,
                   "num_hidden_groups": 1}, {"task": "pretraining",
                                             "sentence_task": "sentence_order"}),
    ("hf_electra/generator", {"embedding_size": 32, "pooling": "first"},
     {"task": "pretraining", "sentence_task": None}),
    ("hf_electra/discriminator", {"hidden_act": "gelu"},
     {"task": "replaced_tokens", "generator": None}),
    ("hf_roberta", {"padding_id": 1, "layer_norm_eps": 1e-5, "max_position_embeddings": 66,
                    "longest": 64, "type_vocab_size": 1}, {"task": "pretraining",
                                                           "sentence_task": None}),
    ("hf_gpt", {"hidden_act": "gelu_approximate", "layer_norm_eps": 1e-5, "attention": "causal",
                "intermediate_size": 256}, {"task": "language_model"}),
])
def test_configurations_are_carried(shared, name, fields, task):
    checkpoint = hf_models.read(shared, name)
    assert {key: getattr(checkpoint.config, key) for key in fields} == fields
    assert checkpoint.task == task


def test_masked_lm_transforms_that_are_erf_whatever_hidden_act_says(shared, tmp_path):
    for name in ("hf_roberta", "hf_electra/generator"):
        folder = hf_models.changed(shared, name, tmp_path / name, {"hidden_act": "gelu_new"})
        checkpoint = hf_safetensors.read(folder)
        assert checkpoint.config.hidden_act == "gelu_approximate"
        assert checkpoint.config.head_act == "gelu"
        tanh = checkpoint.config.replace(head_act="gelu_approximate")
        with pytest.raises(UsageError, match="head_act='gelu_approximate' cannot be written"):
            hf_safetensors.write(Checkpoint(tanh, checkpoint.task, checkpoint.tensors),
                                 str(tmp_path / "out"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf_electra", "hf_roberta"]


def _with_copies(arrays):
    arrays["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"]
    arrays["cls.predictions.decoder.bias"] = arrays["cls.predictions.bias"]
    arrays["bert.embeddings.position_ids"] = np.arange(64)[np.newaxis]


def _old_names(arrays):
    return {name.replace("LayerNorm.weight", "LayerNorm.gamma")
            .replace("LayerNorm.bias", "LayerNorm.beta"): array for name, array in arrays.items()}


def _only_the_copy(arrays):
    arrays["cls.predictions.decoder.weight"] = arrays.pop(
        "bert.embeddings.word_embeddings.weight")


@pytest.mark.parametrize("change", [_with_copies, _old_names, _only_the_copy])
def test_what_real_files_hold(shared, tmp_path, change):
    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in", change=change)
    _same(hf_models.read(shared, "hf_bert").tensors, hf_safetensors.read(folder).tensors)


def test_keys_that_nothing_depends_on(shared, tmp_path):
    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in", {
        "pooler_type": "first_token_transform", "emb_size": 312, "eos_token_ids": 0})
    _same(hf_models.read(shared, "hf_bert").tensors, hf_safetensors.read(folder).tensors)


def test_the_first_gpt_as_it_was_published(shared, tmp_path):
    """Without a prefix, with the triangles of its masks and with the tied head."""
    def publish(arrays):
        bare = {name.removeprefix("transformer."): array for name, array in arrays.items()}
        masks = {f"h.{i}.attn.bias": np.tri(64)[np.newaxis, np.newaxis] for i in range(3)}
        return bare | masks | {"lm_head.weight": bare["tokens_embed.weight"]}

    checkpoint = hf_safetensors.read(hf_models.changed(shared, "hf_gpt", tmp_path / "in",
                                                       change=publish))
    assert checkpoint.dropped == ("h.0.attn.bias", "h.1.attn.bias", "h.2.attn.bias",
                                  "lm_head.weight")
    assert checkpoint.task == {"task": "language_model"}
    _same(hf_models.read(shared, "hf_gpt").tensors, checkpoint.tensors)


def test_a_copy_that_is_not_tied_is_refused(shared, tmp_path):
    def untie(arrays):
        _with_copies(arrays)
        arrays["cls.predictions.decoder.weight"] = arrays["cls.predictions.decoder.weight"] + 1

    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in", change=untie)
    with pytest.raises(UsageError, match="decoder.weight differs from bert.embeddings.word_emb"):
        hf_safetensors.read(folder)
    assert "cls.predictions.decoder.weight" in hf_safetensors.read_encoder(folder).dropped


def test_a_head_that_is_not_tied_is_none_of_an_encoder_or_a_classifier(shared, tmp_path):
    def untie(arrays):
        arrays["decoder.weight"] = arrays["model.embeddings.tok_embeddings.weight"] + 1

    untied = {"tie_word_embeddings": False, "decoder_bias": False}
    folder = hf_models.changed(shared, "hub/modernbert_mlm", tmp_path / "lm", untied, untie)
    with pytest.raises(UsageError, match="decoder.weight differs from model.embeddings.tok_emb"):
        hf_safetensors.read(folder)
    name = "hub/modernbert_classification"
    for theirs, found in (("hub/modernbert_mlm", hf_safetensors.read_encoder(folder)),
                          (name, hf_safetensors.read(hf_models.changed(
                              shared, name, tmp_path / "labels", untied)))):
        whole = hf_models.read(shared, theirs)
        _same(found.tensors, {key: whole.tensors[key] for key in found.tensors})


@pytest.mark.parametrize(("name", "prefix"), [("hf_bert", "bert."), ("hf_albert", "albert."),
                                              ("hf_gpt", "transformer.")])
def test_a_bare_model_without_prefix(shared, tmp_path, name, prefix):
    bare = json.loads((shared / "reference" / name / "config.json").read_text())["architectures"]
    bare = [bare[0].replace("ForPreTraining", "Model").replace("LMHeadModel", "Model")]
    folder = hf_models.changed(shared, name, tmp_path / "in", {"architectures": bare},
                               lambda arrays: {key.removeprefix(prefix): array
                                               for key, array in arrays.items()
                                               if key.startswith(prefix)})
    checkpoint = hf_safetensors.read(folder)
    assert checkpoint.task == {"task": "encoder"}
    whole = hf_models.read(shared, name)
    _same(checkpoint.tensors, {key: whole.tensors[key] for key in checkpoint.tensors})
    hf_safetensors.write(checkpoint, str(tmp_path / "out"))
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == bare


@pytest.mark.parametrize(("architectures", "change", "sentence_task"), [
    (["BertForMaskedLM"], None, "next_sentence"),  # as bert-base-uncased is published
    (None, None, "next_sentence"),
    (["BertForMaskedLM"], lambda arrays: {
        key: array for key, array in arrays.items()
        if "seq_relationship" not in key and "pooler" not in key}, None),
])
def test_the_heads_in_the_file_count(shared, tmp_path, architectures, change, sentence_task):
    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in",
                               {"architectures": architectures}, change)
    checkpoint = hf_safetensors.read(folder)
    assert checkpoint.task == {"task": "pretraining", "sentence_task": sentence_task}
    assert checkpoint.config.pooling == ("dense" if sentence_task else "first")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_as_float32(shared, tmp_path, dtype):
    folder = hf_models.changed(shared, "hf_gpt", tmp_path / "in", change=lambda arrays: {
        key: array.astype(dtype) for key, array in arrays.items()})
    halves = hf_safetensors.read(folder).tensors
    for name, array in hf_models.read(shared, "hf_gpt").tensors.items():
        assert halves[name].dtype == np.float32
        np.testing.assert_array_equal(halves[name], array.astype(dtype).astype(np.float32))


def _shards(arrays, folder, name="{:05}.safetensors"):
    names = sorted(arrays)
    weight_map = {}
    for i, keys in enumerate((names[::2], names[1::2])):
        (folder / f"{i:05}.safetensors").write_bytes(save({key: arrays[key] for key in keys}))
        weight_map |= {key: name.format(i) for key in keys}
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


def test_several_files(shared, tmp_path):
    folder = hf_models.changed(shared, "hf_roberta", tmp_path / "in")
    arrays = hf_models.tensors(tmp_path / "in")
    _shards(arrays, tmp_path / "in")
    whole = hf_models.read(shared, "hf_roberta")
    _same(whole.tensors, hf_safetensors.read(folder).tensors)

    (tmp_path / "in" / "00001.safetensors").write_bytes(save({"other": arrays["lm_head.bias"]}))
    with pytest.raises(BertTfError, match="index.json: 00001.safetensors lacks lm_head"):
        hf_safetensors.read(folder)
    (tmp_path / "in" / "model.safetensors").touch()
    _shards(arrays, tmp_path / "in", "../in/{:05}.safetensors")
    with pytest.raises(BertTfError, match="'../in/00000.safetensors'; expected a file beside"):
        hf_safetensors.read(folder)


def test_generator_and_discriminator_are_one_model(shared, tmp_path):
    folder = hf_models.electra_pair(shared, tmp_path / "in")
    checkpoint = hf_safetensors.read(folder)
    assert checkpoint.tensors.shapes == parameter_shapes(checkpoint.config, checkpoint.task)
    assert checkpoint.task["generator"]["hidden_size"] == 48
    assert "generator/encoder/layer_2/output/dense/kernel" in checkpoint.tensors
    hf_safetensors.write(checkpoint, str(tmp_path / "out"))
    for half in ("discriminator", "generator"):
        theirs, written = (hf_models.tensors(tmp_path / each / half) for each in ("in", "out"))
        _same(dict(sorted(theirs.items())), dict(sorted(written.items())))
    again = hf_safetensors.read(str(tmp_path / "out"))
    assert (again.config, again.task) == (checkpoint.config, checkpoint.task)


def test_generator_and_discriminator_that_share_nothing(shared, tmp_path):
    with pytest.raises(UsageError, match=r"electra/embeddings/word_embeddings \(400, 32\) of the "
                                         "generator differs"):
        hf_models.read(shared, "hf_electra")
    folder = hf_models.electra_pair(shared, tmp_path / "in", config={"layer_norm_eps": 1e-5})
    with pytest.raises(UsageError, match="layer_norm_eps=1e-05 of the generator"):
        hf_safetensors.read(folder)


@pytest.mark.parametrize("family", ["deberta", "modernbert"])
def test_of_a_discriminator_without_a_class_the_encoder_is_written(tmp_path, family):
    config = ModelConfig.from_dict({
        "family": family, "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 32})
    task = {"task": "replaced_tokens", "generator": generator_config(config).to_dict()}
    values = {name: np.random.default_rng(len(name)).normal(size=shape).astype(np.float32)
              for name, shape in parameter_shapes(config, task).items()}
    tensors = Tensors({name: value.shape for name, value in values.items()}, values.get)
    told = hf_safetensors.write(Checkpoint(config, task, tensors, None), str(tmp_path / "out"))
    assert "the encoder alone is written" in told[0]
    back = hf_safetensors.read(str(tmp_path / "out"))
    assert back.task == {"task": "encoder"}
    assert back.tensors.shapes.keys() == parameter_shapes(config, back.task).keys()
    assert all(back.tensors[name].tobytes() == values[name].tobytes() for name in back.tensors)


def test_the_shape_of_a_head_of_labels_matters_to_one_only(tmp_path):
    config = ModelConfig.from_dict({
        "family": "roberta", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 32, "label_head": "linear"})
    shapes = parameter_shapes(config, {"task": "encoder"})
    tensors = Tensors(shapes, lambda name: np.zeros(shapes[name], np.float32))
    hf_safetensors.write(Checkpoint(config, {"task": "encoder"}, tensors), str(tmp_path / "out"))
    back = hf_safetensors.read(str(tmp_path / "out"))
    assert (back.task, back.tensors.shapes) == ({"task": "encoder"}, tensors.shapes)


def test_casing_goes_both_ways(shared, tmp_path):
    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in")
    vocabulary = "".join(f"{token}\n" for token in (
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map("t{}".format, range(395))))
    (tmp_path / "in" / "vocab.txt").write_text(vocabulary)
    (tmp_path / "in" / "tokenizer_config.json").write_text(
        json.dumps({"lower_case": True, "strip_accents": False, "pretokenize": "morphemes"}))
    hf_safetensors.write(hf_safetensors.read(folder), str(tmp_path / "out"))
    assert (tmp_path / "out" / "vocab.txt").read_text() == vocabulary
    written = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert written["do_lower_case"] is True and written["strip_accents"] is False
    assert written["tokenizer_class"] == "PreTrainedTokenizerFast"
    ours.write(hf_safetensors.read(str(tmp_path / "out")), str(tmp_path / "back"))
    back = load_tokenizer(str(tmp_path / "back"))
    assert (back.lower_case, back.strip_accents, back.pretokenize) == (True, False, "morphemes")


@pytest.mark.parametrize(("normalizer", "cased"), [
    ({"type": "BertNormalizer", "lowercase": True, "strip_accents": None}, (True, True)),
    ({"type": "BertNormalizer", "lowercase": False, "strip_accents": None}, (False, False)),
    ({"type": "BertNormalizer", "lowercase": True, "strip_accents": False}, (True, False)),
])
def test_a_word_piece_vocabulary_in_tokenizer_json_alone(shared, tmp_path, normalizer, cased):
    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map("t{}".format, range(395))]
    (tmp_path / "in" / "tokenizer.json").write_text(json.dumps({
        **to_json(Tokenizer(Vocabulary(tokens))), "normalizer": normalizer}))
    (tmp_path / "in" / "tokenizer_config.json").write_text('{"model_max_length": 64}')
    checkpoint = hf_safetensors.read(folder)
    assert not checkpoint.notes
    ours.write(checkpoint, str(tmp_path / "out"))
    tokenizer = load_tokenizer(str(tmp_path / "out"))
    assert tokenizer.vocabulary.tokens == tokens
    assert (tokenizer.lower_case, tokenizer.strip_accents) == cased


def test_a_byte_pair_vocabulary_in_tokenizer_json_alone(shared, tmp_path):
    folder = hf_models.changed(shared, "hf_roberta", tmp_path / "in")
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "ab"]
    (tmp_path / "in" / "tokenizer.json").write_text(json.dumps(
        to_json(BytePairTokenizer(tokens, [("a", "b")]))))
    ours.write(hf_safetensors.read(folder), str(tmp_path / "out"))
    tokenizer = load_tokenizer(str(tmp_path / "out"))
    assert tokenizer.tokenize(["aab"]).to_list() == [[5, 7]]

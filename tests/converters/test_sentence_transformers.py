"""Folders of sentence-transformers give its vectors, go back, and say what they cannot."""

import json
import shutil

import numpy as np
import pytest
import tiny_model
from harness import unsealed
from safetensors.numpy import load_file, save_file

from bert_tf.converters import hf_safetensors, ours, sentence_transformers
from bert_tf.converters.formats import read_model
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.find import find_model
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer

FOLDERS = ("bert_st_cls", "bert_st_mean", "bert_unigram_st", "modernbert_st", "mpnet_st",
           "roberta_st_korean", "xlm_roberta_st")
SPECIAL = ("[MASK]", "<mask>")  # written out in a text: plain text here unless asked


def embedder_of(folder, tmp_path):
    """The model that the folder's conversion is read as."""
    checkpoint = sentence_transformers.read(str(folder))
    ours.write(checkpoint, str(tmp_path / "ours"))
    return from_pretrained(str(tmp_path / "ours"), dtype="float32")


def vectors_of(source):
    """The texts of a reference folder and what sentence-transformers gives for them."""
    texts = json.loads((source / "expected.json").read_text())["sentence_embeddings_of"]
    with np.load(source / "sentence_embeddings.npz") as arrays:
        return texts, arrays["sentence_embeddings"]


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] * (name not in ("bert_st_cls", "xlm_roberta_st")))
    for name in FOLDERS])
def test_vectors(shared, name, tmp_path):
    source = shared / "reference" / "hub" / name
    assert find_model(str(source)).kind == "sentence_transformers"
    model = embedder_of(source, tmp_path)
    assert model.preprocessor.seq_length == 48
    texts, expected = vectors_of(source)
    tokenizer = model.preprocessor.tokenizer
    vectors = model.embed(texts)
    for i, text in enumerate(texts):
        if any(token in text for token in SPECIAL):
            pieces = tokenizer.tokenize([text], allow_special=True)
            vectors[i] = model(pack(tokenizer.vocabulary, [pieces], 48, fixed=False))[0]
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_way_back(shared, name, tmp_path):
    source, target = shared / "reference" / "hub" / name, tmp_path / "out"
    checkpoint = sentence_transformers.read(str(source))
    sentence_transformers.write(checkpoint, str(target))
    for file in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        theirs, back = (json.loads((folder / file).read_text()) for folder in (source, target))
        if isinstance(theirs, dict):
            back = {key: back[key] for key in theirs}
        assert back == theirs, file
    theirs, back = (load_file(folder / "model.safetensors") for folder in (source, target))
    assert set(back) == set(theirs)
    for tensor, array in theirs.items():
        np.testing.assert_array_equal(back[tensor], array, tensor)
    again = sentence_transformers.read(str(target))
    assert (again.config, again.task) == (checkpoint.config, checkpoint.task)


@pytest.fixture
def folder(shared, tmp_path):
    """`folder(change)` is a copy of a folder in which `{file: change(object)}` was done."""
    def make(changes=(), name="bert_st_mean"):
        target = tmp_path / "changed"
        shutil.copytree(shared / "reference" / "hub" / name, target)
        target.chmod(0o755)
        for file, change in dict(changes).items():
            path = target / file
            values = json.loads(path.read_text()) if path.exists() else {}
            path.unlink(missing_ok=True)
            path.write_text(json.dumps(change(values)))
        return target
    return make


def _with(**further):
    return lambda values: {**values, **further}


def _module(kind, place):
    return {"idx": 2, "name": "2", "path": place, "type": f"sentence_transformers.models.{kind}"}


def _mode(name):
    return lambda values: {key: key == name if key.startswith("pooling_mode") else value
                           for key, value in {**values, name: True}.items()}


@pytest.mark.parametrize(("flag", "pooling"), [
    ("pooling_mode_max_tokens", "max"), ("pooling_mode_lasttoken", "sep")])
def test_other_poolings(folder, flag, pooling):
    changed = folder({"1_Pooling/config.json": _mode(flag)})
    assert sentence_transformers.read(str(changed)).task["pooling"] == pooling


def test_a_pooling_in_a_list(folder):
    changed = folder({"1_Pooling/config.json": lambda _: {"pooling_mode": ["cls"]}})
    assert sentence_transformers.read(str(changed)).task["pooling"] == "cls"


def test_a_pooling_without_any_flag_is_the_mean(folder):
    changed = folder({"1_Pooling/config.json": _with(pooling_mode_mean_tokens=False)})
    assert sentence_transformers.read(str(changed)).task["pooling"] == "mean"


@pytest.mark.parametrize("bias", [True, pytest.param(False, marks=pytest.mark.long)])
def test_dense_and_prompts(folder, tmp_path, bias):
    """A dense layer with tanh on the mean, whose vectors are in the reference."""
    random = np.random.default_rng(0)
    layer = {"linear.weight": random.normal(0, 0.3, (20, 36)).astype("float32")}
    layer |= {"linear.bias": random.normal(0, 0.3, 20).astype("float32")} if bias else {}
    changed = folder({
        "modules.json": lambda modules: [*modules, _module("Dense", "2_Dense"),
                                         _module("Normalize", "3_Normalize")],
        "config_sentence_transformers.json": _with(prompts={"query": "query: ", "document": ""})})
    (changed / "2_Dense").mkdir()
    (changed / "2_Dense" / "config.json").write_text(json.dumps({
        "in_features": 36, "out_features": 20, "bias": bias,
        "activation_function": "torch.nn.modules.activation.Tanh"}))
    save_file(layer, changed / "2_Dense" / "model.safetensors")
    texts, means = vectors_of(changed)
    expected = np.tanh(means @ layer["linear.weight"].T + layer.get("linear.bias", 0))
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    model = embedder_of(changed, tmp_path)
    plain = [i for i, text in enumerate(texts) if not any(token in text for token in SPECIAL)]
    texts = [texts[i] for i in plain]
    np.testing.assert_allclose(model.embed(texts), expected[plain], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(model.embed(texts, prompt="query"),
                                  model.embed([f"query: {text}" for text in texts]))
    np.testing.assert_array_equal(model.embed(texts, prompt="document"), model.embed(texts))
    with pytest.raises(UsageError, match="prompt='passage'"):
        model.embed(texts, prompt="passage")

    model.save_pretrained(str(tmp_path / "again"))
    sentence_transformers.write(ours.read(str(tmp_path / "again")), str(tmp_path / "back"))
    for tensor, array in layer.items():
        np.testing.assert_array_equal(
            load_file(tmp_path / "back" / "2_Dense" / "model.safetensors")[tensor], array)
    again = sentence_transformers.read(str(tmp_path / "back"))
    assert again.task["dense"] == {"units": 20, "act": "tanh", "use_bias": bias}
    assert again.task["prompts"] == {"query": "query: ", "document": ""}


def test_two_dense_layers(folder, tmp_path):
    """As EmbeddingGemma has them: without biases, one wider than the states."""
    random = np.random.default_rng(0)
    layers = [random.normal(0, 0.3, shape).astype("float32") for shape in ((40, 36), (20, 40))]
    changed = folder({"modules.json": lambda modules: [
        *modules, _module("Dense", "2_Dense"), _module("Dense", "3_Dense")]})
    for number, layer in enumerate(layers, 2):
        (changed / f"{number}_Dense").mkdir()
        (changed / f"{number}_Dense" / "config.json").write_text(json.dumps({
            "in_features": layer.shape[1], "out_features": layer.shape[0], "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity"}))
        save_file({"linear.weight": layer}, changed / f"{number}_Dense" / "model.safetensors")
    texts, means = vectors_of(changed)
    model = embedder_of(changed, tmp_path)
    plain = [i for i, text in enumerate(texts) if not any(token in text for token in SPECIAL)]
    np.testing.assert_allclose(model.embed([texts[i] for i in plain]),
                               means[plain] @ layers[0].T @ layers[1].T, rtol=0, atol=1e-5)
    model.save_pretrained(str(tmp_path / "again"))
    checkpoint = ours.read(str(tmp_path / "again"))
    sentence_transformers.write(checkpoint, str(tmp_path / "back"))
    for number, layer in enumerate(layers, 2):
        np.testing.assert_array_equal(load_file(
            tmp_path / "back" / f"{number}_Dense" / "model.safetensors")["linear.weight"], layer)
    again = sentence_transformers.read(str(tmp_path / "back"))
    assert again.task["dense"] == [{"units": units, "act": "linear", "use_bias": False}
                                   for units in (40, 20)]
    checkpoint.task["dense"][1]["act"] = "silu"
    with pytest.raises(UsageError, match="act='silu' of a dense layer cannot be written"):
        sentence_transformers.write(checkpoint, str(tmp_path / "other"))


def test_what_sentence_transformers_6_states_besides(folder):
    changed = folder({"sentence_bert_config.json": _with(
        transformer_task="feature-extraction", module_output_name="token_embeddings",
        modality_config={"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        query_length=None)})
    assert sentence_transformers.read(str(changed)).task["pooling"] == "mean"


@pytest.mark.parametrize(("similarity", "told"), [
    ("cosine", False), ("dot", True), ("euclidean", True)])
def test_another_similarity_than_the_cosine_is_told(folder, similarity, told):
    changed = folder({
        "config_sentence_transformers.json": _with(similarity_fn_name=similarity),
        "modules.json": lambda modules: modules[:2]})  # without normalization
    notes = sentence_transformers.read(str(changed)).notes
    assert [f"similarity_fn_name={similarity!r}" in note for note in notes] == [True] * told


def test_a_cross_encoder_with_modules_is_a_folder_of_transformers(folder):
    """As sentence-transformers 6 saves it."""
    changed = folder({
        "modules.json": lambda _: [{"idx": 0, "name": "0", "path": "", "type":
                                    "sentence_transformers.base.modules.transformer.Transformer"}],
        "config_sentence_transformers.json": _with(model_type="CrossEncoder", prompts={}),
        "sentence_bert_config.json": _with(transformer_task="sequence-classification")},
        "bert_cross_encoder")
    assert read_model(str(changed)).task["problem"] == "regression"


def test_the_encoder_counts_whatever_class_is_named(folder):
    """all-mpnet-base-v2 names MPNetForMaskedLM and has no such head."""
    changed = folder({"config.json": _with(architectures=["MPNetForMaskedLM"])}, "mpnet_st")
    assert sentence_transformers.read(str(changed)).config.family == "mpnet"


@pytest.mark.parametrize("model", ["roberta", "xlm-roberta"])
def test_the_length_in_the_file_of_older_folders(folder, model):
    changed = folder({})
    (changed / "sentence_bert_config.json").rename(changed / f"sentence_{model}_config.json")
    assert sentence_transformers.read(str(changed)).task["reading"]["seq_length"] == 48


@pytest.mark.parametrize("lower_case", [True, False])
def test_their_lower_case_is_what_sentence_piece_does(tmp_path, lower_case):
    tokenizer = SentencePieceTokenizer(tiny_model.sentence_piece().model, lower_case,
                                       normalization="albert_huggingface")
    config = tiny_model.config_of(tokenizer, family="albert")
    SentenceEmbedder(config, preprocessor=TextPreprocessor(tokenizer, 16)).save_pretrained(
        str(tmp_path / "ours"))
    sentence_transformers.write(ours.read(str(tmp_path / "ours")), str(tmp_path / "theirs"))
    unsealed(tmp_path / "theirs")
    path = tmp_path / "theirs" / "sentence_bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": True}))
    if lower_case:
        read = sentence_transformers.read(str(tmp_path / "theirs"))
        assert read.task["reading"]["seq_length"] == 16
    else:
        with pytest.raises(UsageError, match="do_lower_case=True"):
            sentence_transformers.read(str(tmp_path / "theirs"))


@pytest.mark.parametrize(("file", "change", "message"), [
    ("modules.json", lambda modules: [*modules, _module("LSTM", "2_LSTM")],
     "the modules Transformer, Pooling, LSTM"),
    ("modules.json", lambda modules: [{**modules[0], "type": "custom_st.Transformer"}, modules[1]],
     "modules.json: the module 'custom_st.Transformer'; expected a class of sentence_transformers"),
    ("modules.json", lambda modules: {}, "names no modules"),
    ("1_Pooling/config.json", _with(pooling_mode_cls_token=True), "pooling cls and mean"),
    ("1_Pooling/config.json", _mode("pooling_mode_weightedmean_tokens"), "weightedmean"),
    ("1_Pooling/config.json", lambda _: {"pooling_mode": ["mean", "cls"]}, "pooling mean and cls"),
    ("1_Pooling/config.json", lambda _: {"pooling_mode": {}}, "pooling {}; expected one of"),
    ("1_Pooling/config.json", _with(word_embedding_dimension=8), "word_embedding_dimension=8"),
    ("config_sentence_transformers.json", _with(default_prompt_name="query"),
     "default_prompt_name='query'"),
    ("config_sentence_transformers.json", _with(truncate_dim=8),
     "truncate_dim=8; expected null; try null in the file, and --dimensions where vectors are"),
    ("sentence_bert_config.json", _with(tokenizer_args={"do_lower_case": True}),
     "tokenizer_args={'do_lower_case': True}; expected {}"),
    ("sentence_bert_config.json", _with(query_length=8), "query_length=8; expected null"),
    ("sentence_bert_config.json", _with(transformer_task="fill-mask"),
     "transformer_task='fill-mask'; expected \"feature-extraction\""),
    ("tokenizer_config.json", _with(truncation_side="left"), "truncation_side='left'"),
    ("tokenizer.json", _with(truncation={"max_length": 8, "direction": "Left"}),
     "truncation.direction='Left'; expected \"Right\""),
    ("tokenizer.json", _with(truncation=[8]), r"truncation=\[8\]; expected null or an object"),
    ("config_sentence_transformers.json", _with(prompts={"query": "\ud800"}),
     r"prompts={'query': '\\ud800'}, which is no text; expected characters that UTF-8 has"),
    ("sentence_bert_config.json", _with(max_seq_length="many"), "max_seq_length='many'")])
def test_what_is_not_computed_is_refused_by_name(folder, file, change, message):
    with pytest.raises(UsageError, match=message):
        sentence_transformers.read(str(folder({file: change})))


def test_a_module_outside_the_folder_is_refused(folder):
    with pytest.raises(BertTfError, match="'../x/config.json' in .* points outside its folder"):
        sentence_transformers.read(str(folder({"modules.json": lambda modules: [
            {**module, "path": "../x"} for module in modules]})))


@pytest.mark.parametrize(("module", "key", "value"), [
    ("Dense", "activation_function", "custom_act.GELU"), ("Dense", "use_residual", True),
    ("Dense", "module_input_name", "token_embeddings"),
    ("Normalize", "module_input_name", "token_embeddings")])
def test_options_of_modules_that_change_vectors(folder, module, key, value):
    place = f"2_{module}"
    changed = folder({"modules.json": lambda modules: [*modules, _module(module, place)]})
    (changed / place).mkdir()
    config = {"in_features": 36, "out_features": 36, "bias": False, key: value}
    (changed / place / "config.json").write_text(json.dumps(config))
    save_file({"linear.weight": np.eye(36, dtype="float32")},
              changed / place / "model.safetensors")
    with pytest.raises(UsageError, match=f"{place}/config.json: {key}={value!r}( is|; expec)"):
        sentence_transformers.read(str(changed))


def test_a_prompt_that_is_left_out_of_the_mean_is_refused(folder):
    changes = {"1_Pooling/config.json": _with(include_prompt=False)}
    prompts = {"config_sentence_transformers.json": _with(prompts={"query": "q: "})}
    with pytest.raises(UsageError, match="include_prompt=False with prompts; expected true"):
        sentence_transformers.read(str(folder({**changes, **prompts})))


def test_what_they_have_no_place_for(shared, tmp_path):
    checkpoint = sentence_transformers.read(str(shared / "reference" / "hub" / "bert_st_mean"))
    for change, message in (({"pooling": "mean_max"}, "pooling='mean_max'"),
                            ({"layers": [1]}, r"layers=\[1\]"),
                            ({"mask_specials": True}, "mask_specials=True")):
        checkpoint.task.update(change)
        with pytest.raises(UsageError, match=message):
            sentence_transformers.write(checkpoint, str(tmp_path / "out"))
        checkpoint = sentence_transformers.read(
            str(shared / "reference" / "hub" / "bert_st_mean"))
    with pytest.raises(UsageError, match="of the task 'encoder'"):
        sentence_transformers.write(hf_safetensors.read(
            str(shared / "reference" / "hub" / "bert_st_mean")), str(tmp_path / "out"))

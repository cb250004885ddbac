"""A published language model that answers yes or no is the reranker that it is: its scores are the
logits of one token less those of another, after the whole text that its chat template writes."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from asked_pairs import chat_tokenizer

import bert_tf
from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors, ours
from bert_tf.converters.formats import find_format
from bert_tf.errors import BertTfError, UsageError
from bert_tf.finetune.init import Start
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.signatures import description, signatures
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.pretraining.language_model import LanguageModel

ABOUT, MODULES, OPTIONS = ("config_sentence_transformers.json", "modules.json",
                           "sentence_bert_config.json")
SCORE, CHAT = "1_LogitScore/config.json", "chat_template.jinja"
TYPE = "sentence_transformers.{}"
FORM = {"method": "forward", "method_output_name": "logits"}
PROMPT = "Find answers."
# The role of the system has a default; two line breaks at the end, of which Jinja drops one.
TEMPLATE = """\
{%- set wanted = messages | selectattr("role", "eq", "system") | map(attribute="content") | first
    | default("Be right.") -%}
{%- set asked = messages | selectattr("role", "eq", "query") | map(attribute="content") | first -%}
<|start|>system
{{ wanted }}<|end|>
<|start|>user
<Query>: {{ asked }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}
<|end|>
<|start|>assistant
<think>

</think>


"""
PAIRS = [("What is it?", "It is that."), ("수도는?", " 서울.\n\n"), ("  a\n", "no\t?\n"), ("", "b"),
         ("e\u0301", "\u0301"), ("a", "")]


def rendered(query, passage, prompt=PROMPT):
    return (f"<|start|>system\n{prompt}<|end|>\n<|start|>user\n<Query>: {query}\n<Document>: "
            f"{passage}\n<|end|>\n<|start|>assistant\n<think>\n\n</think>\n\n")


def change(folder, name, **values):
    """Set keys of a JSON file."""
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def published(request, tmp_path_factory):
    """A model and its folder; logits by the embeddings, unless another head is asked for."""
    head, tokenizer = getattr(request, "param", "tied"), chat_tokenizer()
    folder = tmp_path_factory.mktemp(head)
    config = ModelConfig.from_dict({
        "family": "qwen3", "vocab_size": len(tokenizer.vocabulary) + 3, "hidden_size": 16,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "attention_head_size": 8, "intermediate_size": 24, "max_position_embeddings": 256,
        "initializer_range": 0.4, "masked_lm_head": head})
    model = LanguageModel(config, seed=1)
    model.save_pretrained(str(folder / "ours"), tokenizer)
    hf_safetensors.write(ours.read(str(folder / "ours")), str(folder / "hf"))
    folder = folder / "hf"
    (folder / SCORE).parent.mkdir()
    for name, values in (
            (MODULES, [{"path": "", "type": TYPE.format("base.modules.transformer.Transformer")},
                       {"path": "1_LogitScore", "type": TYPE.format(
                           "cross_encoder.modules.logit_score.LogitScore")}]),
            (ABOUT, {"model_type": "CrossEncoder", "prompts": {"web": PROMPT, "other": "x"},
                     "default_prompt_name": "web",
                     "activation_fn": "torch.nn.modules.linear.Identity"}),
            (OPTIONS, {"transformer_task": "text-generation", "module_output_name": "causal_logits",
                       "modality_config": {"text": FORM, "message": {**FORM, "format": "flat"}}}),
            (SCORE, {"true_token_id": tokenizer.vocabulary.id("yes"), "module_input_name":
                     "causal_logits", "false_token_id": tokenizer.vocabulary.id("no")})):
        (folder / name).write_text(json.dumps(values))
    (folder / CHAT).write_text(TEMPLATE)
    (folder / "checksums.json").unlink()
    return model, folder


@pytest.fixture
def copy(published, tmp_path):
    shutil.copytree(published[1], tmp_path / "copy")
    return tmp_path / "copy"


def expected(model, texts, tokens=("yes", "no")):
    """The logits of the one token after each text, less those of the other."""
    tokenizer = chat_tokenizer()
    yes, *no = map(tokenizer.vocabulary.id, tokens)
    ids = tokenizer.tokenize(texts, allow_special=True)
    last = ids.row_lengths() - 1
    ids = tf.pad(ids.to_tensor(), [[0, 0], [0, 1]])  # what is last predicts nothing
    logits = model({"input_word_ids": ids, "input_mask": tf.ones_like(ids),
                    "input_type_ids": tf.zeros_like(ids)})["language_model_logits"]
    logits = tf.gather(logits, last, batch_dims=1).numpy()
    return logits[:, yes] - sum(logits[:, each] for each in no)


@pytest.mark.parametrize("published", ["tied", "linear"], indirect=True)
def test_scores(published):
    model, folder = published
    assert find_format(str(folder)) == "hf"
    checkpoint = hf_safetensors.read(str(folder))
    assert checkpoint.task["reading"]["pair"] is True
    (note,) = checkpoint.notes
    assert "prompts={'other': 'x'} are left out" in note
    reranker = bert_tf.from_pretrained(str(folder))
    wanted = expected(model, [rendered(*pair) for pair in PAIRS])
    np.testing.assert_allclose(reranker(PAIRS)[:, 0], wanted, atol=2e-5)
    with pytest.raises(UsageError, match="single texts with a template; expected pairs of texts"):
        reranker(tf.constant(["a"]))


def test_served(published, tmp_path):
    model, folder = published
    ours.write(hf_safetensors.read(str(folder)), str(tmp_path / "ours"))
    served = load_served(str(tmp_path / "ours"), seq_length=200)
    rows = signatures(served)
    assert "rank" in rows and [*rows["predict"].inputs] == ["text_a", "text_b"]
    query, passage = map(tf.constant, zip(*PAIRS, strict=True))
    np.testing.assert_allclose(rows["rank"].function(served, query=query, passage=passage)["score"],
                               expected(model, [rendered(*pair) for pair in PAIRS]), atol=2e-5)
    (size,) = served.model.preprocessor.count([[""], [""]]).numpy()
    assert description(served)["pair_tokens"] == size


def test_fine_tuned_in_its_template(published, tmp_path):
    folder = str(tmp_path / "ours")
    ours.write(hf_safetensors.read(str(published[1])), folder)
    start = Start(ModelConfig.load(f"{folder}/model_config.json"), chat_tokenizer(), folder)
    made = {"preprocessor": TextPreprocessor(start.tokenizer, 150, pair=True), "loss": "binary"}
    ranker = start.build("ranker", {}, **start.within_template("ranker", made))
    assert ranker.fresh_variables == () and ranker.preprocessor.reading() == {
        **made["preprocessor"].reading(),
        "template": hf_safetensors.read(str(published[1])).task["reading"]["template"]}
    assert start.within_template("classifier", made) == made
    again = bert_tf.from_pretrained(folder, "ranker")
    assert again.fresh_variables == () and again.preprocessor.reading() == bert_tf.from_pretrained(
        folder).preprocessor.reading()


def test_written_as_a_classifier_with_its_template(published, tmp_path):
    """By which `CrossEncoder` gives the same scores."""
    read = hf_safetensors.read(str(published[1]))
    assert hf_safetensors.write(read, str(tmp_path / "out")) == []
    again = hf_safetensors.read(str(tmp_path / "out"))
    assert (again.config, again.task, again.notes) == (read.config, read.task, ())
    for name in read.tensors:
        np.testing.assert_array_equal(again.tensors[name], read.tensors[name])
    assert json.loads((tmp_path / "out" / MODULES).read_text())[0]["type"].endswith(".Transformer")


def test_one_token_no_prompt_and_the_template_of_older_folders(published, copy):
    change(copy, SCORE, false_token_id=None)
    change(copy, ABOUT, default_prompt_name=None)
    (copy / CHAT).unlink()
    listed = [{"template": "x"}, {"name": "other", "template": "x"},
              {"name": "default", "template": TEMPLATE}]
    change(copy, "tokenizer_config.json", chat_template=listed)
    found = bert_tf.from_pretrained(str(copy))((["a"], ["b"]))
    np.testing.assert_allclose(
        found[:, 0], expected(published[0], [rendered("a", "b", "Be right.")], ["yes"]), atol=2e-5)


def test_messages_that_list_what_they_hold(copy):
    change(copy, OPTIONS, modality_config={"message": {**FORM, "format": "structured"}},
           processing_kwargs={"chat_template": {"add_generation_prompt": True}})
    (copy / CHAT).write_text("{% for m in messages %}{{ m.role }}={{ m.content[0].text }}|"
                             "{% endfor %}{% if add_generation_prompt %}!{% endif %}")
    assert hf_safetensors.read(str(copy)).task["reading"]["template"] == [
        f"system={PROMPT}|query=", "text_a", "|document=", "text_b", "|!"]


def test_passage_first_and_without_the_white_space_around_it(published, copy, tmp_path):
    (copy / CHAT).write_text("<|start|>{{ messages[2].content | trim }}\n?<|end|>\n"
                             "{{ messages[1].content }}<|end|>{{ messages[0].content }}")
    read = hf_safetensors.read(str(copy))
    ours.write(read, str(tmp_path / "ours"))
    hf_safetensors.write(ours.read(str(tmp_path / "ours")), str(tmp_path / "hf"))
    assert hf_safetensors.read(str(tmp_path / "hf")).task == read.task
    pairs = [*PAIRS, (" a ", "\u3000\x1f b\xa0\n"), ("b", "\u200bno ")]
    wanted = expected(published[0], [
        f"<|start|>{passage.strip()}\n?<|end|>\n{query}<|end|>{PROMPT}"
        for query, passage in pairs])
    ranker = bert_tf.from_pretrained(str(tmp_path / "ours"), "ranker")
    query, passage = map(tf.constant, zip(*pairs, strict=True))
    np.testing.assert_allclose(ranker((query, passage))[:, 0], wanted, atol=2e-5)
    served = load_served(str(tmp_path / "ours"), seq_length=200)
    found = signatures(served)["rank"].function(served, query=query, passage=passage)["score"]
    np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize(("name", "values", "message"), [
    (CHAT, "{% for i in range(9) %}{% endfor %}", "a call of range"),
    (CHAT, None, "has no chat_template.jinja"), (CHAT, "x" * 1000, "what it makes of a query"),
    (CHAT, "y" * 300 + TEMPLATE, "seq_length=256 with a template of"),
    (OPTIONS, {"modality_config": {"message": {"format": "other"}}}, "format='other' of messages"),
    (OPTIONS, {"modality_config": {"message": {"format": []}}}, "format=[] of messages"),
    (OPTIONS, {"modality_config": {"message": "x"}}, f"{OPTIONS}: modality_config: message='x'; "),
    (OPTIONS, {"modality_config": ["message"]}, f"{OPTIONS}: modality_config=['message']; exp"),
    (OPTIONS, {"processing_kwargs": {"text": {"max_length": 9}}}, "processing_kwargs="),
    (OPTIONS, {"processing_kwargs": {"chat_template": 3}}, "chat_template=3; expected an object"),
    (ABOUT, {"prompts": ["x"]}, f"{ABOUT}: prompts=['x']; expected an object"),
    (ABOUT, {"default_prompt_name": [1]}, f"{ABOUT}: default_prompt_name=[1] of the prompts"),
    (CHAT, b"\xff", f"{CHAT} line 1: byte 0xff at column 1 is not UTF-8"),
    (OPTIONS, {"do_lower_case": True}, "do_lower_case=True"),
    (OPTIONS, {"modality_config": {"text": FORM}}, "default_prompt_name='web'; expected null")])
def test_pairs_that_are_read_otherwise(copy, name, values, message):
    """The model scores token ids alone."""
    if isinstance(values, dict):
        change(copy, name, **values)
    elif values is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(values if isinstance(values, bytes) else values.encode())
    found = hf_safetensors.read(str(copy))
    assert found.task["problem"] == "regression" and found.task["reading"] is None
    assert "it takes no text: " in found.notes[-1] and message in found.notes[-1]


@pytest.mark.parametrize(("name", "values", "message"), [
    (SCORE, {"true_token_id": 9999}, "true_token_id=9999; expected the id of one of"),
    (SCORE, {"true_token_id": None}, "true_token_id=None of a qwen3 model"),
    (SCORE, {"false_token_id": True}, "false_token_id=True"),
    (SCORE, {"module_input_name": "x"}, "module_input_name='x'"),
    (OPTIONS, {"transformer_task": "any-to-any"}, "transformer_task='any-to-any'")])
def test_other_scores_are_refused(copy, name, values, message):
    change(copy, name, **values)
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(str(copy))


@pytest.mark.parametrize("path", [None, "../out"])
def test_a_module_that_is_not_there(copy, path):
    modules = json.loads((copy / MODULES).read_text())
    modules[1]["path"] = path
    (copy / MODULES).write_text(json.dumps(modules))
    with pytest.raises(BertTfError, match="a list of type and path|points outside its folder"):
        hf_safetensors.read(str(copy))

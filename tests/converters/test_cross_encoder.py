"""What a folder says to `CrossEncoder` of sentence-transformers is told, refused or written."""

import json
import shutil

import pytest

from bert_tf.converters import hf_safetensors
from bert_tf.errors import UsageError

ABOUT, MODULES = "config_sentence_transformers.json", "modules.json"
TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
DENSE = "sentence_transformers.base.modules.dense.Dense"
IDENTITY, TANH = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh"
FORMER = "sbert_ce_default_activation_function"


@pytest.fixture
def read(shared, tmp_path):
    """`read(config, about, types)` is the `Checkpoint` of a folder with these values."""
    def read(config=(), about=None, types=(TRANSFORMER,), name="bert_cross_encoder"):
        target = tmp_path / "in"
        shutil.copytree(shared / "reference" / "hub" / name, target, copy_function=shutil.copyfile)
        target.chmod(0o755)
        path = target / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | dict(config)))
        if about is not None:
            (target / ABOUT).write_text(json.dumps({"model_type": "CrossEncoder", **about}))
            (target / MODULES).write_text(json.dumps([
                {"idx": i, "name": str(i), "path": f"{i}_" * (i > 0), "type": each}
                for i, each in enumerate(types)]))
        return hf_safetensors.read(str(target))
    return read


@pytest.mark.parametrize(("config", "about", "function"), [
    ({}, None, "the sigmoid"), ({}, {}, "the sigmoid"),
    ({"sentence_transformers": {"activation_fn": IDENTITY, "version": "5.0.0"}}, None, None),
    ({FORMER: IDENTITY}, None, None), ({FORMER: TANH}, None, "Tanh"),
    ({FORMER: "code.of_the.folder.Identity"}, None, "the sigmoid"),
    ({"sentence_transformers": {"activation_fn": TANH}, FORMER: IDENTITY}, None, "Tanh"),
    ({FORMER: TANH}, {"activation_fn": IDENTITY}, None)])
def test_another_function_than_the_identity_is_told(read, config, about, function):
    notes = read(config, about).notes
    assert len(notes) == (function is not None)
    assert function is None or f"gives {function} of them" in notes[0]


def test_several_labels_need_no_note(read):
    assert read(name="bert_multilabel").notes == ()


def test_what_is_written_gives_the_logits_there(read, tmp_path):
    found = read()
    hf_safetensors.write(found, str(tmp_path / "out"))
    stated = json.loads((tmp_path / "out" / "config.json").read_text())
    assert stated["sentence_transformers"] == {"activation_fn": IDENTITY}
    again = hf_safetensors.read(str(tmp_path / "out"))
    assert again.notes == () and again.task == found.task


def test_prompts(read, tmp_path):
    about = {"activation_fn": IDENTITY, "prompts": {"query": "q: "}, "default_prompt_name": None}
    (note,) = read(about=about).notes
    assert "prompts={'query': 'q: '} are left out" in note
    shutil.rmtree(tmp_path / "in")
    for name in ("query", ["query"]):
        found = read(about={**about, "default_prompt_name": name})
        assert found.task["reading"] is None
        assert "takes no text: " in found.notes[-1]
        assert f"default_prompt_name={name!r}; expected null" in found.notes[-1]
        shutil.rmtree(tmp_path / "in")


@pytest.mark.parametrize("types", [(TRANSFORMER, DENSE), ("custom_st.Transformer",)])
def test_modules_that_score(read, tmp_path, types):
    with pytest.raises(UsageError, match="modules.json: pairs are scored by .*; expected Transf"):
        read(about={}, types=types)
    shutil.rmtree(tmp_path / "in")
    found = read(about={"default_prompt_name": "query"}, types=types, name="deberta_v3_encoder")
    assert found.task == {"task": "encoder"}
    assert "what is read is the encoder alone, which gives no score" in found.notes[0]

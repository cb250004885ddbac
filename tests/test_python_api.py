"""Commands as functions: `bert_tf.pretrain(...)`, also though a module has the same name."""

import math
import subprocess
import sys

import pytest

import bert_tf
from bert_tf.errors import UsageError
from bert_tf.storage import files

COMMANDS = ("adapt", "evaluate", "export", "finetune", "learn_vocab", "pretrain")


@pytest.mark.parametrize("imports", [
    "import bert_tf; f = bert_tf.{name}",
    "import bert_tf.{name}; f = bert_tf.{name}",
    "from bert_tf import {name} as f; import bert_tf.{name}",
    "import bert_tf; bert_tf.{name}; from bert_tf.{name} import main; f = bert_tf.{name}",
    "from bert_tf.{name} import {name} as f",
])
def test_a_command_can_be_called_whatever_is_imported_first(imports):
    lines = ["from bert_tf.errors import UsageError", "import sys"]
    for name in COMMANDS:
        lines += [imports.format(name=name), "try:", "    f(seeed=3)",
                  "except UsageError as error:", "    print(error)", "import bert_tf",
                  f"assert bert_tf.{name} is sys.modules['bert_tf.{name}']"]
    lines += ["assert 'tensorflow' not in sys.modules"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True,
                          text=True, check=True)
    assert done.stdout.count("unknown key 'seeed'") == len(COMMANDS)


@pytest.mark.long
def test_from_text_to_a_saved_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(
        "\n\n".join(f"the cat sat on {i} mats\nit saw {i} dogs by the door" for i in range(40)))
    vocab = bert_tf.learn_vocab(input="text.txt", output="vocab/vocab.txt", vocab_size=40,
                                lower_case=True)
    assert vocab == "vocab/vocab.txt" and "cat" in (tmp_path / vocab).read_text().split()
    made = bert_tf.create_examples(bert_tf.CreateDataConfig(
        input="text.txt", vocab=vocab, output_dir="data", max_seq_length=16, num_processes=1))
    assert made["splits"]["train"]["num_examples"] > 0
    files.write_json("sizes.json", {
        "vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 16})
    config = bert_tf.PretrainConfig(
        input="text.txt", vocab=vocab, config="sizes.json", output_dir="runs/cats", train_steps=2,
        batch_size=4, max_seq_length=16, num_processes=1, holdout=0.3)
    result = bert_tf.pretrain(config)
    assert result.run_dir == "runs/cats" and result.saved_model == "saved_models/cats/1"
    assert result.metrics["masked_lm_loss"] == pytest.approx(math.log(40), abs=0.3)
    assert bert_tf.pretrain(config, log_every=1) == result  # finished already
    with pytest.raises(UsageError, match="batch_size was 4, now 8"):
        bert_tf.pretrain(config, batch_size=8)
    assert bert_tf.export(model="runs/cats", dtype="bfloat16") == "saved_models/cats/2"
    assert files.exists("saved_models/cats/2/saved_model.pb")
    files.write_text("table.tsv", "text\tlabel\n" + "".join(
        f"the {word} sat by {i} doors\t{word}\n" for i in range(10) for word in ("cat", "dog")))
    tuned = bert_tf.finetune(
        task="classify", init="runs/cats", train="table.tsv", dev=0.2, epochs=1, batch_size=8,
        max_seq_length=16, output_dir="runs/tuned")
    assert (tuned.run_dir, tuned.saved_model) == ("runs/tuned", "saved_models/tuned/1")
    assert "--dev 0.2" in tuned.results["command"]
    measured = bert_tf.evaluate(bert_tf.EvaluateConfig(model="runs/tuned", data="table.tsv"))
    assert measured["examples"] == 20 and 0 <= measured["metrics"]["accuracy"] <= 1
    assert files.exists("evaluations/tuned_table/results.json")

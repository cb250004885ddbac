"""The main job as a user runs it: text to a SavedModel by one command, twice."""

import json
import pathlib
import subprocess
import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOPICS = ("river", "mountain", "city", "garden", "library", "harbour")
VERBS = ("crosses", "borders", "feeds", "guards", "names", "warms")


def _corpus():
    """Six documents of a small grammar, enough for next sentences and a held-out share."""
    documents = [[f"The {topic} {verb} the {other} in the {season} of the year."
                  for verb in VERBS for other in TOPICS for season in ("spring", "autumn")]
                 for topic in TOPICS]
    return "\n\n".join("\n".join(sentences) for sentences in documents) + "\n"


def _pretrain(folder, *more):
    words = [sys.executable, "-m", "bert_tf.pretrain", "--input", "text.txt", "--vocab_size", "200",
             "--seq_length", "32", "--train_steps", "12", "--eval_every", "6", "--batch_size", "8",
             "--eval_examples", "16", "--holdout", "0.3", "--num_devices", "2", "--whole_word",
             *more]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600,
                          env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})


def test_text_to_saved_model_and_again(tmp_path):
    (tmp_path / "text.txt").write_text(_corpus())
    first = _pretrain(tmp_path)
    assert first.returncode == 0, first.stderr
    assert "unigram entropy" in first.stdout
    assert first.stdout.count("[MASK]") == 3

    run = tmp_path / "runs" / "bert_tiny_text"
    metrics = json.loads((run / "results.json").read_text())["metrics"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["split"] == "eval"][-1]
    assert last["step"] == 12
    assert metrics["masked_lm_loss"] == last["masked_lm_loss"]

    exported = tmp_path / "saved_models" / "bert_tiny_text"
    model = tf.saved_model.load(str(exported / "1"))
    filled = model.signatures["fill_mask"](text=tf.constant(["The [MASK] crosses the [MASK]."]))
    assert filled["num_masks"].numpy().tolist() == [2]
    assert model.signatures["serving_default"](text=tf.constant(["", "river"]))[
        "embedding"].shape == (2, 128)

    again = _pretrain(tmp_path)
    assert again.returncode == 0, again.stderr
    assert "finished already" in again.stdout
    assert [path.name for path in exported.iterdir()] == ["1"]

    other = _pretrain(tmp_path, "--learning_rate", "0.01")
    assert other.returncode == 2
    assert other.stderr.count("\n") == 1
    assert "learning_rate was 0.001, now 0.01" in other.stderr

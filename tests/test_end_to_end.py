"""The main job as a user runs it: text to a SavedModel by one command, twice."""

import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)
from tiny_model import only_signatures

from bert_tf import cli, pretrain

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOPICS = ("river", "mountain", "city", "garden", "library", "harbour")
VERBS = ("crosses", "borders", "feeds", "guards", "names", "warms")
SMALL = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1,
         "intermediate_size": 32, "max_position_embeddings": 40, "vocab_size": 200}


def _corpus():
    """Six documents of a small grammar, enough for next sentences and a held-out share."""
    documents = [[f"The {topic} {verb} the {other} in the {season} of the year."
                  for verb in VERBS for other in TOPICS for season in ("spring", "autumn")]
                 for topic in TOPICS]
    return "\n\n".join("\n".join(sentences) for sentences in documents) + "\n"


@pytest.fixture
def run_pretrain(tmp_path, monkeypatch, capsys):
    """`run_pretrain(*flags)` -> exit code and what was printed on both streams."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.json").write_text(json.dumps({"family": "bert", **SMALL}))

    def run(*more):
        with only_signatures("serving_default", "describe", "embed", "fill_mask"):
            code = cli.run(pretrain.main, [
                "--input", "text.txt", "--config", "small.json", "--vocab_size", "200",
                "--seq_length", "32", "--output_dir", "runs/small",
                "--export_dir", "saved_models/small",
                "--train_steps", "12", "--eval_every", "6", "--batch_size", "8",
                "--eval_examples", "16", "--holdout", "0.3", "--num_devices", "2", "--whole_word",
                "--num_processes", "1", *more])
        return code, *capsys.readouterr()

    handler = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, handler)


def test_text_to_saved_model_and_again(tmp_path, run_pretrain):
    (tmp_path / "text.txt").write_text(_corpus())
    code, out, err = run_pretrain()
    assert code == 0, err
    assert "unigram entropy" in out
    assert out.count("\n  -> ") == 3

    run = tmp_path / "runs" / "small"
    metrics = json.loads((run / "results.json").read_text())["metrics"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["split"] == "eval"][-1]
    assert last["step"] == 12
    assert metrics["masked_lm_loss"] == last["masked_lm_loss"]

    exported = tmp_path / "saved_models" / "small"
    model = tf.saved_model.load(str(exported / "1"))
    filled = model.signatures["fill_mask"](text=tf.constant(["The [MASK] crosses the [MASK]."]))
    assert filled["num_masks"].numpy().tolist() == [2]
    assert model.signatures["serving_default"](text=tf.constant(["", "river"]))[
        "embedding"].shape == (2, 16)

    code, out, err = run_pretrain()
    assert code == 0, err
    assert "finished already" in out
    assert lines == [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [path.name for path in exported.iterdir()] == ["1"]

    code, _, err = run_pretrain("--learning_rate", "0.01")
    assert code == 2
    assert err.count("\n") == 1
    assert "learning_rate was 0.0001, now 0.01" in err


@pytest.mark.long
def test_what_is_trained_is_exported_elsewhere(tmp_path, run_pretrain):
    """How and where to work may change."""
    (tmp_path / "text.txt").write_text(_corpus())
    code, _, err = run_pretrain()
    assert code == 0, err
    before = (tmp_path / "runs" / "small" / "metrics.jsonl").read_bytes()
    code, out, err = run_pretrain("--eval_every", "5", "--checkpoint_every", "4",
                                  "--eval_examples", "8", "--export_dir", "saved_models/elsewhere")
    assert code == 0, err
    assert "trained already; it is exported to saved_models/elsewhere" in out
    elsewhere, first = (tf.saved_model.load(str(tmp_path / "saved_models" / name / "1"))
                        for name in ("elsewhere", "small"))
    ask = {"text": tf.constant(["The [MASK] crosses."])}
    for name, value in elsewhere.signatures["fill_mask"](**ask).items():
        assert tf.reduce_all(value == first.signatures["fill_mask"](**ask)[name])
    assert (tmp_path / "runs" / "small" / "metrics.jsonl").read_bytes() == before
    assert [path.name for path in (tmp_path / "saved_models" / "small").iterdir()] == ["1"]


MODELS = {
    "roberta/mlm": "--max_ngram 2 --masking static",
    "albert/mlm+sop": "--format sentence_pair",
    "electra/rtd": "",
    "gpt/lm": "--format doc_sentences",
    "bert/lm": "",
    # An encoder learns on under another objective: what its folder has not is new.
    "bert/mlm+sop": "--init runs/bert/mlm+nsp",
    "electra/mlm": "--init runs/electra/rtd",
}
_PROGRAM = """
import sys
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from bert_tf import cli, pretrain
for line in sys.stdin:
    # TensorFlow counts tracings by the code of a function: each run has its own, as in a process.
    polymorphic_function._frequent_tracing_detector_manager._detectors.clear()
    print("RUN", line.split()[0], flush=True)
    code = cli.run(pretrain.main, line.split()[1:])
    if code:
        sys.exit(code)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with runs of a few steps, and what each printed."""
    folder = tmp_path_factory.mktemp("objectives")
    (folder / "text.txt").write_text(_corpus())
    lines = []
    for name, flags in {"bert/mlm+nsp": "", **MODELS}.items():
        family, objective = name.split("/")
        config = {"family": family, **SMALL}
        if (family, objective) == ("bert", "lm"):
            config |= {"attention": "causal", "pooling": "last"}
        (folder / f"{family}_{objective}.json").write_text(json.dumps(config))
        if "--init" not in flags:
            flags += f" --config {family}_{objective}.json --vocab_size 200"
        lines.append(f"{name} --objective {objective} --input text.txt --seq_length 32 "
                     f"--train_steps 3 --batch_size 8 --eval_examples 16 --holdout 0.3 "
                     f"--output_dir runs/{name} --export_dir saved_models/{name} {flags}")
    done = subprocess.run([sys.executable, "-c", _PROGRAM], input="\n".join(lines), text=True,
                          cwd=folder, capture_output=True, timeout=900,
                          env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    # Progress alone: neither what TensorFlow and XLA note nor warnings of retracing.
    assert "training: 100%" in done.stderr
    assert not re.search(r"[IWEF]\d{4} \d\d:\d\d:\d\d|absl|WARNING", done.stderr), done.stderr
    printed = dict(part.split("\n", 1) for part in done.stdout.split("RUN ")[1:])
    return folder, printed


@pytest.mark.long
def test_every_objective(runs):
    """Each leaves its figures and its baselines, and a model with the signatures that suit it."""
    folder, printed = runs
    shown = {"masked_lm": ("unigram_entropy", "MLM loss", "fill_mask"),
             "language_model": ("unigram_entropy", "LM loss", "generate"),
             "replaced": ("replaced_rate_entropy", "discriminator: loss", "replaced"),
             "sentence_order": ("sentence_order_accuracy_interval", "SOP accuracy",
                                "sentence_order")}
    tasks = {"mlm": ["masked_lm"], "mlm+sop": ["masked_lm", "sentence_order"],
             "rtd": ["replaced"], "lm": ["language_model"]}
    for name in MODELS:
        metrics = json.loads((folder / "runs" / name / "results.json").read_text())["metrics"]
        signatures = tf.saved_model.load(str(folder / "saved_models" / name / "1")).signatures
        for task in tasks[name.split("/")[1]]:
            baseline, line, signature = shown[task]
            assert f"{task}_loss" in metrics and baseline in metrics, name
            assert line in printed[name] and signature in signatures, name
        assert printed[name].count("\n  -> ") == 3, name
    assert "generator: MLM loss" in printed["electra/rtd"]


@pytest.mark.long
def test_init_says_what_is_new(runs):
    _, printed = runs
    told = "not in runs/bert/mlm+nsp/model, so new: "
    assert (told + "cls/sentence_order/output_bias, cls/sentence_order/output_weights\n"
            in printed["bert/mlm+sop"])
    assert "so new: cls/predictions/LayerNorm" not in printed["electra/mlm"]
    assert "so new: cls/predictions/output_bias" in printed["electra/mlm"]

"""Kill commands with SIGKILL in every stage, run the same command again, compare the results.

    python tests/faults/kill_and_resume.py --tries 200

Three tries in five are of pre-training, the others of convert, finetune, evaluate and index build
(see `kill_commands.py`). One undisturbed run comes first. Then the same command is started, killed
at a random moment of a random stage, started again, and so on until it finishes. After each kill,
what has its name must be whole. At the end final checkpoint, model, vocabulary, examples and
SavedModel must have the undisturbed run's bytes, and `metrics.jsonl` its lines: with dropout 0.1,
dynamic whole-word masking, micro-batches and two replicas, over an epoch's end.
"""

import collections
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS)]

from faults.flags import fault_parser, write_counts  # noqa: E402
from faults.forked import PATIENCE, Forker  # noqa: E402
from faults.kill_commands import kill_commands  # noqa: E402
from faults.whole import check_tidy, check_whole  # noqa: E402

from bert_tf.data import python_prose  # noqa: E402

STEPS, BATCH, EVAL_EVERY, CHECKPOINT_EVERY = 40, 16, 10, 4
STAGES = ("vocabulary", "data", "training", "evaluation", "checkpoint", "export")
ONCE = ("vocabulary", "data", "export")  # the others come again and again


MODEL = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 64, "max_position_embeddings": 32, "hidden_dropout_prob": 0.1,
         "attention_probs_dropout_prob": 0.1, "family": "bert"}


def command(root, folder, dtype):
    """The pre-training command whose results are in `folder`/run and `folder`/saved_model."""
    corpus, config = root / "corpus.txt", root / "model.json"
    corpus.write_text(python_prose.text()[:60_000])
    config.write_text(json.dumps(MODEL))
    options = {
        "input": corpus, "config": config, "output_dir": folder / "run",
        "export_dir": folder / "saved_model", "dtype": dtype, "split": "sentences",
        "vocab_size": 400, "seq_length": 32, "max_predictions_per_seq": 5, "holdout": 0.2,
        "seed": 7, "batch_size": BATCH, "accumulate_steps": 2, "num_devices": 2,
        "num_processes": 2, "train_steps": STEPS, "log_every": 1, "eval_every": EVAL_EVERY,
        "checkpoint_every": CHECKPOINT_EVERY}
    flags = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    return [sys.executable, "-m", "bert_tf.pretrain", *flags, "--whole_word"]


def read_metrics(path):
    """Lines of metrics.jsonl by `(step, split)`, without rates, the last of repeated ones.

    Raises:
        AssertionError: a step stands twice without a restart mark between.
    """
    lines, fresh = {}, set()
    for text in pathlib.Path(path).read_text().splitlines():
        line = json.loads(text)
        if "restart" in line:
            fresh = {key for key in fresh if key[0] <= line["restart"]}
            continue
        key = line["step"], line["split"]
        assert key not in fresh, f"{path}: {key} stands twice without a restart mark"
        fresh.add(key)
        line.pop("tokens_per_second", None)
        lines[key] = line
    return lines


def results(folder):
    """What must not depend on kills: `{name: bytes or lines}`."""
    paths = [folder / "run/vocab.txt", *(folder / "run/data").iterdir(),
             *(folder / f"run/checkpoints/step_{STEPS:08d}").glob("variables.*"),
             *(folder / "run/model").iterdir(),
             *(folder / "saved_model/1/variables").iterdir()]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in paths
             if path.name != "manifest.json"}
    assert sum("checkpoints" in name for name in found) == 2, sorted(found)
    found["metrics.jsonl"] = read_metrics(folder / "run/metrics.jsonl")
    versions = sorted(path.name for path in (folder / "saved_model").iterdir()
                      if path.name.isdigit())
    assert versions == ["1"], f"exported more than once: {versions}"
    check_tidy(folder)
    return found


def last_line(path):
    """The last whole line of metrics.jsonl, `{}` where there is none."""
    try:
        return json.loads(path.read_text().splitlines()[-1])
    except (OSError, IndexError, json.JSONDecodeError):
        return {}


def stage_of(folder):
    """The stage that a process working in `folder` is in, read from the files there."""
    run = folder / "run"
    if not (run / "vocab.json").exists():
        return "vocabulary"
    if not (run / "data/manifest.json").exists():
        return "data"
    if (run / f"checkpoints/step_{STEPS:08d}").exists():
        return "export"
    if any((run / "checkpoints").glob(".tmp-*")):
        return "checkpoint"
    line = last_line(run / "metrics.jsonl")
    if line.get("split") == "train" and line["step"] % EVAL_EVERY == 0:
        return "evaluation"
    return "training"


class Process:
    """The command at work; `log` collects what it prints."""

    def __init__(self, forker, words, folder, log):
        self.folder = folder
        self.log = log
        self.known = self.temporaries()
        self.offset = log.stat().st_size if log.exists() else 0
        self.fork = forker.start(words, log)

    def temporaries(self):
        """Unfinished files and folders of the last stage."""
        return {path.name for part in ("run", "saved_model")
                for path in (self.folder / part).glob(".tmp-*")}

    def working_on(self):
        """The stage this process is at work in, None while it only starts up or looks around."""
        stage = stage_of(self.folder)
        if stage == "export":
            return stage if self.temporaries() - self.known else None
        sign = {"vocabulary": b"counting words", "data": b"vocabulary:"}.get(stage, b"training:")
        if not self.log.exists():
            return None
        with self.log.open("rb") as stream:
            stream.seek(self.offset)
            return stage if sign in stream.read() else None

    def watch(self, until):
        """Poll until `until(stage)` or the end; returns whether the process still runs."""
        while self.fork.poll() is None:
            if until(self.working_on()):
                return True
            if time.monotonic() - self.fork.started > PATIENCE:
                self.fork.kill()
                raise AssertionError(f"no end after {PATIENCE} s; see {self.log}")
            time.sleep(0.002)
        return False

    def kill(self):
        """SIGKILL to the command itself; returns the stage it was in."""
        stage = stage_of(self.folder)
        self.fork.kill()
        return stage

    def close(self):
        """Raise if the command failed by itself; returns its exit code."""
        code = self.fork.wait()
        assert code in (0, -signal.SIGKILL), (f"exit code {code}:\n"
                                              + self.log.read_text(errors="replace")[-3000:])
        return code


def whole_run(forker, words, folder, log):
    """Run to the end; returns seconds at work in each stage."""
    process = Process(forker, words, folder, log)
    spent = collections.Counter()
    before = time.monotonic()

    def count(stage):
        nonlocal before
        now = time.monotonic()
        spent[stage] += now - before
        before = now

    process.watch(count)
    assert process.close() == 0
    return spent


def kill_once(forker, words, folder, log, target, delay, progress):
    """Start the command and kill it `delay` seconds into the `target` stage.

    Args:
        progress: steps to go on first, before a kill in training, evaluation or checkpoint.

    Returns: the stage it was killed in, or None if it finished.
    """
    process = Process(forker, words, folder, log)
    lines = folder / "run/metrics.jsonl"
    first = last_line(lines)
    enough = min(first.get("step", first.get("restart", 0)) + progress, STEPS - EVAL_EVERY)

    def reached(stage):
        if target in ONCE:
            return stage == target or (stage and STAGES.index(stage) > STAGES.index(target))
        line = last_line(lines)
        return stage == target and line != first and line.get("step", 0) >= enough

    running = process.watch(reached)
    if running:
        end = time.monotonic() + delay
        running = process.watch(lambda stage: time.monotonic() >= end)
    stage = process.kill() if running else None
    process.close()
    return stage


def passed(folder, target):
    """Whether a run has passed the stage."""
    return STAGES.index(stage_of(folder)) > STAGES.index(target) or (
        target not in ONCE and stage_of(folder) == "export")


def plan(kills, draw):
    """Targets of the kills, all stages in turn, in the order a run goes through them."""
    stages = draw.sample(STAGES, len(STAGES))
    targets = [stages[i % len(stages)] for i in range(kills)]
    order = {"vocabulary": 0, "data": 1, "export": 3}
    return sorted(targets, key=lambda stage: order.get(stage, 2))


def check(folder, expected):
    """Compare a finished run's results with the undisturbed run's."""
    found = results(folder)
    different = sorted(name for name in expected.keys() | found.keys()
                       if expected.get(name) != found.get(name))
    assert not different, f"differ from the undisturbed run: {different}"


def kill_pretraining(forker, root, tries, dtype, seed, say=print):
    """Do all of it for one compute type; returns how many kills hit each stage.

    Args:
        forker: a `Forker`.
        root: an empty folder; the undisturbed run stays in its subfolder `undisturbed`.
        tries: number of kills.
        dtype: `float32` or `bfloat16`.
        seed: of the moments.
        say: prints progress.

    Raises:
        AssertionError: the results differ, or a run failed by itself.
    """
    draw = random.Random(seed)
    # Paths are part of what a run is: both runs work under one name, one after the other.
    folder, log = root / "work", root / "killed.log"
    words = command(root, folder, dtype)
    spent = whole_run(forker, words, folder, root / "undisturbed.log")
    examples = json.loads((folder / "run/data/manifest.json").read_text())["splits"]["train"]
    assert examples["num_examples"] < STEPS * BATCH, "the run crosses no epoch"
    expected = results(folder)
    folder.rename(root / "undisturbed")
    say(f"{dtype}, undisturbed: " + ", ".join(f"{stage} {spent[stage]:.1f} s" for stage in STAGES))
    hit = collections.Counter()
    targets = plan(tries, draw)
    while sum(hit.values()) < tries:  # each round is a run from the start to the end
        later = []
        while targets and sum(hit.values()) < tries:
            target = targets.pop(0)
            stage = None
            if not passed(folder, target):
                delay = draw.random() * (spent[target] if target in ONCE else 0.02)
                stage = kill_once(forker, words, folder, log, target, delay, draw.randint(1, 8))
            if stage:
                check_whole(folder)
                hit[stage] += 1
                say(f"kill {sum(hit.values())}: aimed at {target}, hit {stage}, step "
                    f"{last_line(folder / 'run/metrics.jsonl').get('step', 0)}")
            if stage != target:
                later.append(target)
        whole_run(forker, words, folder, log)
        check(folder, expected)
        say("the killed run has the undisturbed one's bytes")
        shutil.rmtree(folder)
        targets = later
    return hit


def main():
    parser = fault_parser(__doc__, 200, "kills in all")
    parser.add_argument("--folder", help="where to work (default: a temporary one, deleted)")
    arguments = parser.parse_args()
    root = pathlib.Path(arguments.folder or tempfile.mkdtemp())
    dtypes, total = ("float32", "bfloat16"), collections.Counter()
    others = arguments.tries * 2 // 5
    with Forker() as forker:
        for i, dtype in enumerate(dtypes):
            (root / dtype).mkdir(parents=True)
            total += kill_pretraining(forker, root / dtype, (arguments.tries - others + i) // 2,
                                      dtype, arguments.seed + i)
        total += kill_commands(forker, root / "commands", root / "float32/undisturbed/run",
                               others, arguments.seed)
    print(f"{sum(total.values())} kills: "
          + ", ".join(f"{stage} {count}" for stage, count in total.items()))
    write_counts(arguments.output, {"kills": sum(total.values()), "stages": total})
    if not arguments.folder:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

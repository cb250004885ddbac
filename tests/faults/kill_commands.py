"""Kill convert, finetune, evaluate and index at random moments of their undisturbed time."""

import collections
import json
import random
import shutil
import sys
import time

from faults.whole import check_tidy, check_whole

_PASSAGES = 640  # of the corpus that is indexed
_TIMES = ("seconds", "blake2b")  # what differs from run to run: times, and a seal over them


def commands(root, run, rates=("1e-3", "3e-3")):
    """The commands by name, each `(words, folders of its results)`; one reads what another wrote.

    Args:
        root: folder for the results.
        run: folder of a finished pre-training.
        rates: learning rates that finetune is to try, and its number of seeds.
    """
    table, model, tuned = root / "reviews.tsv", root / "hf", root / "tuned/run"
    corpus, index = root / "passages.txt", root / "index"
    words = {
        "convert": ["--from", "bert_tf", run, "--to", "hf", model],
        "finetune": ["--task", "classify", "--train", table, "--dev", "0.25", "--init", model,
                     "--output_dir", tuned, "--export_dir", root / "tuned/saved_model",
                     "--batch_size", "8", "--seq_length", "16", "--epochs", "2",
                     "--learning_rate", *rates, "--seeds", str(len(rates))],
        "evaluate": ["--task", "classify", "--model", tuned, "--data", table,
                     "--output_dir", root / "measured"],
        # Codes of all shards depend on the first one, the structure of search on all of them.
        "index": ["build", "--model", model, "--corpus", corpus, "--output", index,
                  "--shard_size", "64", "--precision", "int8", "--approximate"]}
    folders = {"convert": model, "finetune": root / "tuned", "evaluate": root / "measured",
               "index": index}
    return {name: ([sys.executable, "-m", f"bert_tf.{name}", *map(str, flags)], [folders[name]])
            for name, flags in words.items()}


def write_texts(root, vocabulary):
    """Write texts of a vocabulary's words: labelled by the half of it that they are of, and a
    corpus of passages."""
    draw = random.Random(3)
    words = sorted(word for word in vocabulary.read_text().split() if word.isalpha())
    rows = ["text\tlabel\n"]
    for number in range(48):
        label = ("early", "late")[number % 2]
        half = words[:len(words) // 2] if label == "early" else words[len(words) // 2:]
        rows.append(f"{' '.join(draw.choices(half, k=6))}\t{label}\n")
    (root / "reviews.tsv").write_text("".join(rows))
    (root / "passages.txt").write_text("\n".join(
        " ".join(draw.choices(words, k=draw.randint(1, 30))) for _ in range(_PASSAGES)))


def results(folders):
    """`{name: bytes or JSON}` of what must not depend on kills."""
    found = {}
    for folder in folders:
        check_whole(folder)
        check_tidy(folder.parent)
        for path in sorted(folder.rglob("*")):
            # TensorFlow names what it writes into saved_model.pb anew each time.
            if path.is_dir() or path.name in ("saved_model.pb", "fingerprint.pb") or (
                    path.name == "checksums.json" and "saved_model" in path.parts):
                continue
            name = str(path.relative_to(folder.parent))
            if path.suffix in (".json", ".jsonl"):
                lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [
                    path.read_text()]
                found[name] = [_timeless(json.loads(line)) for line in lines]
                if path.name == "metrics.jsonl":  # after a kill lines stand twice
                    found[name] = {(line["step"], line["split"]): line for line in found[name]
                                   if "restart" not in line}
            elif "logs" not in path.parts:
                found[name] = path.read_bytes()
    return found


def _timeless(value):
    if isinstance(value, dict):
        return {name: _timeless(each) for name, each in value.items()
                if name not in (*_TIMES, "tokens_per_second")}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def kill_commands(forker, root, run, tries, seed, rates=("1e-3", "3e-3"), say=print):
    """Kill each command in turn; returns how many kills hit each.

    Args:
        forker: a `Forker`.
        root: folder to work in.
        run, rates: as of `commands`.
        tries: number of kills.
        seed: of the moments.
        say: prints progress.

    Raises:
        AssertionError: the results differ, or a command failed by itself.
    """
    root.mkdir(parents=True, exist_ok=True)
    draw, hit, log = random.Random(seed), collections.Counter(), root.parent / "commands.log"
    write_texts(root, run / "vocab.txt")
    chosen = commands(root, run, rates)
    for number, (name, (words, folders)) in enumerate(chosen.items()):
        started = time.monotonic()
        _finish(forker, words, log)
        whole_time = time.monotonic() - started
        expected = results(folders)
        say(f"{name}, undisturbed: {whole_time:.1f} s")
        wanted = (tries + number) // len(chosen)
        while hit[name] < wanted:
            for folder in folders:
                shutil.rmtree(folder)
            for _ in range(min(draw.randint(1, 3), wanted - hit[name])):
                moment = draw.random() * whole_time
                fork = forker.start(words, log)
                while fork.poll() is None and time.monotonic() - fork.started < moment:
                    time.sleep(0.002)
                if fork.poll() is None:
                    fork.kill()
                    hit[name] += 1
                    say(f"kill {sum(hit.values())}: {name} after {moment:.2f} s")
                for folder in folders:
                    check_whole(folder)
            _finish(forker, words, log)
            found = results(folders)
            different = sorted(each for each in expected.keys() | found.keys()
                               if expected.get(each) != found.get(each))
            assert not different, f"differ from the undisturbed run: {different}"
            say("the killed run has the undisturbed one's results")
    return hit


def _finish(forker, words, log):
    code, said = forker.run(words, log)
    if code and words[2] == "bert_tf.convert" and "exists; try" in said:
        return  # the kill came when the folder was there already: whole, as is checked
    assert code == 0, f"exit code {code}:\n{said[-3000:]}"

"""Flip a bit of a file, or cut it short, and read it: an error that names it, or the same result.

    python tests/faults/bit_flips.py --tries 1000

Of each kind of folder a file is drawn, and of the file a bit or a length; then it is read as the
commands read it and put back. Where another tool wrote a folder nothing tells what it held: there a
changed result is counted apart, and only a crash, an error of no kind of ours, a hang or an
allocation of more than a GB is a fault. What may end the process is read in a fork.
"""

import collections
import dataclasses
import hashlib
import importlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402
from flags import fault_parser, write_counts  # noqa: E402

import bert_tf  # noqa: E402
from bert_tf.converters import hf_safetensors, ours  # noqa: E402
from bert_tf.data import python_prose  # noqa: E402
from bert_tf.data.create import create_examples  # noqa: E402
from bert_tf.data.pretraining_input import PretrainingInput  # noqa: E402
from bert_tf.errors import BertTfError  # noqa: E402
from bert_tf.serving.server.loaded_version import LoadedVersion  # noqa: E402
from bert_tf.serving.wire.request import ServingError  # noqa: E402
from bert_tf.storage import checksums, files, manifest  # noqa: E402
from bert_tf.tasks.pretraining.masked_lm import Pretrainer  # noqa: E402
from bert_tf.tokenization.load import load_tokenizer  # noqa: E402
from bert_tf.tokenization.tokenizer import Tokenizer  # noqa: E402
from bert_tf.training.checkpoint import Checkpoints  # noqa: E402

_ROOM = 1 << 30  # bytes that reading may allocate
_SECONDS = 60  # of computing that reading may take
_TEXT = "The [MASK] statement returns a value."
_DATA = {"lower_case": True, "strip_accents": False, "seq_length": 32, "format": "segment_pair",
         "masking": "dynamic", "whole_word": True, "dupe_factor": 1, "short_seq_prob": 0.1,
         "max_predictions_per_seq": 5, "seed": 3, "num_processes": 1, "split": "sentences",
         "holdout": 0.2, "progress": False}
_OPTIONS = {"objective": "mlm", "learning_rate": 1e-4, "seed": 3}  # of a run
OUTCOMES = ("detected", "harmless", "unknowable")


class Hung(Exception):
    """Reading did not end."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A folder and how it is read."""

    folder: pathlib.Path
    read: object  # gives what must stay the same, of plain values and arrays
    foreign: bool = False  # nothing tells what it held
    forked: bool = False  # reading may end the process
    share: float = 1  # of the tries


def make_folders(root):
    """Write tiny folders of all kinds into the folder `root`."""
    text, vocab, data = root / "prose.txt", root / "vocabulary/vocab.txt", root / "data"
    text.write_text(python_prose.text()[:30_000])
    _run("learn_vocab", "--input", text, "--output", vocab, "--vocab_size", "300", "--lower_case")
    tokenizer = Tokenizer.of_vocabulary(str(vocab))
    config = bert_tf.ModelConfig(
        vocab_size=len(tokenizer.vocabulary), hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=32)
    model = Pretrainer(config, seed=4)
    model.save_pretrained(str(root / "model"), tokenizer)
    tensors = {variable.path: variable.value for variable in model.weights}
    Checkpoints(str(root / "checkpoints")).save(7, tensors, {"best": {"loss": 1.5}, "scale": 2})
    create_examples(input=str(text), vocab=str(vocab), output_dir=str(data), **_DATA)
    hf_safetensors.write(ours.read(str(root / "model")), str(root / "hf"))
    _run("export", "--model", root / "model", "--export_dir", root / "saved_model")
    _make_run(root / "run")
    for name in ("model", "hf", "saved_model/1", "vocabulary"):
        shutil.copytree(root / name, root / "others" / name)
    for name in ("model", "hf", "saved_model/1"):
        (root / "others" / name / checksums.NAME).unlink()
    (root / "others/vocabulary/vocab.txt.manifest.json").unlink()


def kinds(root):
    """`{name: Kind}` of what `make_folders` wrote."""
    others = root / "others"
    return {
        "checkpoints": Kind(root / "checkpoints/step_00000007", _read_checkpoint),
        "model folders": Kind(root / "model", _read_model),
        "records": Kind(root / "data", _read_data),
        "safetensors": Kind(root / "hf", _read_hf),
        "SavedModels": Kind(root / "saved_model/1", _read_version, forked=True),
        "vocabularies": Kind(root / "vocabulary", _read_vocabulary),
        "configs of runs": Kind(root / "run", _read_run),
        "model folders of others": Kind(others / "model", _read_model, foreign=True),
        "safetensors of others": Kind(others / "hf", _read_hf, foreign=True),
        "vocabularies of others": Kind(others / "vocabulary", _read_vocabulary, foreign=True),
        "SavedModels of others": Kind(others / "saved_model/1", _read_version, foreign=True,
                                      forked=True, share=0.2),
    }


def _run(name, *flags):
    importlib.import_module(f"bert_tf.{name}").main([str(flag) for flag in flags])


def _make_run(folder):
    folder.mkdir()
    (folder / "vocab.txt").write_text("[PAD]\n")
    manifest.write(str(folder / "run.json"), _OPTIONS)
    manifest.write(str(folder / "vocab.json"), {"vocab_size": 300}, entries=1,
                   files=checksums.facts(str(folder), ["vocab.txt"]))
    checksums.write_sealed(str(folder / "results.json"), {"run": "f", "metrics": {"loss": 2.34567}})
    checksums.write_sealed(str(folder / "trial.json"), {"seed": 1, "metrics": {"mcc": 0.4321}})


# Readers: what they give must be equal, bit by bit.

def _read_checkpoint(folder):
    tensors, state = Checkpoints(str(folder.parent)).load(int(folder.name[5:]))
    # The seal itself, under another name, changes nothing that anyone asks for.
    return _bytes(tensors), [state.get(key) for key in ("step", "best", "scale")]


def _read_model(folder):
    model = bert_tf.from_pretrained(str(folder))
    return (_bytes({variable.path: variable.value for variable in model.weights}),
            model.config.to_dict(), model.task_config(), _tokenizer(load_tokenizer(str(folder))))


def _read_data(folder):
    """As pre-training reads it, and as `create_data` finds that nothing is to be done."""
    given = []
    for split in ("train", "eval"):
        data = PretrainingInput(str(folder), split, batch_size=8, seed=1)
        given += [data.seq_length, data.label, data.pad_id, list(data.table),
                  data.records.read(np.arange(len(data.records)))]
    root = folder.parent
    made = create_examples(input=str(root / "prose.txt"), vocab=str(root / "vocabulary/vocab.txt"),
                           output_dir=str(folder), **_DATA)
    return given, [made[key] for key in ("options", "vocabulary", "pair_labels", "splits")]


def _read_hf(folder):
    checkpoint = hf_safetensors.read(str(folder))
    return (_bytes(checkpoint.tensors), checkpoint.config.to_dict(), checkpoint.task,
            _tokenizer(load_tokenizer(checkpoint.tokenizer)))


def _read_version(folder):
    loaded = LoadedVersion(str(folder))
    signature = loaded.signatures["fill_mask"]
    given = signature.run({"text": np.array([_TEXT.encode()], object)})
    return {name: (value.shape, value.tolist()) for name, value in given.items()}


def _read_vocabulary(folder):
    return _tokenizer(Tokenizer.of_vocabulary(str(folder / "vocab.txt")))


def _read_run(folder):
    def path(name):
        return str(folder / name)

    return (manifest.finished(path("run.json"), _OPTIONS)["options"],
            manifest.finished(path("vocab.json"), {"vocab_size": 300})["entries"],
            files.read_text(path("vocab.txt")),
            [[values.get(key) for key in ("run", "seed", "metrics")]
             for values in map(checksums.read_sealed, (path("results.json"), path("trial.json")))])


def _tokenizer(tokenizer):
    return tokenizer.vocabulary.tokens, tokenizer.lower_case, tokenizer.strip_accents


def _bytes(tensors):
    arrays = {name: np.asarray(tensors[name]) for name in tensors}
    return {name: (array.dtype.str, array.shape, array.tobytes())
            for name, array in arrays.items()}


# Damage and what comes of it.

def damaged(data, how, draw):
    """`data` with one bit flipped, or cut short; never the same."""
    if how == "cut":
        return data[:draw.randrange(len(data))]
    place = draw.randrange(8 * len(data))
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def digest(value):
    """Of what a reader gives: equal only where all of it is."""
    return hashlib.blake2b(repr(value).encode()).hexdigest()


def _logged(error):
    """What a log says of an error: a server tells its clients less."""
    return "".join(traceback.format_exception_only(error)) + (
        _logged(error.__cause__) if error.__cause__ else "")


def outcome(kind, expected):
    """One of `OUTCOMES`, or what went wrong."""
    try:
        found = kind.read(kind.folder)
    except (BertTfError, ServingError) as error:
        if str(kind.folder) in _logged(error) or kind.foreign:
            return "detected"
        return f"an error that names no file: {error}"
    except Hung:
        return f"no end after {_SECONDS} s"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if digest(found) == expected:
        return "harmless"
    return "unknowable" if kind.foreign else "another result, in silence"


def in_fork(function, *arguments):
    """What `function` returns in a process of its own, plain values; or a line on how that died.

    TensorFlow's threads do not live in a fork: whoever calls this has only imported it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 70
        try:
            told = json.dumps(function(*arguments)).encode()
            with os.fdopen(writing, "wb") as stream:
                stream.write(told)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        told = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(told) if code == 0 else f"the process ended with {code}"


def limited(function, *arguments):
    """Call with bounds on the time and the memory that it may take."""
    def stop(number, frame):
        raise Hung

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM, before[1]))
    try:
        return function(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)


def try_kind(kind, tries, seed):
    """Damage a kind's files `tries` times by flips and as often by cuts.

    Returns: `({"flip": {outcome: number}, "cut": …}, list of faults)`.
    """
    draw, faults = random.Random(seed), []
    counts = {"flip": collections.Counter(), "cut": collections.Counter()}
    paths = [path for path in sorted(kind.folder.rglob("*"))
             if path.is_file() and path.stat().st_size]

    def read_twice():
        first, second = (digest(kind.read(kind.folder)) for _ in range(2))
        assert first == second, f"{kind.folder}: read twice, two results"
        return first

    expected = in_fork(read_twice) if kind.forked else read_twice()
    for how, counter in counts.items():
        for _ in range(max(1, round(tries * kind.share))):
            path = draw.choice(paths)
            whole = path.read_bytes()
            path.write_bytes(damaged(whole, how, draw))
            if kind.forked:
                told = in_fork(limited, outcome, kind, expected)
            else:
                told = limited(outcome, kind, expected)
            path.write_bytes(whole)
            if told not in OUTCOMES:
                faults.append(f"{how} of {path.relative_to(kind.folder)}: {told}")
                told = "fault"
            counter[told] += 1
    return counts, faults


def try_all(root, tries, seed, own, say=print):
    """Every kind in the empty folder `root`; returns `({kind: counts}, list of faults)`.

    Args:
        root, tries, seed: as of `try_kind`.
        own: leave out what other tools wrote.
        say: prints progress.
    """
    made = in_fork(make_folders, root)
    assert made is None, made
    all_counts, all_faults = {}, []
    for name, kind in kinds(root).items():
        if own and kind.foreign:
            continue
        if kind.forked:
            counts, faults = try_kind(kind, tries, seed)
        else:
            counts, faults = in_fork(try_kind, kind, tries, seed)
        say(f"{name}: " + "; ".join(
            f"{sum(counter.values())} {how}s: " + ", ".join(
                f"{number} {told}" for told, number in sorted(counter.items()))
            for how, counter in counts.items()))
        for fault in faults:
            say(f"  {fault}")
        all_counts[name] = counts
        all_faults += [f"{name}: {fault}" for fault in faults]
    return all_counts, all_faults


def main():
    parser = fault_parser(__doc__, 1000, "flips, and cuts, of each kind")
    parser.add_argument("--own", action="store_true", help="only what bert_tf wrote")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        counts, faults = try_all(pathlib.Path(root), arguments.tries, arguments.seed,
                                 arguments.own)
    write_counts(arguments.output, {"counts": counts, "faults": faults})
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

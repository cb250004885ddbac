"""Feed damaged and made-up input to everything that reads what others wrote; report what breaks.

    python tests/faults/fuzz.py                                  # all of it: 11 million executions
    python tests/faults/fuzz.py --target tables --runs 50000     # one part

A target is a function of bytes (`fuzzing/`), which atheris calls with inputs that lead to new
branches of our modules. It may refuse an input with one of the package's errors; any other
exception, an end of the process, 10 seconds of work or 3 GB is a crash, whose input is written to
--crashes. Each target runs in a process of its own.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a folder that is no disk
HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path[:0] = [str(REPOSITORY), str(HERE)]
SECONDS, MEGABYTES = 10, 3072  # that one execution, one process may take
_HANGS = 1200  # seconds, by the clock, which also runs while a process is stopped
_LISTED = 10  # crashes of a target whose inputs are kept


def targets():
    """`{name: Target}`."""
    from fuzzing import binary_files, formats, graphs, protocols, server, text, tokenizing, wire

    modules = (text, formats, binary_files, wire, protocols, tokenizing, server, graphs)
    return {target.name: target for module in modules for target in module.TARGETS}


def seeds(target):
    """Inputs from which a target begins."""
    return target.seeds() if callable(target.seeds) else target.seeds


def place(error):
    """Where an exception comes from: its type and the last line of ours, to tell crashes apart."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if str(REPOSITORY) in frame.filename]
    at = f"{pathlib.Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {at}"


def feed(name, runs, seed, result, crashes):
    """In a process of its own: run one target and write what was found to the file `result`."""
    import atheris

    started = time.process_time()
    # What is imported from here on is watched, where it is ours.
    with atheris.instrument_imports(include=["bert_tf"]):
        target = targets()[name]
        check = target.checked()
    count, found = 0, {}

    def note(data, kind, error):
        path = crashes / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
        if kind not in found and len(found) < _LISTED:
            path.write_bytes(data)
            found[kind] = {"input": path.name, "error": f"{type(error).__name__}: {error}"[:500],
                           "times": 0}
        if kind in found:
            found[kind]["times"] += 1

    def write():
        report = {"target": name, "runs": count, "seconds": round(time.process_time() - started, 1),
                  "crashes": found}
        result.write_text(json.dumps(report))

    def once(data):
        nonlocal count
        count += 1
        begun = time.process_time()
        try:
            check(data)
        except Exception as error:
            note(data, place(error), error)
        if time.process_time() - begun > SECONDS:
            note(data, "slow", TimeoutError(f"more than {SECONDS} s"))
        if count >= runs:
            write()
            sys.stderr.flush()
            os._exit(0)

    with tempfile.TemporaryDirectory() as corpus:
        for number, given in enumerate(seeds(target)):
            pathlib.Path(corpus, f"{number:04d}").write_bytes(given)
        atheris.Setup([
            "fuzz", corpus, f"-runs={2 * runs}", f"-seed={seed}", f"-max_len={target.longest}",
            f"-timeout={_HANGS}", f"-rss_limit_mb={MEGABYTES}", "-verbosity=0",
            f"-artifact_prefix={crashes}/{name}-"], once)
        atheris.Fuzz()


def run(name, runs, seed, crashes):
    """Run a target in a process of its own; its report as a dict."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        result = pathlib.Path(folder) / "result.json"
        before = set(crashes.iterdir())
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TMPDIR": folder,
                       "CUDA_VISIBLE_DEVICES": ""}
        ended = subprocess.run(
            [sys.executable, str(HERE / "fuzz.py"), "--feed", str(result), "--target", name,
             "--runs", str(runs), "--seed", str(seed), "--crashes", str(crashes)],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if result.exists():
            return json.loads(result.read_text())
        said = ended.stderr.decode(errors="replace")[-2000:]
        inputs = sorted(path.name for path in set(crashes.iterdir()) - before)
        return {"target": name, "runs": None, "seconds": None, "crashes": {
            f"the process ended with {ended.returncode}": {"input": ", ".join(inputs),
                                                           "error": said, "times": 1}}}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="all", help="one target, or all (default)")
    parser.add_argument("--runs", "--tries", type=int,
                        help="executions of each target (default: its own)")
    parser.add_argument("--seed", type=int, default=1, help="of the fuzzer (default: 1)")
    parser.add_argument("--output", type=pathlib.Path, help="JSON file for the figures")
    parser.add_argument("--crashes", type=pathlib.Path, default=pathlib.Path("fuzz_crashes"),
                        help="folder for inputs that crash (default: fuzz_crashes)")
    parser.add_argument("--feed", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    arguments.crashes.mkdir(parents=True, exist_ok=True)
    crashes = arguments.crashes.resolve()
    if arguments.feed:
        return feed(arguments.target, arguments.runs, arguments.seed, arguments.feed, crashes)
    known = targets()
    names = list(known) if arguments.target == "all" else arguments.target.split(",")
    reports = []
    for name in names:
        reports.append(run(name, arguments.runs or known[name].runs, arguments.seed, crashes))
        report = reports[-1]
        print(f"{name:18} {report['runs'] or '?':>9} executions "
              f"{report['seconds'] or 0:7.0f} s  {len(report['crashes'])} crashes", flush=True)
        for kind, crash in report["crashes"].items():
            print(f"    {kind} ({crash['times']}): {crash['input']}: {crash['error']}", flush=True)
        if arguments.output:
            arguments.output.write_text(json.dumps(reports, indent=2) + "\n")
    total = sum(report["runs"] or 0 for report in reports)
    failed = sum(len(report["crashes"]) for report in reports)
    seconds = sum(report["seconds"] or 0 for report in reports)
    print(f"{total} executions, {failed} crashes, {seconds / 60:.0f} minutes of one core")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

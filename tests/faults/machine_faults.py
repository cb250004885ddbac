"""Commands on a machine that fails: a line that names the file, and the same command goes on after.

    python tests/faults/machine_faults.py --tries 144

Faults in turn: a full disk (a small tmpfs), a bound on the size of a file, a disk that is read-only
from a random moment on, a folder of another user, a file that is taken away at a random moment, a
wall clock that jumps by years. Each hits learn_vocab, create_data, pretrain, convert, finetune and
evaluate in turn. The command must end with a line and no traceback, what has its name must be
whole, and when the fault is over the same command must give the results of an undisturbed one. What
only root may do (mounts, other users) is left out where that cannot be done, which is told.
"""

import collections
import dataclasses
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS)]

from faults import kill_and_resume, kill_commands  # noqa: E402
from faults.flags import fault_parser, write_counts  # noqa: E402
from faults.forked import Forker  # noqa: E402
from faults.whole import check_whole  # noqa: E402

_NOBODY = 65534
_BIG = 1 << 30  # bytes of the disk when it is not full
_LEAST = 1 << 14  # bytes that any file may have: what a command prints is one


@dataclasses.dataclass
class Work:
    """A command, its results, and what it took undisturbed."""

    name: str
    words: list
    folders: list  # of its results
    inputs: list  # files that it reads
    results: object  # gives what must stay the same
    expected: object = None
    seconds: float = 0
    bytes: int = 0
    largest: int = 0  # bytes of its largest file


class Machine:
    """Runs commands in a folder, and does the faults.

    Args:
        forker: a `Forker`.
        root: an empty folder.
        seed: of all draws.
        say: prints progress.
    """

    def __init__(self, forker, root, seed, say=print):
        self.forker = forker
        self.root = pathlib.Path(root)
        self.draw = random.Random(seed)
        self.say = say
        self.base = self.root / "disk"  # all that commands read and write
        self.base.mkdir()
        self.log = self.root / "log"
        self.mounted = _mount(self.base)

    def close(self):
        """Unmount."""
        if self.mounted:
            subprocess.run(["umount", self.base], check=True)

    def faults(self):
        """`{name: function}` of the faults that can be done here."""
        found = {"file size": self.bounded_files, "vanished": self.vanished, "clock": self.clock}
        if self.mounted:
            found |= {"full disk": self.full_disk, "read-only": self.read_only}
        else:
            self.say("no mounts here: no full and no read-only disk")
        if os.geteuid() == 0:
            found["permission"] = self.permission
        else:
            self.say("not root: no folder of another user")
        return found

    def works(self, names):
        """The `Work`s of these names, done once, undisturbed, as what they read is."""
        folder, corpus = self.base / "work", self.base / "corpus.txt"
        words = kill_and_resume.command(self.base, folder, "float32")
        made = [_simple("learn_vocab", [self.base / "vocabulary"], [corpus],
                        "--input", corpus, "--output", self.base / "vocabulary/vocab.txt",
                        "--vocab_size", "400"),
                _simple("create_data", [self.base / "data"], [corpus],
                        "--input", corpus, "--vocab", self.base / "vocabulary/vocab.txt",
                        "--output_dir", self.base / "data", "--split", "sentences",
                        "--seq_length", "32", "--num_processes", "1"),
                Work("pretrain", words, [folder], [corpus, self.base / "model.json"],
                     lambda: kill_and_resume.results(folder))]
        others = kill_commands.commands(self.base, folder / "run")
        for name, (words, folders) in others.items():
            inputs = [self.base / "reviews.tsv"] if name != "convert" else []
            made.append(Work(name, words, folders, inputs,
                             lambda folders=folders: kill_commands.results(folders)))
        made = made[:1 + max(i for i, work in enumerate(made) if work.name in names)]
        for work in made:
            if work.name == "convert":
                kill_commands.write_table(self.base / "reviews.tsv", folder / "run/vocab.txt")
            started = time.monotonic()
            code, said = self.run(work)
            assert code == 0, said
            work.seconds = time.monotonic() - started
            work.expected = work.results()
            sizes = [path.stat().st_size for each in work.folders for path in each.rglob("*")]
            work.bytes, work.largest = sum(sizes), max(sizes)
            self.say(f"{work.name}, undisturbed: {work.seconds:.1f} s, {work.bytes:,} bytes")
        return [work for work in made if work.name in names]

    def run(self, work, **limits):
        """Run a command to its end: `(exit code, what it printed)`."""
        self.log.unlink(missing_ok=True)
        return self.forker.run(work.words, self.log, limits)

    def run_until(self, work, act, **limits):
        """Run a command and call `act(fork)` at a random moment; returns as `run`."""
        self.log.unlink(missing_ok=True)
        fork = self.forker.start(work.words, self.log, limits)
        moment = self.draw.random() * work.seconds
        while fork.poll() is None and time.monotonic() - fork.started < moment:
            time.sleep(0.002)
        if fork.poll() is None:
            act(fork)
        return fork.wait(), self.log.read_text(errors="replace")

    def try_fault(self, fault, work):
        """One try; returns the command's line on it, None where the fault did not hit.

        Raises:
            AssertionError: it took it in another way than it should.
        """
        for folder in work.folders:
            shutil.rmtree(folder, ignore_errors=True)
        code, said = fault(work)
        for folder in work.folders:
            check_whole(folder)
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        assert "Traceback" not in said and code in (0, 1, 2), f"{code}: {said[-3000:]}"
        assert (len(errors) == 1) == (code != 0), said[-3000:]
        if code and not _exists(work, errors[0]):
            assert str(self.base) in errors[0], f"no path in: {errors[0]}"
        code, after = self.run(work)
        assert code == 0 or _exists(work, after), f"{errors}, then {after[-3000:]}"
        found = work.results()
        different = sorted(name for name in work.expected.keys() | found.keys()
                           if work.expected.get(name) != found.get(name))
        assert not different, f"{errors}: differ from the undisturbed run: {different}"
        return errors[0] if errors else None

    # Faults: each runs the command, undoes itself, and returns as `run`.

    def full_disk(self, work):
        """A disk that has room for a random part of what the command writes."""
        free = shutil.disk_usage(self.base)
        self._remount(f"size={free.used + self.draw.randrange(work.bytes)}")
        try:
            return self.run(work)
        finally:
            self._remount(f"size={_BIG}")

    def bounded_files(self, work):
        """Files that may not grow beyond a random size."""
        return self.run(work, file_size=self.draw.randrange(_LEAST, max(work.largest, 2 * _LEAST)))

    def read_only(self, work):
        """A disk that can only be read when the killed command starts again."""
        self.run_until(work, lambda fork: fork.kill())
        self._remount("ro")
        try:
            return self.run(work)
        finally:
            self._remount("rw")

    def permission(self, work):
        """Another user's folder when the killed command starts again."""
        self.run_until(work, lambda fork: fork.kill())
        for folder in work.folders:
            if work.name != "convert":  # which is refused where its folder is there
                folder.mkdir(exist_ok=True)
        return self.run(work, user=_NOBODY)

    def vanished(self, work):
        """A file that is taken away while the command runs, or before it starts again."""
        taken = {}

        def take(fork=None):
            found = [path for folder in work.folders for path in sorted(folder.rglob("*"))
                     if path.is_file() and "/." not in str(path)]
            path = self.draw.choice(found + work.inputs) if found + work.inputs else None
            if path is not None:
                taken[path] = self.root / "taken"
                shutil.move(path, taken[path])

        if self.draw.random() < 0.5:
            code, said = self.run_until(work, take)
        else:
            self.run_until(work, lambda fork: fork.kill())
            take()
            code, said = self.run(work)
        if not code and not all(path.exists() for path in taken):
            code, said = self.run(work)  # nothing read it any more: the next one tells, or mends
        # What nobody missed is not put back, but for what a finished run never reads again.
        for path, kept in taken.items():
            if ((code or path in work.inputs or {"trials", "checkpoints"} & {*path.parts})
                    and path.parent.is_dir() and not path.exists()):
                shutil.move(kept, path)
        return code, said

    def clock(self, work):
        """A wall clock that jumps by years, back and forth."""
        return self.run(work, clock=self.draw.randrange(1 << 30))

    def _remount(self, option):
        for _ in range(600):  # busy as long as the kernel closes what a killed process had open
            if subprocess.run(["mount", "-o", f"remount,{option}", self.base],
                              capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"cannot remount {self.base} {option}")


def _simple(name, folders, inputs, *flags):
    """A `Work` whose results are all of its bytes."""
    return Work(name, [sys.executable, "-m", f"bert_tf.{name}", *map(str, flags)], folders, inputs,
                lambda: kill_commands.results(folders))


def _mount(folder):
    """Mount a tmpfs; returns whether that is allowed."""
    return shutil.which("mount") is not None and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_BIG}", "tmpfs", folder],
        capture_output=True, check=False).returncode == 0


def _exists(work, said):
    """Whether a conversion says that it is done: it never replaces a folder unasked."""
    return work.name == "convert" and "exists; try another place" in said


def try_all(forker, root, tries, seed, names, say=print):
    """Every fault with every command in turn; returns `{fault: {"hit", "missed"}}`.

    Raises:
        AssertionError: a command took a fault in another way than it should.
    """
    machine = Machine(forker, root, seed, say)
    try:
        works, faults = machine.works(names), machine.faults()
        counts = {name: collections.Counter() for name in faults}
        for number in range(tries):
            name = list(faults)[number % len(faults)]
            work = works[number // len(faults) % len(works)]
            line = machine.try_fault(faults[name], work)
            counts[name]["no error" if line is None else "told"] += 1
            say(f"{number + 1}: {name}, {work.name}: {line}")
        return counts
    finally:
        machine.close()


def main():
    arguments = fault_parser(__doc__, 144, "over all faults and commands").parse_args()
    with tempfile.TemporaryDirectory() as root, Forker() as forker:
        os.chmod(root, 0o755)  # another user looks into it
        counts = try_all(forker, root, arguments.tries, arguments.seed,
                         ("learn_vocab", "create_data", "pretrain", "convert", "finetune",
                          "evaluate"))
    for name, counter in counts.items():
        print(f"{name}: {dict(counter)}")
    write_counts(arguments.output, counts)


if __name__ == "__main__":
    main()

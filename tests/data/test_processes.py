"""Work divided among processes or threads: what they raise, and what they leave alone."""

import pathlib
import subprocess
import sys
import threading

import pytest

from bert_tf.data.processes import in_order, in_threads

# As users write them: nothing keeps a process that imports it from doing it all again.
SCRIPT = """\
import concurrent.futures, sys
from bert_tf.data.processes import in_order
print("begins")
def work(number):
    return [found for _, found in in_order([(number,), (-5,)], abs, int, (), 2, "worked")]
spec = __spec__
with concurrent.futures.ThreadPoolExecutor() as threads:
    print(*threads.map(work, [-1, -2, -3]), __spec__ is spec)
"""


@pytest.mark.parametrize("num_processes", [1, 2])
def test_what_a_process_raises_at_its_start_is_raised(num_processes):
    with pytest.raises(ValueError, match="base 10: 'x'"):
        list(in_order([(-4,)], abs, int, ("x",), num_processes, "worked"))


@pytest.mark.parametrize("how", [["script.py"], ["-m", "script"]], ids=["file", "module"])
def test_a_script_is_not_run_again_by_processes(tmp_path, how):
    """Whatever the number of threads that start some at once."""
    (tmp_path / "script.py").write_text(SCRIPT)
    root = pathlib.Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, *how], cwd=tmp_path, capture_output=True, text=True,
                          env={"PYTHONPATH": str(root)})
    assert done.stdout == "begins\n[1, 5] [2, 5] [3, 5] True\n", done.stderr


def test_threads_read_a_few_tasks_ahead_and_end():
    read, before = [], threading.active_count()
    tasks = (read.append(number) or number for number in range(100))
    results = in_threads(tasks, lambda number: 10 // (3 - number), 2)
    assert [next(results) for _ in range(3)] == [(0, 3), (1, 5), (2, 10)]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert read == [0, 1, 2, 3, 4, 5] and threading.active_count() == before

"""A short run of the kill-and-resume script; by hand it takes `--kills 30`."""

from faults.kill_and_resume import kill_and_resume


def test_killed_runs_end_with_the_same_bytes(tmp_path):
    lines = []
    hit = kill_and_resume(tmp_path, kills=2, dtype="float32", seed=4, say=lines.append)
    assert sum(hit.values()) == 2, lines

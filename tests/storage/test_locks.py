"""A folder has one process at a time; the second is told who the first is, a dead one is known."""

import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from bert_tf.errors import BertTfError
from bert_tf.storage import locks

HOLD = """\
import sys
from bert_tf.storage import locks
with locks.held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
COUNT = """\
import sys
from bert_tf.storage import locks
folder, rounds = sys.argv[1], int(sys.argv[2])
for _ in range(rounds):
    with locks.held(folder, wait=True):
        path = folder + "/count"
        number = int(open(path).read() or 0)
        with open(path, "w") as stream:
            stream.write(str(number + 1))
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_process_is_refused_at_once_and_told_who_holds(tmp_path, holder):
    with pytest.raises(BertTfError) as refused, locks.held(str(tmp_path)):
        pass
    text = str(refused.value)
    assert f"process {holder.pid} on {socket.gethostname()} (since 2" in text
    assert str(tmp_path) in text and "deleting" not in text  # the system frees it
    holder.communicate("")  # it ends
    assert os.listdir(tmp_path) == []
    with locks.held(str(tmp_path)):
        assert json.loads((tmp_path / locks.NAME).read_text())["process"] == os.getpid()
    assert os.listdir(tmp_path) == []


def test_the_lock_of_a_lost_host_is_freed_by_deleting_it(tmp_path, holder, monkeypatch, capsys):
    """A file server may keep it; the holder stands for one that is gone."""
    path = tmp_path / locks.NAME
    path.write_text(json.dumps({"process": 7, "host": "other", "since": "2001-01-01"}))
    told = "process 7 on other .*if no such process runs any more, "
    with (pytest.raises(BertTfError, match=f"{told}deleting {path}"), locks.held(str(tmp_path))):
        pass

    def flock(descriptor, how):
        if how & fcntl.LOCK_NB:
            raise BlockingIOError
        path.unlink()  # somebody frees it meanwhile
        monkeypatch.undo()

    monkeypatch.setattr(fcntl, "flock", flock)
    with locks.held(str(tmp_path), wait=True):
        assert re.search(f"{told}stop this one, delete {path}", capsys.readouterr().err)
        assert json.loads(path.read_text())["process"] == os.getpid()


def test_a_holder_that_has_just_begun_is_of_this_host(tmp_path, holder):
    (tmp_path / locks.NAME).write_text("")
    with (pytest.raises(BertTfError, match="in use by another process; .*another folder$"),
          locks.held(str(tmp_path))):
        pass


def test_a_stopped_holder_still_holds(tmp_path, holder):
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(BertTfError, match=str(holder.pid)), locks.held(str(tmp_path)):
        pass


def test_the_lock_of_a_killed_process_is_stale(tmp_path, holder, capsys):
    holder.kill()
    holder.wait()
    assert os.listdir(tmp_path) == [locks.NAME]
    with locks.held(str(tmp_path)):
        assert f"process {holder.pid} on {socket.gethostname()}" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("left", "told"), [
    # After a reboot the process id is another program's: here our own.
    (json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": "2101-01-01"}),
     "(since 2101-01-01) worked"),
    (json.dumps({"process": 7, "host": "other", "since": "2001-01-01"}), "process 7 on other"),
    ("", ""), ("half a no", ""), ("[1]", ""), ("\x00" * 9000, "")],
    ids=["own", "other", "empty", "half", "list", "zeros"])
def test_a_note_without_a_lock_is_stale_whatever_it_says(tmp_path, capsys, left, told):
    (tmp_path / locks.NAME).write_text(left)
    with locks.held(str(tmp_path)):
        error = capsys.readouterr().err
        assert told in error if told else not error
    assert os.listdir(tmp_path) == []


def test_those_that_wait_come_in_one_by_one(tmp_path):
    (tmp_path / "count").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNT, str(tmp_path), "300"],
                                  stderr=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "900"


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (pytest.raises(BertTfError, match="cannot create .*file"),
          locks.held(str(tmp_path / "file"))):
        pass


@pytest.fixture
def no_locks(tmp_path, monkeypatch):
    """A folder whose file system has none, and the one where this host's locks are instead."""
    folder, own = tmp_path / "folder", tmp_path / "own"
    folder.mkdir()
    own.mkdir()
    monkeypatch.setattr(locks.tempfile, "tempdir", str(own))
    flock = fcntl.flock

    def without(descriptor, how):
        if str(folder) in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSYS, "Function not implemented")
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", without)
    return folder, own


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="reads /proc")
def test_without_locks_of_the_file_system_one_host_still_keeps_apart(no_locks, capsys):
    folder, own = no_locks
    with locks.held(str(folder)):
        told = capsys.readouterr().err
        assert re.fullmatch(f"note: the file system of {folder} has no locks, .* another host .*\n",
                            told)
        assert not os.listdir(folder) and len(os.listdir(own)) == 1
        with (pytest.raises(BertTfError, match=f"{folder} is in use by process {os.getpid()} on"),
              locks.held(str(folder))):
            pass
    assert not os.listdir(own)
    path = folder / locks.NAME
    path.write_text("of a host that can")
    with (pytest.raises(BertTfError, match=f"no locks here, and {path} names another process; try "
                                           f"again .* deleting {path}"), locks.held(str(folder))):
        pass
    assert path.exists()


def test_a_lock_service_that_does_not_answer_is_told(tmp_path, monkeypatch):
    def flock(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    told = f"cannot lock {tmp_path}: the lock service .* does not answer; try again"
    with pytest.raises(BertTfError, match=told), locks.held(str(tmp_path)):
        pass

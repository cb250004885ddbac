"""One process at a time in a folder of a store."""

import io
import os
import subprocess
import sys
import threading
import time

import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from bert_tf.errors import BertTfError, UnavailableError
from bert_tf.storage import files, lease, locks

FOLDER = "memory://bucket/run"
PATH = f"{FOLDER}/.lease.json"


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """An empty store that threads may share, and renewals after 0.2 seconds instead of 20."""
    pipe, opened, lock = MemoryFileSystem.pipe_file, MemoryFileSystem._open, threading.Lock()

    def pipe_alone(*arguments, **options):  # or a second one is created before it sees the first
        with lock:
            pipe(*arguments, **options)

    def open_own(self, path, mode="rb", **options):  # readers of one file would share its position
        found = opened(self, path, mode, **options)
        return MemoryFile(None, path, found.getvalue()) if mode == "rb" else found

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", pipe_alone)
    monkeypatch.setattr(MemoryFileSystem, "_open", open_own)
    monkeypatch.setattr(lease, "RENEWAL", 0.2)
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def _write(**changes):
    about = {"owner": "another", "time": time.time(), "host": "far", "pid": 7,
             "namespace": "there", "started": "1"}
    files.write_json(PATH, {**about, **changes})


def _elsewhere(function):
    """Call a function as another process would: with no lease of this one's."""
    own, lease._leases, lease._let_go = (lease._leases, lease._let_go), {}, set()
    try:
        return function()
    finally:
        lease._leases, lease._let_go = own


def _enter():
    with locks.held(FOLDER):
        return files.read_json(PATH)


def test_a_second_process_is_refused_and_told_who_the_first_is():
    with locks.held(FOLDER):
        with locks.held(FOLDER):  # a stage of the same process
            files.write_text(f"{FOLDER}/file", "")
        with pytest.raises(BertTfError, match=rf"run is in use by process {os.getpid()} on \S+"):
            _elsewhere(_enter)
    assert not files.exists(PATH)
    _enter()


def test_a_second_thread_waits_as_another_process_does(monkeypatch):
    class Told(io.StringIO):
        def write(self, text):
            if "waiting" in text:
                told.set()
            return super().write(text)

    def work():
        with locks.held(FOLDER, wait=True):
            seen.append(files.read_json(PATH)["owner"])

    seen, told, thread = [], threading.Event(), threading.Thread(target=work)
    monkeypatch.setattr(sys, "stderr", Told())
    with locks.held(FOLDER):
        first = files.read_json(PATH)["owner"]
        thread.start()
        assert told.wait(60)
    thread.join()
    assert seen and first not in seen and not files.exists(PATH)


def test_a_lease_is_renewed_while_it_is_held():
    with locks.held(FOLDER):
        first = files.read_json(PATH)["time"]
        deadline = time.monotonic() + 30
        while files.read_json(PATH)["time"] == first:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_process_of_this_machine_that_has_ended_holds_nothing():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        _write(pid=child.pid, namespace=lease._namespace(), started=lease._start_of(child.pid))
        with pytest.raises(BertTfError, match=f"process {child.pid} on far"):
            _enter()
    finally:
        child.kill()
        child.wait()
    assert _enter()["pid"] == os.getpid()


def test_a_stale_lease_is_taken_over_and_a_fresh_one_is_not():
    _write()
    with pytest.raises(BertTfError, match=r"by process 7 on far; try again after it has "
                                          r"ended \(in \d+ s at most"):
        _enter()
    for when in (-1000, +1000):  # a clock that goes wrong does not matter
        _write(time=time.time() + when)
        assert _enter()["owner"] != "another"


def test_a_lease_that_seems_stale_but_is_renewed_is_anothers(monkeypatch):
    monkeypatch.setattr(lease, "RENEWAL", 5)  # the thread below may pause
    _write(time=0)
    ended = threading.Event()

    def renew():
        while not ended.wait(0.05):
            _write(time=0)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        with pytest.raises(BertTfError, match="process 7 on far"):
            _enter()
    finally:
        ended.set()
        thread.join()
    assert files.read_json(PATH)["owner"] == "another"


def test_who_lost_the_lease_writes_nothing_more_and_leaves_the_other_alone(monkeypatch):
    monkeypatch.setattr(lease, "RENEWAL", 1000)  # its thread stands still, as all of it
    with locks.held(FOLDER):
        files.write_text(f"{FOLDER}/before", "")
        _elsewhere(_write)
        lease._leases[FOLDER]._renewed -= 5000
        for work in (lambda: files.write_text(f"{FOLDER}/after", ""),
                     lambda: files.remove(f"{FOLDER}/before"),
                     lambda: files.copy(f"{FOLDER}/before", f"{FOLDER}/after")):
            with pytest.raises(BertTfError, match="taken over by process 7 on far"):
                work()
        files.write_text("memory://bucket/other", "")
    assert files.list_folder(FOLDER) == [".lease.json", "before"]
    assert files.read_json(PATH)["owner"] == "another"


def test_a_lease_that_another_took_and_gave_back_is_lost_too(monkeypatch):
    monkeypatch.setattr(lease, "RENEWAL", 1000)
    with locks.held(FOLDER):
        files.remove(PATH)  # as the other process does when it ends
        lease._leases[FOLDER]._renewed -= 5000
        with pytest.raises(BertTfError, match="taken over by another process"):
            files.write_text(f"{FOLDER}/after", "")
    assert files.list_folder(FOLDER) == []


def test_a_lease_whose_answer_was_lost_is_taken(monkeypatch):
    """The store has it, but says that there is one already when it is asked again."""
    write = lease.object_store.write

    def twice(path, data, **conditions):
        write(path, data, **conditions)
        raise BertTfError("the store reports: PreconditionFailed")

    with monkeypatch.context() as patched:
        patched.setattr(lease.object_store, "write", twice)
        one = lease.Lease(FOLDER)
        one.take()
    one.check()
    one.release()
    assert not files.exists(PATH)


def test_a_lease_that_a_failing_store_has_kept_shuts_out_other_processes_alone(monkeypatch):
    """Whether it was let go of, or was not even known to be taken."""
    def fails(*arguments):
        raise UnavailableError("the store is unreachable")

    with monkeypatch.context() as patched:
        patched.setattr(lease.object_store, "remove", fails)
        kept = _enter()
    with pytest.raises(BertTfError, match=rf"in use by process {os.getpid()}"):
        _elsewhere(_enter)
    assert _enter()["owner"] != kept["owner"] and not files.exists(PATH)
    answers = iter([lease._read, fails])
    with monkeypatch.context() as patched, pytest.raises(UnavailableError):
        patched.setattr(lease, "_read", lambda path: next(answers)(path))
        _enter()
    assert files.exists(PATH) and _enter()


def test_of_many_that_want_a_folder_at_once_one_gets_it():
    got, start = [], threading.Barrier(8)

    def want():
        one = lease.Lease(FOLDER)
        start.wait()
        try:
            one.take()
        except BertTfError:
            return
        got.append(one)

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    got[0].release()
    assert not files.exists(PATH)


def test_a_lease_that_may_not_be_read_is_told(monkeypatch):
    _write()

    def denied(path, *arguments):
        raise PermissionError("access denied")

    monkeypatch.setattr(lease.object_store, "open_stored", denied)
    with pytest.raises(BertTfError, match="access denied"):
        lease._read(PATH)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"time": 1e999, "pid": 1e999}', "[]"])
def test_what_is_no_lease_is_told(content):
    files.write_text(PATH, content.replace("{", '{"owner": [], "host": 1, "namespace": 1, '
                                                '"started": 1, '))
    with pytest.raises(BertTfError, match="is not a lease; try deleting it"):
        lease._read(PATH)

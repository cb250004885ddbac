"""When a worker counts as lost; real ones are lost in `test_multi_worker` and `tests/faults`."""

import itertools
import re
import socket
import threading
import types
from concurrent import futures

import grpc
import pytest

from bert_tf.errors import BertTfError, UsageError
from bert_tf.training import peers
from bert_tf.training.cluster import Cluster


class Server:
    """Answers as TensorFlow's server does, as often as it is told to.

    `answers` are bytes, `None` where the process has ended; when they are used up, it has.
    """

    def __init__(self, answers=()):
        self.answers = list(answers)
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        self._server.add_registered_method_handlers("tensorflow.WorkerService", {
            "GetStatus": grpc.unary_unary_rpc_method_handler(self._status)})
        self.address = f"localhost:{self._server.add_insecure_port('localhost:0')}"
        self._server.start()

    def _status(self, request, context):
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "no answer")
        return answer

    def stop(self):
        self._server.stop(None).wait()


@pytest.fixture
def servers(monkeypatch):
    """Of workers 1 and 2, and the texts with which collectives were aborted."""
    aborted = []
    fake = types.SimpleNamespace(abort_collective_ops=lambda code, text: aborted.append(text))
    monkeypatch.setattr(peers, "context", types.SimpleNamespace(context=lambda: fake))
    for name in ("_PAUSE", "_ROUND"):
        monkeypatch.setattr(peers, name, 0)
    made = [Server(), Server()]
    yield *made, aborted
    for server in made:
        server.stop()


def watch(*others):
    """`Peers` of worker 0, and the names of the others."""
    addresses = ("a:1", *(each.address for each in others))
    return peers.Peers(Cluster(addresses, 0)), [
        f"worker {index} ({address})" for index, address in enumerate(addresses)]


def test_lost_after_unanswered_probes_in_a_row(servers):
    one, two, aborted = servers
    watched, names = watch(one, two)
    two.answers = [*[None] * 4, b"a", *[None] * 4, b"a"]
    watched._watch(2)
    assert not two.answers and aborted == [f"{names[2]} does not answer"]
    assert watched.lost() == names[2:]
    watched._watch(1)
    assert watched.lost() == names[1:]


def test_a_process_that_was_started_anew_is_another_one(servers):
    one, two, aborted = servers
    watched, names = watch(one, two)
    one.answers = [b"a", *[b"b"] * 20]
    watched._watch(1)
    assert len(one.answers) == 15 and watched.lost() == names[1:2]


def test_those_in_doubt_are_waited_for(servers):
    """One refuses at once, another one is silent: they are named together."""
    one, two, aborted = servers
    watched, names = watch(one, two)
    watched._unanswered[2] = 1
    watched._watch(1)
    thread = threading.Timer(0.2, watched._watch, [2])
    thread.start()
    assert watched.lost() == names[1:]
    thread.join()


def test_nobody_lost(servers, monkeypatch):
    monkeypatch.setattr(peers, "_ANSWER", 0)
    assert watch(*servers[:2])[0].lost() == []


def test_a_worker_that_does_not_come(monkeypatch, capsys):
    monkeypatch.setattr(peers, "_REMIND", 0)
    monkeypatch.setattr(peers, "ARRIVAL", 1)
    monkeypatch.setattr(peers, "time", types.SimpleNamespace(  # a second at each look
        monotonic=itertools.count().__next__, sleep=lambda seconds: None))
    with socket.create_server(("localhost", 0)) as there, socket.socket() as absent:
        absent.bind(("localhost", 0))  # and does not listen
        addresses = tuple(f"localhost:{each.getsockname()[1]}" for each in (there, absent))
        with pytest.raises(BertTfError,
                           match=rf"worker 1 \({addresses[1]}\) did not connect within"):
            peers.Peers(Cluster(addresses, 0)).meet()
        assert f"waiting for worker 1 ({addresses[1]})\n" in capsys.readouterr().err


def test_a_worker_that_takes_itself_for_another_one(servers):
    """Each has its own list, with itself at the beginning: both would be the chief."""
    one, two, _ = servers
    device = b"/job:worker/replica:0/task:%d/device:CPU:0"
    one.answers, two.answers = [device % 0], [device % 2] * 2
    watched, names = watch(one, two)
    told = rf"{re.escape(names[1])} in the list of {re.escape(names[0])} has another number"
    with pytest.raises(UsageError, match=told):
        watched.meet()


def test_workers_with_unequal_numbers_of_gpus(servers):
    """Their collectives would be of sizes that differ."""
    one, two, _ = servers
    device = b"/job:worker/replica:0/task:%d/device:%s"
    one.answers = [b" ".join(device % (1, name) for name in (b"CPU:0", b"GPU:0", b"GPU:1"))]
    two.answers = [b" ".join(device % (2, name) for name in (b"CPU:0", b"GPU:0"))]
    watched, names = watch(one, two)
    told = rf"{re.escape(names[2])} has 1 GPUs, {re.escape(names[0])} 2; expected as many on each"
    with pytest.raises(UsageError, match=told):
        watched.meet(gpus=2)

"""When a worker counts as lost; real ones are lost in `test_multi_worker` and `tests/faults`."""

import socket
import threading
import types

import pytest
import tensorflow as tf

from bert_tf.errors import BertTfError
from bert_tf.training import peers
from bert_tf.training.cluster import Cluster

CLUSTER = Cluster(("a:1", "b:2", "c:3"), 0)


@pytest.fixture
def answers(monkeypatch):
    """`{task: answers to probes in turn}`; False is none, and when they are used up all are."""
    given, aborted = {}, []

    def check(task, timeout_in_ms):
        left = given.get(task.rpartition(":")[2], [])
        if not (left.pop(0) if left else False):
            raise tf.errors.UnavailableError(None, None, "no answer")

    fake = types.SimpleNamespace(check_collective_ops_peer_health=check,
                                 abort_collective_ops=lambda code, text: aborted.append(text))
    monkeypatch.setattr(peers, "context", types.SimpleNamespace(context=lambda: fake))
    for name in ("_PAUSE", "_ROUND"):
        monkeypatch.setattr(peers, name, 0)
    given["aborted"] = aborted
    return given


def test_lost_after_unanswered_probes_in_a_row(answers):
    watched = peers.Peers(CLUSTER)
    answers["2"] = [*[False] * 4, True, *[False] * 4, True]
    watched._watch(2)
    assert not answers["2"] and answers["aborted"] == ["worker 2 (c:3) does not answer"]
    assert watched.lost() == ["worker 2 (c:3)"]
    watched._watch(1)
    assert watched.lost() == ["worker 1 (b:2)", "worker 2 (c:3)"]


def test_those_in_doubt_are_waited_for(answers):
    """One refuses at once, another one is silent: they are named together."""
    watched = peers.Peers(CLUSTER)
    watched._unanswered[2] = 1
    watched._watch(1)
    thread = threading.Timer(0.2, watched._watch, [2])
    thread.start()
    assert watched.lost() == ["worker 1 (b:2)", "worker 2 (c:3)"]
    thread.join()


def test_nobody_lost(answers, monkeypatch):
    monkeypatch.setattr(peers, "_ANSWER", 0)
    assert peers.Peers(CLUSTER).lost() == []


def test_a_worker_that_does_not_come(monkeypatch, capsys):
    monkeypatch.setattr(peers, "_REMIND", -1)
    monkeypatch.setattr(peers, "ARRIVAL", 0.5)
    with socket.create_server(("localhost", 0)) as there, socket.socket() as absent:
        absent.bind(("localhost", 0))  # and does not listen
        addresses = tuple(f"localhost:{each.getsockname()[1]}" for each in (there, absent))
        with pytest.raises(BertTfError, match=rf"worker 1 \({addresses[1]}\) did not come within"):
            peers.Peers(Cluster(addresses, 0)).meet()
        assert f"waiting for worker 1 ({addresses[1]})\n" in capsys.readouterr().err

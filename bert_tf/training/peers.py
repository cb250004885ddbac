"""Checks that the other processes of a strategy are still there, and which one is not.

TensorFlow's collectives wait without end for a process that is stopped or unreachable. Its
coordination service would end them, but after ten seconds even where all processes had been
paused together, and often without a word about which one failed. So it is turned off, and every
process asks every other one's TensorFlow server for its status. TensorFlow's own function for that
holds Python's lock while it waits, so that several silent workers would be asked one after the
other and nothing else went on; the question is therefore sent by gRPC. A worker is lost after
several unanswered probes in a row, not after a time: a pause of this very process costs one.
"""

import socket
import sys
import threading
import time

import grpc
import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended
from tensorflow.python.eager import context  # collectives are aborted by no public name

from bert_tf.errors import BertTfError, UsageError, explain

ARRIVAL = 600  # seconds that all workers have to come
_REMIND = 15  # seconds between lines about those that are missing
_ANSWER = 5  # seconds that a probe waits
_PAUSE = 1  # seconds between probes
_TRIES = 5  # unanswered ones in a row that make a worker lost
_ROUND = _ANSWER + _PAUSE
# `tensorflow/core/protobuf/worker_service.proto`: an empty request, answered with the devices and
# the numbers that they drew when the process began.
_STATUS = "/tensorflow.WorkerService/GetStatus"
_CHANNEL = (("grpc.enable_http_proxy", 0), ("grpc.max_reconnect_backoff_ms", 1000 * _PAUSE))


class Peers:
    """The other workers of a cluster, watched by a thread each.

    Args:
        cluster: a `Cluster`; the strategy of this process is there already.
    """

    def __init__(self, cluster):
        self._cluster = cluster
        self._unanswered = dict.fromkeys(range(len(cluster.workers)), 0)  # probes in a row
        self._news = threading.Event()  # one is lost

    @staticmethod
    def prepare():
        """Turn off TensorFlow's health checks; to be called before the strategy is made."""
        context.context().configure_coordination_service(service_type="")
        CollectiveAllReduceExtended._enable_check_health = False

    def meet(self, gpus=0):
        """Wait for all of them, then begin to watch.

        Args:
            gpus: of this process.

        Raises:
            BertTfError: one did not come within `ARRIVAL` seconds; it is named.
            UsageError: one takes itself for another worker, or has another number of GPUs; it is
                named.
        """
        others = [index for index in range(len(self._cluster.workers))
                  if index != self._cluster.index]
        started = reminded = time.monotonic()
        missing = others
        while missing := [index for index in missing if not self._listens(index)]:
            names = ", ".join(map(self._cluster.name, missing))
            now = time.monotonic()
            if now - started > ARRIVAL:
                raise BertTfError(explain(
                    f"{names} did not connect within {ARRIVAL} s",
                    attempt="starting every worker, and that each reaches the others' ports"))
            if now - reminded > _REMIND:
                print(f"waiting for {names}", file=sys.stderr)
                reminded = now
            time.sleep(0.2)
        devices = {index: found for index in others if (found := self._devices(index))}
        own = self._cluster.name(self._cluster.index)
        if strange := [self._cluster.name(index) for index, found in devices.items()
                       if f"/task:{index}/".encode() not in found]:
            time.sleep(_ROUND)  # so that those ask this one, too
            raise UsageError(explain(
                f"{', '.join(strange)} in the list of {own} has another number in its own",
                "the same list of workers in each TF_CONFIG, and the index of each in it"))
        counts = {index: found.count(f"/task:{index}/device:GPU:".encode())
                  for index, found in devices.items()}
        if unequal := [f"{self._cluster.name(index)} has {count} GPUs"
                       for index, count in counts.items() if count != gpus]:
            time.sleep(_ROUND)
            raise UsageError(explain(
                f"{', '.join(unequal)}, {own} {gpus}", "as many on each",
                "CUDA_VISIBLE_DEVICES; with TF_CPP_MIN_LOG_LEVEL=0 TensorFlow tells why it does "
                "not find one"))
        for index in others:
            threading.Thread(target=self._watch, args=(index,), daemon=True).start()

    def _listens(self, index):
        host, _, port = self._cluster.workers[index].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
        except OSError:
            return False
        return True

    def _devices(self, index):
        """The devices that the process at a worker's address says it has, with its number; bytes.
        """
        with grpc.insecure_channel(self._cluster.workers[index], _CHANNEL) as channel:
            try:
                return channel.unary_unary(_STATUS)(b"", timeout=_ANSWER)
            except grpc.RpcError:
                return b""  # lost, as the watch will find

    def _watch(self, index):
        known = None
        with grpc.insecure_channel(self._cluster.workers[index], _CHANNEL) as channel:
            status = channel.unary_unary(_STATUS)
            while self._unanswered[index] < _TRIES:
                try:
                    answer = status(b"", timeout=_ANSWER)
                    known = known or answer
                    there = answer == known  # or a process that was started anew
                except grpc.RpcError:
                    there = False
                self._unanswered[index] = 0 if there else self._unanswered[index] + 1
                time.sleep(_PAUSE)
        self._news.set()
        context.context().abort_collective_ops(
            tf.errors.UNAVAILABLE, f"{self._cluster.name(index)} does not answer")

    def lost(self):
        """Return the names of the workers that do not answer, found out after a collective failed.

        This process answers until all others that are there have found out, too, so that none of
        these is taken for lost.
        """
        if not self._news.wait(_ROUND * _TRIES + _ANSWER):
            return []
        time.sleep(_ROUND)
        # Of several that are lost together one may refuse at once and another one stay silent.
        while any(0 < count < _TRIES for count in self._unanswered.values()):
            time.sleep(_PAUSE / 10)
        lost = [self._cluster.name(index) for index, count in self._unanswered.items()
                if count >= _TRIES]
        time.sleep(_ROUND)
        return lost

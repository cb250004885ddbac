"""What runs together: requests of several clients, per signature and within bounds."""

import concurrent.futures
import urllib.request

import grpc
import numpy as np
import pytest
from server_harness import BINARY, Held, arrays, refused, wait_until
from small_model import BATCHING, save_small


@pytest.fixture
def clients():
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def busy(server, clients, tmp_path):
    """The server's only batch thread is at work; `busy()` lets it go on."""
    held = Held(tmp_path)
    working = clients.submit(server.predict, "merging", "hold", text=[held.path])
    held.wait()
    released = []

    def release():
        if not released:
            released.append(held.release())
            working.result()

    yield release
    release()


def _queued(server):
    """A mark in the server's order of requests: what was sent before is queued now."""
    # A call on the same connection; calls are begun in the order in which they were sent.
    server.status("plain")


def _send(server, model, signature="", **inputs):
    return server.predictions.Predict.future(server.request(model, signature, **inputs))


def test_requests_of_several_clients_run_together(server, busy):
    sent = [_send(server, "merging", text=["a" * length])
            for length in range(8)]
    _queued(server)
    busy()
    for length, response in enumerate(sent):
        outputs = arrays(response.result())
        assert outputs["length"].tolist() == [length]
        assert outputs["batch"].tolist() == [8]


def test_signatures_run_apart(server, busy):
    first = _send(server, "merging", text=["a"])
    second = _send(server, "merging", "ids", ids=[[1, 2]])
    third = _send(server, "merging", "ids", ids=[[5, 6]])
    _queued(server)
    busy()
    assert arrays(first.result())["batch"].tolist() == [1]
    assert arrays(second.result())["sum"].tolist() == [3]
    assert arrays(second.result())["batch"].tolist() == [2]
    assert arrays(third.result())["sum"].tolist() == [11]


def test_ids_that_are_merged_need_one_length(server, busy):
    sent = [_send(server, "merging", "ids", ids=ids) for ids in ([[1, 2]], [[1, 2, 3]])]
    _queued(server)
    busy()
    for one in sent:
        with refused("FAILED_PRECONDITION", "different (lengths|shapes)"):
            one.result()


def test_a_full_queue_sheds_load(server, busy):
    fitting = [_send(server, "merging", text=["a"] * 8) for _ in range(2)]
    _queued(server)
    with refused("UNAVAILABLE"):
        server.predict("merging", text=["a"])
    busy()
    assert all(arrays(one.result())["batch"].tolist() == [8] * 8 for one in fitting)
    assert arrays(server.predict("merging", text=["a"]))["batch"].tolist() == [1]


def test_a_request_larger_than_a_batch_is_refused(server):
    with refused("INVALID_ARGUMENT", "9 .*8"):
        server.predict("merging", text=["a"] * 9)


def test_what_nobody_waits_for_any_more_is_not_run(server, busy):
    kept = _send(server, "merging", text=["a"])
    dropped = _send(server, "merging", text=["b"])
    _queued(server)
    assert dropped.cancel()
    with pytest.raises(grpc.RpcError) as late:
        server.predict("merging", text=["c"], timeout=0.5)
    # The client's own word, or the server's, whichever comes first.
    assert late.value.code() in (grpc.StatusCode.DEADLINE_EXCEEDED,
                                 grpc.StatusCode.RESOURCE_EXHAUSTED)
    _queued(server)
    busy()
    assert arrays(kept.result())["batch"].tolist() == [1]


def test_one_request_s_fault_is_told_to_all_that_ran_with_it(server, busy):
    sent = [_send(server, "merging", "number", text=[text]) for text in ("1", "x")]
    _queued(server)
    busy()
    for one in sent:
        with refused("INVALID_ARGUMENT", "could not correctly convert string: x"):
            one.result()


def test_outputs_without_a_batch_axis_cannot_be_split(server):
    outputs = arrays(server.predict("plain", "whole", text=["a", "b"]))
    assert outputs["size"] == 2 and outputs["all"].item() == b"ab"
    with refused("FAILED_PRECONDITION", "output"):
        server.predict("merging", "whole", text=["a", "b"])


def test_inputs_must_have_a_batch_axis(server):
    with refused("INVALID_ARGUMENT", "dimension|axis|shape"):
        server.predict("merging", text="a")


def test_padding_and_allowed_sizes(models, server, busy):
    one = models.add(save=save_small, batching=BATCHING + """
        allowed_batch_sizes: 4 allowed_batch_sizes: 8 pad_variable_length_inputs: true""")
    models.reload()
    sent = [_send(server, one.name, "ids", ids=ids)
            for ids in ([[1, 2]], [[3, 4, 5], [6, 7, 8]])]
    _queued(server)
    busy()
    first, second = (arrays(response.result()) for response in sent)
    # What is added is the tensor's first element, and answers are as wide as the batch.
    np.testing.assert_array_equal(first["ids"], [[1, 2, 1]])
    np.testing.assert_array_equal(second["ids"], [[3, 4, 5], [6, 7, 8]])
    assert first["batch"].tolist() == [4] and second["batch"].tolist() == [4, 4]


def test_a_large_request_runs_in_parts_where_that_is_configured(models, server):
    one = models.add(save=save_small, batching="""
        max_batch_size { value: 8 } max_execution_batch_size { value: 3 }
        enable_large_batch_splitting { value: true }""")
    models.reload()
    outputs = arrays(server.predict(one.name, text=["a" * length for length in range(7)]))
    assert outputs["length"].tolist() == list(range(7))
    assert max(outputs["batch"]) == 3
    with refused("INVALID_ARGUMENT", "9 .*8"):
        server.predict(one.name, text=["a"] * 9)


def test_batches_are_counted(server):
    def metrics():
        with urllib.request.urlopen(server.rest + "/metrics") as response:
            return response.read().decode()

    with refused("NOT_FOUND"):
        server.predict("nowhere", text=["a"])
    server.predict("merging", text=["a"])
    wait_until(lambda: ':tensorflow:serving:request_count{model_name="merging",status="OK"}'
               in metrics(), "the request is counted")
    text = metrics()
    for name, kind in (
            ("request_count", "counter"), ("request_latency", "histogram"),
            ("runtime_latency", "histogram"), ("batching_session:queuing_latency", "histogram"),
            ("batching_session:wrapped_run_count", "counter"),
            ("batching_session:input_batch_size", "histogram"),
            ("batching_session:processed_batch_size", "histogram"),
            ("batching_session:padding_size", "histogram")):
        assert f"# TYPE :tensorflow:serving:{name} {kind}\n" in text
        assert f"\n:tensorflow:serving:{name}{'' if kind == 'counter' else '_sum'}" in text
    assert BINARY or "nowhere" not in text  # else any name would take memory for good

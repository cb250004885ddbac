"""What is counted, under the names and types that TensorFlow Serving's exporter gives."""

from bert_tf.serving.server.metrics import Metrics


def test_a_batch_that_is_filled_up():
    metrics = Metrics()
    metrics.batch("pool", [2, 1], 4, [0.001, 0.002])
    lines = metrics.text().decode().splitlines()
    name = ":tensorflow:serving:batching_session:"
    for line in ("wrapped_run_count 1.0", "input_batch_size_sum 3.0", "input_batch_size_count 2.0",
                 "processed_batch_size_sum 4.0",
                 'padding_size_sum{execution_batch_size="4"} 1.0',
                 'queuing_latency_sum{thread_pool_name="pool"} 3000.0',
                 'merged_requests_sum{thread_pool_name="pool"} 2.0'):
        assert name + line in lines
    assert f"# TYPE {name}wrapped_run_count counter" in lines
    assert f"# TYPE {name}padding_size histogram" in lines


def test_requests_and_their_examples():
    metrics = Metrics()
    metrics.request("m", "Classify", "GRPC", "OK", 0.5)
    metrics.request("m", "Classify", "GRPC", "NOT_FOUND", 0.5)  # whose time is not kept
    metrics.examples("m", 3)
    metrics.runtime("m", "Classify", 0.25)
    lines = metrics.text().decode().splitlines()
    for line in ('request_count{model_name="m",status="OK"} 1.0',
                 'request_count{model_name="m",status="NOT_FOUND"} 1.0',
                 'request_example_count_total{model="m"} 3.0',
                 'request_example_counts_sum{model="m"} 3.0'):
        assert f":tensorflow:serving:{line}" in lines
    sums = {line.split("{")[0].rsplit(":")[-1]: float(line.rsplit(" ")[-1]) for line in lines
            if "latency_sum" in line}
    assert sums == {"request_latency_sum": 500_000, "runtime_latency_sum": 250_000}

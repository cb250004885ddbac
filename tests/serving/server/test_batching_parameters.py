"""Files of BatchingParameters: the server's, and that of a model."""

import re

import pytest

from bert_tf.errors import UsageError
from bert_tf.serving.server.batching import Batching, model_batching, read_batching

pytest.importorskip("tensorflow_serving", reason="the extra [serving] is not installed")


def test_a_model_s_own_batching_shares_the_threads(write_file, tmp_path):
    shared = Batching(threads=3, thread_pool="pool")
    assert model_batching(str(tmp_path), shared) is None
    write_file("batching_params.pbtxt",
               "max_batch_size { value: 4 } num_batch_threads { value: 9 }")
    own = model_batching(str(tmp_path), shared)
    assert (own.max_batch_size, own.threads, own.thread_pool) == (4, 3, "pool")


@pytest.mark.parametrize("text, expected", [
    ("max_batch_size { value: 8 }\nmax_batch: 3", 'line 2: .* has no field named "max_batch"'),
    ("max_batch_size { value: 0 }", "max_batch_size 0; expected at least 1"),
    ("max_batch_size: 8", "line 1"),
    ("num_batch_threads { value: 0 }", "num_batch_threads 0"),
    ("batch_timeout_micros { value: -5 }", "batch_timeout_micros -5; expected at least 0"),
    ("max_execution_batch_size { value: 0 } enable_large_batch_splitting { value: true }",
     "max_execution_batch_size 0"),
    ("max_batch_size { value: 8 } allowed_batch_sizes: [1, 4]", "allowed_batch_sizes 1 4; .*8"),
    ("max_batch_size { value: 8 } allowed_batch_sizes: [4, 1, 8]", "increasing"),
    ("max_batch_size { value: 8 } max_execution_batch_size { value: 9 } "
     "enable_large_batch_splitting { value: true }", "at most max_batch_size, 8")])
def test_batching_parameters_that_cannot_be(write_file, text, expected):
    path = write_file("batching.config", text)
    with pytest.raises(UsageError, match=re.escape(path) + ".*" + expected):
        read_batching(path)

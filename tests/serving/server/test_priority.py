"""What keeps requests from waiting for a version that comes."""

import concurrent.futures
import os
import subprocess
import sys
import threading

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef
from tensorflow.python.eager import context

from bert_tf.serving.server import priority
from bert_tf.serving.server.signature import Signature


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
def test_a_thread_gives_way_and_no_other():
    def niceness():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    with concurrent.futures.ThreadPoolExecutor(1, initializer=priority.lower_priority) as pool:
        assert pool.submit(niceness).result() > niceness() == os.nice(0)


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
def test_a_server_that_gives_way_itself_gives_way_further():
    """To set less than the process has needs privileges, and would put loading first."""
    code = ("import os; from bert_tf.serving.server import priority; os.nice(12); "
            "priority.lower_priority(); print(os.nice(0))")
    told = subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True)
    assert told.stdout.split() == ["19"]


def test_collections_leave_out_what_was_imported():
    code = ("import gc, sys; from bert_tf.serving.server import priority; "
            "count = len(gc.get_objects()); priority.favor_requests(); "
            "print(gc.get_freeze_count() > count / 2, len(gc.get_objects()) < count / 2, "
            "sys.getswitchinterval() < 0.005)")
    told = subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True)
    assert told.stdout.split() == ["True"] * 3


def test_a_signature_is_optimized_once_and_other_functions_as_before():
    found = []

    def function(x):
        config = config_pb2.ConfigProto.FromString(
            context.context().function_call_options.config_proto_serialized)
        found.append((config.graph_options.rewrite_options.meta_optimizer_iterations,
                      config.allow_soft_placement))
        return {"y": x + 1}

    definition = SignatureDef()
    definition.inputs["x"].dtype = tf.float32.as_datatype_enum
    definition.outputs["y"].dtype = tf.float32.as_datatype_enum
    before = context.context().function_call_options
    assert Signature("f", definition, function).run({"x": tf.constant(1.0).numpy()})["y"] == 2
    assert found == [(rewriter_config_pb2.RewriterConfig.ONE, True)]
    assert context.context().function_call_options is before

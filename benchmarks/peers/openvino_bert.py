"""OpenVINO as a side of the benchmarks of speed, see `speed/worker.py`: transformers' encoder, in
int8 as NNCF rounds it by a batch of drawn tokens."""

import os

import numpy as np
import openvino
import torch
import transformers
from peers.hf_bert import example, make_model, tensors

PACKAGES = ("openvino", "torch", "transformers")
HINTS = {"float32": "f32", "bfloat16": "bf16", "int8": "bf16"}  # of what is not in int8


def encoder(config, dtype):
    """A graph of its own for each shape that comes again, one for all the others."""
    model = make_model(transformers.BertModel, config, "float32").eval()
    with torch.inference_mode():
        graph = openvino.convert_model(model, example_input=example())
    names = [port.get_any_name() for port in graph.inputs]
    if dtype == "int8":
        graph = _rounded(graph, names, config["vocab_size"])
    core, compiled = openvino.Core(), {}

    def compiled_for(shape):
        if shape not in compiled:
            graph.reshape(dict.fromkeys(names, openvino.PartialShape(shape)))
            compiled[shape] = core.compile_model(graph, "CPU", {
                "INFERENCE_PRECISION_HINT": HINTS[dtype], "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"])})
        return compiled[shape].create_infer_request()

    def prepare(batch, fixed):
        shape = batch["input_mask"].shape if fixed else (-1, -1)
        arrays = {name: value.numpy() for name, value in tensors(batch).items()}
        return compiled_for(shape), {name: arrays[name] for name in names}

    def run(inputs):
        request, arrays = inputs
        request.infer(arrays)
        return request.get_output_tensor(0).data

    return prepare, run


def _rounded(graph, names, vocab_size):
    import nncf

    ids = np.random.default_rng(1).integers(vocab_size, size=[8, 128], dtype=np.int32)
    batch = tensors({"input_word_ids": ids, "input_mask": np.ones_like(ids),
                     "input_type_ids": np.zeros_like(ids)})
    return nncf.quantize(graph, nncf.Dataset([{name: batch[name].numpy() for name in names}]),
                         model_type=nncf.ModelType.TRANSFORMER, subset_size=1)

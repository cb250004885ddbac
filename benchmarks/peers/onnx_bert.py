"""ONNX Runtime in int8 as a side of the benchmarks of speed, see `speed/worker.py`: transformers'
encoder, its products by `quantize_dynamic`, as the runtime's documentation has it for them."""

import os
import tempfile

import onnxruntime
import torch
import transformers
from onnxruntime.quantization import QuantType, quantize_dynamic
from peers.hf_bert import example, make_model, tensors

PACKAGES = ("onnxruntime", "torch", "transformers")


def encoder(config, dtype):
    """Kernels have a scale a channel, inputs of a product one; `dtype` is `int8`."""
    model = make_model(transformers.BertModel, config, "float32").eval()
    names = list(example())
    axes = dict.fromkeys(names, {0: "batch", 1: "seq_length"})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    with tempfile.TemporaryDirectory() as folder:
        exact, rounded = (os.path.join(folder, name) for name in ("exact.onnx", "int8.onnx"))
        torch.onnx.export(_States(model), tuple(example().values()), exact, input_names=names,
                          output_names=["states"], dynamic_axes=axes, opset_version=17,
                          dynamo=False)
        quantize_dynamic(exact, rounded, per_channel=True, weight_type=QuantType.QInt8)
        session = onnxruntime.InferenceSession(rounded, options,
                                               providers=["CPUExecutionProvider"])
    return (lambda batch, fixed: {name: value.numpy() for name, value in tensors(batch).items()},
            lambda inputs: session.run(["states"], inputs)[0])


class _States(torch.nn.Module):
    """The last layer's states, of arguments in order."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(**dict(zip(example(), inputs, strict=True))).last_hidden_state

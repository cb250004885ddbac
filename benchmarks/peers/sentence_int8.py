"""sentence-transformers in int8 by ONNX Runtime or OpenVINO, see `speed/worker.py`."""

import os
import tempfile

import datasets
import onnxruntime
from optimum.intel import OVConfig, OVQuantizationConfig, OVQuantizer
from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

PACKAGES = ("sentence-transformers", "onnxruntime", "openvino", "nncf", "optimum-intel")
_ONNX = "avx512_vnni"


def embedder(model, dtype, calibration):
    """Its own `encode`, which sorts the texts by length.

    `dtype` is `onnx`, scales of each batch, as its documentation advises; or `openvino`, ranges of
    the texts in the file `calibration`.
    """
    with tempfile.TemporaryDirectory() as folder:
        loaded = (_onnx if dtype == "onnx" else _openvino)(model, folder, calibration)

    def embed(texts, batch_size):
        return loaded.encode(texts, batch_size=batch_size, show_progress_bar=False)

    return embed


def _onnx(model, folder, _):
    threads = onnxruntime.SessionOptions()
    threads.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    exact = SentenceTransformer(model, backend="onnx", model_kwargs={"export": True})
    exact.save_pretrained(folder)
    export_dynamic_quantized_onnx_model(exact, _ONNX, folder)
    return SentenceTransformer(folder, backend="onnx", model_kwargs={
        "file_name": f"onnx/model_qint8_{_ONNX}.onnx", "session_options": threads})


def _openvino(model, folder, calibration):
    config = {"INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"]),
              "PERFORMANCE_HINT": "LATENCY"}
    exact = SentenceTransformer(model, backend="openvino", model_kwargs={"export": True})
    exact.save_pretrained(folder)
    with open(calibration, encoding="utf-8") as stream:
        texts = stream.read().splitlines()
    OVQuantizer.from_pretrained(exact.transformers_model).quantize(
        calibration_dataset=datasets.Dataset.from_list([
            dict(exact.tokenizer(text, truncation=True)) for text in texts]),
        save_directory=folder,
        ov_config=OVConfig(quantization_config=OVQuantizationConfig(num_samples=len(texts))))
    return SentenceTransformer(folder, backend="openvino", model_kwargs={"ov_config": config})

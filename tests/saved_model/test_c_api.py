"""The exported model through TensorFlow's C library in a process without Python's TensorFlow."""

import base64
import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from tiny_model import SEQ_LENGTH, TEXTS, examples

from bert_tf.saved_model.ops import SERVING_TEXT_OPS, used_ops
from bert_tf.tokenization.packing import pack

pytestmark = pytest.mark.improved_graphs  # what the served graphs answer, as users run them

HARNESS = pathlib.Path(__file__).with_name("c_api.py")
LIBRARIES = {  # op: the library of the tensorflow-text wheel that registers it
    "FastBertNormalize": "_fast_bert_normalizer.so",
    "FastWordpieceTokenizeWithOffsets": "_fast_wordpiece_tokenizer.so",
    "NormalizeUTF8": "_normalize_ops.so",
    "RegexSplitWithOffsets": "_regex_split_ops.so",
    **dict.fromkeys(("SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp"),
                    "_sentencepiece_tokenizer.so"),
}


def run(version, libraries, requests):
    """The completed process of the harness."""
    folder = pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent / "python/ops"
    request = {"saved_model": version, "libraries": [str(folder / name) for name in libraries],
               "requests": requests}
    written = json.dumps(request, default=lambda data: {"b64": base64.b64encode(data).decode()})
    return subprocess.run([sys.executable, HARNESS], input=written, text=True,
                          capture_output=True, timeout=120)


@pytest.mark.parametrize(("name", "dtype", "tolerance"), [
    ("bert", "float32", 1e-5), ("cased", "bfloat16", 0.02), ("gpt", "float32", 1e-5),
    ("left_to_right", "float32", 1e-5),
    ("several", "float32", 1e-5), ("regressor", "float32", 1e-5), ("span", "float32", 1e-5),
    ("tagger", "float32", 1e-5)])
def test_every_signature(name, dtype, tolerance, exported):
    export = exported(name, dtype)
    version, call = export.version, export.call
    vocabulary = export.tokenizer.vocabulary
    texts = [text.replace("[MASK]", vocabulary.special_tokens[-1]) for text in TEXTS]
    ids = pack(vocabulary, [export.tokenizer.tokenize(texts)], SEQ_LENGTH)
    everything = {"text": texts, "text_a": texts, "text_b": texts[::-1],
                  "question": texts, "context": texts[::-1], "seed": list(range(len(texts))),
                  "inputs": examples(text=texts, text_a=texts, text_b=texts[::-1]),
                  **{name: value.numpy().tolist() for name, value in ids.items()}}
    requests = []
    for name, function in call.signatures.items():
        names = function.structured_input_signature[1]
        rows = [slice(None), slice(1)] if "input_word_ids" in names else [
            slice(None), slice(1), slice(0)]  # a list cannot tell an empty batch of ids
        requests += [(name, {key: everything[key][some] for key in names}) for some in rows]
    libraries = {LIBRARIES[op] for op in used_ops(version) & SERVING_TEXT_OPS}
    process = run(version, sorted(libraries), requests)
    assert process.returncode == 0, process.stderr
    for (signature, inputs), answer in zip(requests, json.loads(process.stdout), strict=True):
        expected = call(signature, **inputs)
        assert set(answer) == set(expected)
        for output, wanted in expected.items():
            given = np.array(answer[output]["values"]).reshape(answer[output]["shape"])
            assert given.shape == wanted.shape
            if wanted.dtype == np.float32:
                np.testing.assert_allclose(given, wanted, atol=tolerance)
            elif wanted.dtype == object:
                # bfloat16 leaves near ties, which change places.
                if tolerance < 1e-4 or signature != "fill_mask":
                    assert [text.decode() for text in wanted.ravel()] == given.ravel().tolist()
            else:
                np.testing.assert_array_equal(given, wanted)


def test_an_op_without_its_library_is_an_error(exported):
    version = exported("bert").version
    libraries = [name for name in LIBRARIES.values() if "wordpiece" not in name]
    process = run(version, libraries, [("encode", {"text": ["fox"]})])
    assert process.returncode == 1
    assert "FastWordpieceTokenizeWithOffsets" in process.stderr

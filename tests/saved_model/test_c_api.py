"""The exported model through TensorFlow's C library in a process without Python's TensorFlow."""

import base64
import functools
import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import SEQ_LENGTH, TEXTS, examples

from bert_tf.saved_model.ops import SERVING_TEXT_OPS, used_ops
from bert_tf.tokenization.packing import pack

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
    # Whether graphs are improved is as in this process.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = (
        tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"])
    request = {"saved_model": version, "libraries": [str(folder / name) for name in libraries],
               "config": config.SerializeToString(), "requests": requests}
    written = json.dumps(request, default=lambda data: {"b64": base64.b64encode(data).decode()})
    return subprocess.run([sys.executable, HARNESS], input=written, text=True,
                          capture_output=True, timeout=300)


def libraries_of(version):
    """The libraries of the ops that an export uses."""
    return sorted({LIBRARIES[op] for op in used_ops(version) & SERVING_TEXT_OPS})


def answers(version, requests):
    """What an export answers in a process of its own, which has to live to the last request."""
    process = run(version, libraries_of(version), requests)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def good_inputs(export):
    """`{input: rows}` for all signatures."""
    vocabulary = export.tokenizer.vocabulary
    texts = [text.replace("[MASK]", vocabulary.special_tokens[-1]) for text in TEXTS]
    ids = pack(vocabulary, [export.tokenizer.tokenize(texts)], SEQ_LENGTH)
    return {"text": texts, "text_a": texts, "text_b": texts[::-1],
            "question": texts, "context": texts[::-1], "seed": list(range(len(texts))),
            "inputs": examples(text=texts, text_a=texts, text_b=texts[::-1]),
            **{name: value.numpy().tolist() for name, value in ids.items()}}


@pytest.fixture(scope="module")
def asked(exported):
    """`asked(name, dtype)` -> good requests and harmful cases, each with its answer.

    All in one process, which takes seconds to start and, where it does so, to improve each graph.
    """
    @functools.cache
    def ask(name, dtype):
        export = exported(name, dtype)
        everything = good_inputs(export)
        good, cases = good_requests(export, everything), [*harmful(export, everything)]
        found = answers(export.version, [*good, *(case[:2] for case in cases)])
        return (list(zip(good, found[:len(good)], strict=True)),
                list(zip(cases, found[len(good):], strict=True)))

    return ask


def good_requests(export, everything):
    """`(signature, inputs)` of all signatures: several rows, one and none."""
    requests = []
    for name, function in export.call.signatures.items():
        names = function.structured_input_signature[1]
        rows = [slice(None), slice(1)] if "input_word_ids" in names else [
            slice(None), slice(1), slice(0)]  # a list cannot tell an empty batch of ids
        requests += [(name, {key: everything[key][some] for key in names}) for some in rows]
    return requests


@pytest.mark.parametrize(("name", "dtype", "tolerance"), [
    ("bert", "float32", 1e-5),
    *(pytest.param(*values, marks=pytest.mark.long) for values in (
        ("several", "float32", 1e-5), ("cased", "bfloat16", 0.02),
        ("left_to_right", "float32", 1e-5), ("gpt", "float32", 1e-5),
        ("roberta", "float32", 1e-5), ("albert", "float32", 1e-5),
        ("regressor", "float32", 1e-5), ("span", "float32", 1e-5), ("tagger", "float32", 1e-5)))])
def test_every_signature(name, dtype, tolerance, exported, asked):
    call = exported(name, dtype).call
    for (signature, inputs), answer in asked(name, dtype)[0]:
        expected = call(signature, **inputs)
        assert set(answer) == set(expected), answer
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


def shaped(shape, values):
    """An input of any shape, its values repeated as often as it takes."""
    size = int(np.prod(shape))
    return {"shape": shape, "values": (values * (size // len(values) + 1))[:size]}


def harmful(export, everything):
    """Yield `(signature, inputs, what is to come)` for every signature of an export.

    What is to come are the rows of an answer, or words of the message of an INVALID_ARGUMENT.
    """
    config = export.model.config
    limits = {"input_word_ids": config.vocab_size, "input_mask": 2,
              "input_type_ids": max(1, config.type_vocab_size)}
    for signature, function in export.call.signatures.items():
        names = sorted(function.structured_input_signature[1])
        good = {name: everything[name][:2] for name in names}
        ids = {name: shaped([2, 3], [1, 1, 1, 1, 1, 0] if name == "input_mask" else [0])
               for name in names if name in limits}
        good |= ids
        for name in names:
            values = sum(everything[name], []) if name in ids else everything[name]
            right = 2 if name in ids else 1
            for shape in ([], [0], [2], [1, 0], [2, 2], [1, 1, 1], [0, 1, 1]):
                if len(shape) != right:
                    yield signature, {**good, name: shaped(shape, values)}, (
                        f"{name}_must_have_shape_batch",)
            if len(names) > 1:
                for rows in (0, 1, 3):
                    yield signature, {**good, name: shaped([rows, *[3] * (right - 1)], values)}, (
                        "must have the same", name)
            if name in ids:
                yield signature, {**good, name: shaped([2, 4], [0])}, ("must have the same", name)
                for wrong in (-1, limits[name], 2**31 - 1, -2**31):
                    yield signature, {**good, name: shaped([2, 3], [wrong, 0])}, (
                        f"{name} must be 0 to {limits[name] - 1}", f"[{wrong}]")
        for shape in ([0, 0], [0, 3], [2, 0]) if ids else ([0],):
            yield signature, {name: shaped(shape[:1 if name == "seed" else 2], [0] if name in ids
                                           else everything[name]) for name in names}, shape[0]
        if signature in ("classify", "regress"):
            for example in (b"", b"\x0a", b"\xff" * 9, b"text"):
                yield signature, {"inputs": [{"b64": base64.b64encode(example).decode()}] * 2}, ()
        elif not ids:
            for broken in BROKEN:
                yield signature, {**good, **{
                    name: [broken, broken] for name in names if name != "seed"}}, 2
            yield signature, good, 2


BROKEN = (b"\xff\xfe b\xe3\x81", b"\xed\xa0\x80 fox", b"\xf4\x90\x80\x80\0a\0", b"\xc0\x80" * 300)
INVALID_ARGUMENT = 3


@pytest.mark.parametrize("name", [
    "bert",
    *(pytest.param(name, marks=pytest.mark.long) for name in (
        "albert", "characters", "classifier", "electra", "encoder", "gpt", "left_to_right",
        "regressor", "roberta", "several", "span", "tagger"))
])
def test_no_input_ends_the_process_or_is_misread(name, asked):
    for (signature, inputs, expected), answer in asked(name, "float32")[1]:
        told = f"{signature} of {str(inputs)[:300]}: {str(answer)[:500]}"
        if isinstance(expected, int):
            assert "code" not in answer, told
            assert {output["shape"][0] for output in answer.values()} == {expected}, told
        else:
            assert answer.get("code") == INVALID_ARGUMENT, told
            assert all(words in answer["error"] for words in expected), told


@pytest.mark.long
@pytest.mark.parametrize("name", ["bert", "gpt", "albert", "span", "tagger"])
def test_a_million_characters_are_answered(name, exported):
    """Of sentences, of blanks, and of one word, which takes byte pairs minutes; Hangul without a
    blank takes SentencePiece a time that grows with its square, so that there is less of it."""
    export = exported(name)
    everything = good_inputs(export)
    texts = ["the quick fox. " * 66_667, " " * 1_000_000]
    texts += ["a" * 1_000_000, "네" * 100_000, "\u1100" * 100_000] if name != "gpt" else []
    requests = []
    for signature in {"embed", "fill_mask", "generate", "tag", "answer"} & set(
            export.call.signatures):
        names = set(export.call.signatures[signature].structured_input_signature[1])
        for text in texts:
            requests.append((signature, {**{key: everything[key][:2] for key in names},
                                         "context" if "context" in names else "text":
                                         [text, "fox"]}))
    assert len(requests) >= len(texts)
    for (signature, _), answer in zip(requests, answers(export.version, requests), strict=True):
        assert "code" not in answer, f"{signature}: {answer}"
        assert {output["shape"][0] for output in answer.values()} == {2}, signature


@pytest.mark.long
@pytest.mark.parametrize("name", ["bert", "gpt", "electra"])
def test_random_ids_are_answered_or_refused(name, exported):
    """As the model's tables say, whichever they are."""
    export = exported(name)
    config = export.model.config
    limits = {"input_word_ids": config.vocab_size, "input_mask": 2,
              "input_type_ids": max(1, config.type_vocab_size)}
    draw = np.random.default_rng(7)
    requests = []
    for signature, function in export.call.signatures.items():
        names = sorted(function.structured_input_signature[1])
        if "input_word_ids" not in names:
            continue
        for _ in range(40):
            spread = draw.choice([1, 1, 2, 1000])
            inputs = {key: draw.integers(-int(spread > 1), spread * limits[key], (3, 9)).tolist()
                      if key in limits else draw.integers(-2**31, 2**31, 3).tolist()
                      for key in names}
            requests.append((signature, inputs))
    refused = 0
    for (signature, inputs), answer in zip(requests, answers(export.version, requests),
                                           strict=True):
        right = all(0 <= number < limits[key] for key, rows in inputs.items() if key in limits
                    for row in rows for number in row)
        assert ("code" not in answer) == right, f"{signature} of {inputs}: {answer}"
        assert right or answer["code"] == INVALID_ARGUMENT
        refused += not right
    assert len(requests) / 8 < refused < len(requests)


def test_an_op_without_its_library_is_an_error(exported):
    version = exported("bert").version
    libraries = [name for name in LIBRARIES.values() if "wordpiece" not in name]
    process = run(version, libraries, [("encode", {"text": ["fox"]})])
    assert process.returncode == 1
    assert "FastWordpieceTokenizeWithOffsets" in process.stderr

"""A small SavedModel with signatures of every kind, and a server in front of it."""

import asyncio
import concurrent.futures
import contextlib
import functools
import json
import os
import shutil
import socket
import tempfile
import threading
from typing import NamedTuple

import tensorflow as tf
import uvicorn
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from bert_tf.serving.server.config import Settings, parser
from bert_tf.serving.server.core import Core
from bert_tf.serving.server.rest_server import make_app

VERSION = 7
CITY, FACE, MASK = "서울", "😀", "<mask>"


def _embed(text):
    """How often a, e and i stand in a text."""
    counts = [tf.strings.length(tf.strings.regex_replace(text, f"[^{letter}]", ""))
              for letter in "aei"]
    return {"embedding": tf.cast(tf.stack(counts, axis=1), tf.float32)}


def _fill_mask(text):
    num_masks = (tf.strings.length(text) - tf.strings.length(
        tf.strings.regex_replace(text, MASK, ""))) // len(MASK)
    real = tf.sequence_mask(num_masks)[:, :, tf.newaxis]
    return {"tokens": tf.where(real, tf.constant([[["Ġ" + CITY, "city"]]]), ""),
            "texts": tf.where(real, tf.constant([[[CITY, "city"]]]), ""),
            "scores": tf.where(real, tf.constant([[[0.75, 0.125]]]), 0.0),
            "positions": tf.cast(real[:, :, 0], tf.int32), "num_masks": num_masks}


def _predict(text):
    length = tf.cast(tf.strings.length(text, "UTF8_CHAR"), tf.float32)
    probabilities = tf.nn.softmax(tf.stack([length, tf.fill(tf.shape(length), 10.0)], axis=1))
    labels = tf.constant(["long", "short"])
    return {"label": tf.gather(labels, tf.argmax(probabilities, axis=1)),
            "score": tf.reduce_max(probabilities, axis=1), "probabilities": probabilities,
            "labels": tf.broadcast_to(labels, tf.shape(probabilities))}


def _found(text, word):
    """Where a word first stands in each text, in characters; its length or, without it, 0."""
    before = tf.strings.regex_replace(text, f"(?s){word}.*", "")
    start = tf.strings.length(before, "UTF8_CHAR")
    there = tf.cast(before != text, tf.int32)
    return start * there, (start + len(word)) * there


def _answer(question, context):
    start, end = _found(context, CITY)
    there = end > start
    # Both in one output: a signature's inputs must all be read.
    score = tf.where(there | (tf.strings.length(question) < 0), 0.875, 0.0)
    best = {"answer": tf.where(there, CITY, ""), "start": start, "end": end, "score": score}
    return {**best, "no_answer_score": 1 - score, "has_answer": there,
            **{f"{name}s": values[:, tf.newaxis] for name, values in best.items()}}


def _tag(text):
    places = [_found(text, CITY), _found(text, FACE)]
    starts, ends = (tf.stack(values, axis=1) for values in zip(*places, strict=True))
    shape = tf.shape(starts)
    return {"entities": tf.broadcast_to(tf.constant([CITY, FACE]), shape),
            "labels": tf.broadcast_to(tf.constant(["LOC", "FACE"]), shape),
            "starts": starts, "ends": ends, "scores": tf.fill(shape, 0.5),
            "num_entities": tf.fill([shape[0]], 2)}


def _echo(floats, ints, flags, raw_bytes):
    return {"floats": floats, "ints": tf.identity(ints), "flags": tf.identity(flags),
            "raw_bytes": tf.identity(raw_bytes), "first": tf.cast(ints, tf.int64)[0]}


def _example_length(inputs):
    parsed = tf.io.parse_example(inputs, {"text": tf.io.FixedLenFeature([], tf.string),
                                          "bonus": tf.io.FixedLenFeature([], tf.float32, 0.0)})
    return tf.cast(tf.strings.length(parsed["text"]), tf.float32) + parsed["bonus"]


def _classify(inputs):
    length = _example_length(inputs)
    scores = tf.stack([length, -length], axis=1)
    return {"classes": tf.broadcast_to(tf.constant(["long", "짧은"]), tf.shape(scores)),
            "scores": scores}


def _describe(text):
    return {"description": tf.fill(tf.shape(text), json.dumps(
        {"mask_token": MASK, "pretokenize": "morphemes"}))}


def _slow(steps):
    done = tf.while_loop(lambda step: step < tf.reduce_max(steps), lambda step: (step + 1,), (0,))
    return {"done": done[0] + tf.zeros_like(steps)}


def _sample_ids(input_word_ids, input_mask, input_type_ids, seed):
    return {"seed": tf.identity(seed),
            "word": tf.identity(input_word_ids), "mask": tf.identity(input_mask),
            "sequence_output": tf.repeat(tf.cast(input_type_ids, tf.float32)[..., None], 4, axis=2)}


@functools.cache
def _saved():
    """A folder with the SavedModel, written once a process."""
    module = tf.Module()

    def text(*names):
        return {name: tf.TensorSpec([None], tf.string, name) for name in names}

    table = {
        "embed": (_embed, text("text")), "fill_mask": (_fill_mask, text("text")),
        "predict": (_predict, text("text")), "describe": (_describe, text("text")),
        "rate": (lambda text: {"score": _predict(text)["score"]}, text("text")),
        "answer": (_answer, text("question", "context")),
        "tag": (_tag, text("text")), "classify": (_classify, text("inputs")),
        "regress": (lambda inputs: {"outputs": _example_length(inputs)}, text("inputs")),
        "echo": (_echo, {"floats": tf.TensorSpec([None, 2], tf.float32, "floats"),
                         "ints": tf.TensorSpec([None], tf.int32, "ints"),
                         "flags": tf.TensorSpec([None], tf.bool, "flags"),
                         **text("raw_bytes")}),
        "sample_ids": (_sample_ids, {
            **{name: tf.TensorSpec([None, None], tf.int32, name)
               for name in ("input_word_ids", "input_mask", "input_type_ids")},
            "seed": tf.TensorSpec([None], tf.int32, "seed")}),
        "slow": (_slow, {"steps": tf.TensorSpec([None], tf.int32, "steps")}),
        "double": (lambda x: {"y": 2 * x}, {"x": tf.TensorSpec([None, None], tf.float32, "x")}),
    }
    functions = {name: tf.function(function).get_concrete_function(**inputs)
                 for name, (function, inputs) in table.items()}
    folder = tempfile.TemporaryDirectory(prefix="small")
    tf.saved_model.save(module, folder.name, {"serving_default": functions["embed"], **functions})
    return folder  # which goes when nothing refers to it


def save_small_model(base_path):
    """Write the SavedModel's version; its signatures compute what the functions above say."""
    shutil.copytree(_saved().name, os.path.join(base_path, str(VERSION)))


class Served(NamedTuple):
    """REST in front of a `Core`, in a thread of this process."""

    address: str  # http://127.0.0.1:PORT
    core: Core


@contextlib.contextmanager
def serving(base_path, name="small", settings=None, attention=None, indexes=None, keys=None):
    """Serve a model whose version 7 has the label `stable`; yields a `Served`.

    Args:
        base_path: folder of the model's versions.
        name: of the model.
        settings, attention, indexes, keys: as of `make_app`.
    """
    models = text_format.Parse(f"""
        model_config_list {{ config {{
          name: "{name}" base_path: "{base_path}" model_platform: "tensorflow"
          version_labels {{ key: "stable" value: {VERSION} }} }} }}""", ModelServerConfig())
    started = concurrent.futures.Future()

    async def serve(listening):
        flags = parser("").parse_args(["--allow_version_labels_for_unavailable_models"])
        core = Core(Settings(flags, models))
        try:
            await core.reload(models)
            server = uvicorn.Server(uvicorn.Config(make_app(core, settings, attention,
                                                            indexes=indexes, keys=keys),
                                                   log_config=None, log_level="critical",
                                                   lifespan="off"))
            started.set_result((core, server))
            await server.serve([listening])
        finally:
            await core.close()

    def run(listening):
        try:
            asyncio.run(serve(listening))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    with socket.create_server(("127.0.0.1", 0)) as listening:  # clients may connect from now on
        thread = threading.Thread(target=run, args=[listening])
        thread.start()
        core, server = started.result(timeout=300)
        try:
            yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", core)
        finally:
            server.should_exit = True
            thread.join()

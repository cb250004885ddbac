"""A signature of a SavedModel: what is called, with which inputs, and what its outputs mean."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf


def texts(*names):
    """Return inputs that are texts, string `[B]` each."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def ids(*names):
    """Return inputs that are token ids, masks or segment ids, int32 `[B, S]` each."""
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


TEXT, PAIR = texts("text"), texts("text_a", "text_b")
EXAMPLES = texts("inputs")  # serialized `tf.Example`s
PROMPT = ids("input_word_ids", "input_mask")
IDS = {**PROMPT, **ids("input_type_ids")}
SEED = {"seed": tf.TensorSpec([None], tf.int32, "seed")}


def result(kind, **outputs):
    """Return what one or several outputs mean together, as `Signature.results` has it.

    Args:
        kind: one of those in `bert_tf/serving/wire/results.py`, which lists its parts; so
            clients and pages know how to show it.
        outputs: by the name of a part the name of the output, or of the input that it is `of`.
            `name` is what a span is called, where not `text`.
    """
    return {"kind": kind, **outputs}


def as_it_is(served, inputs, actual, expected, tolerance):
    """Compare all outputs in full; see `Signature.compared`."""
    return actual, expected, {}


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function of a `ServedModel` and how it is published.

    Attributes:
        function: `(served, **inputs)`, gives a dict of outputs.
        inputs: dict of `tf.TensorSpec`.
        objective: the one of `Objective.objectives` that it answers for; None for what every
            model has.
        results: `{name: result(…)}`, what the outputs mean, the main result first.
        main: whether `serving_default` may stand for it.
        expected: `(served, inputs, actual, tolerance)`, what the Keras model answers, given what
            the SavedModel answers; None for what `function` gives.
        compared: `(served, inputs, actual, expected, tolerance)` gives `(actual, expected, clear)`:
            outputs to be compared, and for outputs that choose `{output: bool array}`, where the
            choice is no near tie, which rounding may decide otherwise.
    """

    function: Callable
    inputs: dict
    objective: str | None = None
    results: dict = dataclasses.field(default_factory=dict)
    main: bool = False
    expected: Callable | None = None
    compared: Callable = as_it_is


def clear_ranks(scores, tolerance):
    """Return bool of the shape of `scores [B, M, k]`: no neighbour is within twice the tolerance.
    """
    gaps = np.abs(np.diff(scores, axis=-1)) > 2 * tolerance
    edge = np.ones(scores[..., :1].shape, bool)
    # The last rank's next neighbour is not in the answer.
    return np.concatenate([edge, gaps], -1) & np.concatenate([gaps, ~edge], -1)

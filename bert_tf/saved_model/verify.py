"""Whether an exported graph answers as the Keras model does, and refuses what it has to."""

import math

import numpy as np
import tensorflow as tf

from bert_tf.errors import BertTfError
from bert_tf.saved_model.guards import check_guards
from bert_tf.saved_model.requests import make_requests
from bert_tf.saved_model.signatures import continuation, fill_mask, generate, signatures
from bert_tf.tasks.classification.model import CHOSEN_FROM
from bert_tf.tasks.classification.signature import predict
from bert_tf.tasks.question_answering import signature as answers
from bert_tf.tasks.question_answering.signature import answer
from bert_tf.tasks.token_classification import signature as entities
from bert_tf.tasks.token_classification.signature import tag

_TEXTS = ["The quick brown fox [MASK] over the lazy dog.", "", "안녕하세요, [MASK] 반갑습니다 ㅋㅋ",
          "Café 🙂 [MASK] [MASK]!"]
_SENTENCE = "A sentence of which several are longer than the window. "
_LENGTHS = (7, 1, 3, 5, 6)  # tokens of the rows, where there is no text


def verify(served, folder, tolerance):
    """Compare the SavedModel in `folder` with the Keras model, and try its guards, every signature.

    Args:
        served: the `ServedModel`.
        folder: of the SavedModel.
        tolerance: how far a row may be from the expected one, as a share of its length.

    Raises:
        BertTfError: they differ, or wrong inputs are not refused.
    """
    check_guards(folder)  # before it is run: without them, wrong shapes end the process
    reloaded = tf.saved_model.load(folder)
    rows = signatures(served)
    texts = [*_TEXTS, _SENTENCE * (served.seq_length // 4)]
    answers_of = {}  # what the default stands for is computed once
    for name, inputs in make_requests(served, texts, _LENGTHS).items():
        _refuses(reloaded.signatures[name], name, inputs)
        actual = tf.nest.map_structure(np.asarray, reloaded.signatures[name](**inputs))
        function = rows[name].function
        if function is generate:
            expected = _continuation(served, inputs, actual, tolerance)
        else:
            if id(rows[name]) not in answers_of:
                answers_of[id(rows[name])] = function(served, **inputs)
            expected = answers_of[id(rows[name])]
        expected = tf.nest.map_structure(np.asarray, expected)
        if function is tag:
            # Of labels as likely as each other another may be told.
            clear = entities.clear_texts(served, inputs["text"], tolerance)
            actual, expected = (entities.only(given, clear) for given in (actual, expected))
        clear = _clear_choices(served, function, expected, tolerance)
        for output, values in expected.items():
            same = clear.get(output, np.ones(len(values), bool))
            if values.dtype == np.float32:
                agree = near(actual[output][same], values[same], tolerance)
            else:
                agree = np.array_equal(values[same], actual[output][same])
            if not agree:
                raise BertTfError(f"the reloaded SavedModel gives another `{output}` for the "
                                  f"signature `{name}` than the Keras model; nothing is published")


def _refuses(function, name, inputs):
    """Call a signature with a scalar, a matrix, missing rows and ids that are none, or raise."""
    for key, value in inputs.items():
        wrong = [value[0], value[tf.newaxis]]
        if len(inputs) > 1:
            wrong.append(value[1:])
        if value.dtype == tf.int32 and key != "seed":
            wrong += [value - 1, value + value.dtype.max // 2]
        for given in wrong:
            try:
                function(**{**inputs, key: given})
            except tf.errors.InvalidArgumentError:
                continue
            raise BertTfError(f"the signature `{name}` takes a wrong `{key}`, of the shape "
                              f"{given.shape.as_list()}; nothing is published")


def _clear_choices(served, function, expected, tolerance):
    """`{output: bool}` of outputs that choose: where the choice is no near tie.

    What is nearly as likely as another may change places with it; `expected` is what the Keras
    model answers. The arrays have the shape of the output, or of its first axes.
    """
    if function is fill_mask:
        return {"tokens": clear_ranks(expected["scores"], tolerance)}
    if function is answer:
        ranks = clear_ranks(expected["scores"], tolerance)
        decided = answers.clear_decisions(served, expected, tolerance)
        return {**dict.fromkeys(("answers", "starts", "ends"), ranks), "has_answer": decided,
                **dict.fromkeys(answers.BEST, decided & ranks[:, 0]), "score": decided}
    if function is predict and "label" in expected:
        probabilities = expected["probabilities"]
        best = np.sort(probabilities, axis=-1)[:, -2:]
        return {"label": best[:, -1] - best[:, 0] > 2 * tolerance if best.shape[1] > 1
                else np.ones(len(best), bool),
                "chosen": np.abs(probabilities - CHOSEN_FROM) > 2 * tolerance}
    return {}


def _continuation(served, inputs, actual, tolerance):
    """What a continuation should be, given what it is: one after as likely a token may differ.

    Of every token the Keras model is asked, with those that were chosen before it. One that is
    none of its likeliest is -1 in the answer.
    """
    prompt = served.prompt(inputs)
    ids, num_tokens = actual["output_word_ids"], actual["num_tokens"]
    whole = tf.concat([prompt, tf.RaggedTensor.from_tensor(ids, num_tokens)], axis=1)
    mask = tf.sequence_mask(whole.row_lengths(), dtype=tf.int32)
    logits = served.model({"input_word_ids": whole.to_tensor(), "input_mask": mask},
                          training=False)["language_model_logits"].numpy()
    top_k = served.top_k if "seed" in inputs else 1
    checked = ids.copy()
    for row, start in enumerate(prompt.row_lengths().numpy() - 1):
        for step in range(num_tokens[row]):
            given = logits[row, start + step]
            least = np.partition(given, -top_k)[-top_k]
            if given[ids[row, step]] < least - 2 * tolerance * max(1, np.abs(given).max()):
                checked[row, step] = -1
    return {**continuation(served, prompt, ids, num_tokens, "text" in inputs),
            "output_word_ids": checked}


def near(actual, expected, tolerance):
    """Whether each row of `actual [B, …]` is within `tolerance` of its expected one's size."""
    expected = expected.reshape(len(expected), math.prod(expected.shape[1:]))
    error = np.linalg.norm(actual.reshape(expected.shape) - expected, axis=1)
    return bool(np.all(error <= tolerance * np.maximum(np.linalg.norm(expected, axis=1), 1)))


def clear_ranks(scores, tolerance):
    """Bool of the shape of `scores [B, M, k]`: no neighbour is within twice the tolerance."""
    gaps = np.abs(np.diff(scores, axis=-1)) > 2 * tolerance
    edge = np.ones(scores[..., :1].shape, bool)
    # The last rank's next neighbour is not in the answer.
    return np.concatenate([edge, gaps], -1) & np.concatenate([gaps, ~edge], -1)

"""What models are asked, by whichever version wrote them, and how answers are compared."""

import numpy as np
import tensorflow as tf

import bert_tf

IDS = ("input_word_ids", "input_mask", "input_type_ids")
TEXTS = ["The film was dull.", "", "Ann Lee, in Lisbon: 영화가 재미있다!",
         "a moving story, a dull film " * 6]
PAIRS = (["who went to Lisbon?", "the film"], ["Ann Lee went to Lisbon.", "a story. " * 9])
QUESTIONS = ["who went to Lisbon?", "what was dull?"]
CONTEXTS = ["Ann Lee went to Lisbon.",
            "영화가 재미있다. The story was moving; the film was dull. " * 2]
DIGITS = 7  # of a number in expected.json


def packed(ids):
    """Inputs of rows of token ids, the second half of each row a second segment."""
    width = max(map(len, ids))
    rows = np.zeros([3, len(ids), width], "int32")
    for row, each in enumerate(ids):
        rows[0, row, :len(each)] = each
        rows[1, row, :len(each)] = 1
        rows[2, row, len(each) // 2:len(each)] = 1
    return dict(zip(IDS, rows, strict=True))


def answers_of(name, model):
    """What a model answers to the inputs above, as plain values.

    Args:
        name: of the case, which begins with the model's task.
    """
    return plain(next(asked for task, asked in _ASKED.items() if name.startswith(task))(model))


def _of_pretraining(model):
    return model({**packed([[2, 4, 9, 3], [2, 4, 3]]),
                  "masked_lm_positions": np.array([[1, 2], [1, 0]], "int32")})


def _of_language_model(model):
    inputs = packed([[0, 9, 70, 81, 12], [0, 200]])
    made = bert_tf.generate(model, inputs["input_word_ids"], inputs["input_mask"], 4, top_k=5,
                            seed=3)
    logits = np.asarray(model(inputs)["language_model_logits"])
    return {"logits": logits[..., :7], "best": np.argmax(logits, axis=-1), **made}


_ASKED = {  # the first whose name a case's begins with
    "encoder": lambda model: model(packed([[0, 7, 9, 2], [0, 2]])),
    "pretraining": _of_pretraining,
    "language_model": _of_language_model,
    "replaced_tokens": lambda model: model.discriminate(packed([[2, 7, 9, 3], [2, 8, 3]])),
    "classifier_pair": lambda model: model.predict(PAIRS, verbose=0),
    "classifier": lambda model: model.predict(TEXTS, verbose=0),
    "span": lambda model: getattr(model, "answer_tensors", model.answer)(QUESTIONS, CONTEXTS),
    "tagger": lambda model: model.tag(TEXTS),
    "embedder": lambda model: model.embed(TEXTS),
}


def asked(signatures):
    """What the signatures of a SavedModel that take text answer, but for all hidden states.

    Args:
        signatures: of `tf.saved_model.load`.
    """
    told = {}
    for name, signature in signatures.items():
        specs = signature.structured_input_signature[1]
        inputs = {"text": TEXTS, "question": QUESTIONS, "context": CONTEXTS, "text_a": PAIRS[0],
                  "text_b": PAIRS[1], "seed": list(range(len(TEXTS)))}
        if name not in ("serving_default", "encode") and set(specs) <= set(inputs):
            told[name] = signature(**{key: tf.constant(inputs[key], spec.dtype)
                                      for key, spec in specs.items()})
    return told


def plain(value):
    """Arrays, tensors and bytes as JSON has them, floats with `DIGITS` digits."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "shape"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, bytes):
        return value.decode()
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def assert_same(found, expected, tolerance=1e-5, where="answer"):
    """Compare two plain values: numbers within `tolerance`, everything else exactly.

    Of a dict what `expected` has: later versions may tell more.
    """
    if isinstance(expected, dict):
        assert isinstance(found, dict), f"{where}: {found!r}"
        for name, value in expected.items():
            assert name in found, f"{where} has no {name}: {sorted(found)}"
            assert_same(found[name], value, tolerance, f"{where}[{name}]")
    elif isinstance(expected, list):
        assert len(found) == len(expected), f"{where}: {found!r}, expected {expected!r}"
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, tolerance, f"{where}[{index}]")
    elif isinstance(expected, float):
        assert abs(found - expected) <= tolerance * max(1, abs(expected)), (
            f"{where}: {found!r}, expected {expected!r}")
    else:
        assert found == expected, f"{where}: {found!r}, expected {expected!r}"


def arrays(value):
    """What `plain` made of arrays, and dicts of them, as arrays again."""
    if isinstance(value, dict):
        return {name: arrays(each) for name, each in value.items()}
    found = np.array(value)
    return found.astype({"f": "float32", "i": "int32"}.get(found.dtype.kind, object))

"""Whether an exported graph answers as the Keras model does, on real text."""

import numpy as np
import tensorflow as tf

from bert_tf.errors import BertTfError
from bert_tf.saved_model import answers, entities
from bert_tf.saved_model.signatures import continuation, generate, signatures

_TEXTS = ["The quick brown fox [MASK] over the lazy dog.", "", "안녕하세요, [MASK] 반갑습니다 ㅋㅋ",
          "Café 🙂 [MASK] [MASK]!", "A sentence that is longer than any window. " * 400]
_RANKED = {"fill_mask": ("tokens",), "answer": ("answers", "starts", "ends")}
_LENGTHS = (7, 1, 3, 5, 6)  # tokens of the rows, where there is no text


def verify(served, folder, tolerance):
    """Compare the SavedModel in `folder` with the Keras model, every signature.

    Args:
        served: the `ServedModel`.
        folder: of the SavedModel.
        tolerance: how far a row may be from the expected one, as a share of its length.

    Raises:
        BertTfError: they differ.
    """
    reloaded = tf.saved_model.load(folder)
    rows = signatures(served)
    for name, inputs in sample_requests(served).items():
        actual = tf.nest.map_structure(np.asarray, reloaded.signatures[name](**inputs))
        if rows[name].function is generate:
            expected = _continuation(served, inputs, actual, tolerance)
        else:
            expected = rows[name].function(served, **inputs)
        expected = tf.nest.map_structure(np.asarray, expected)
        if rows[name].function is entities.tag:
            # Of labels as likely as each other another may be told.
            clear = entities.clear_texts(served, inputs["text"], tolerance)
            actual, expected = (entities.only(answer, clear) for answer in (actual, expected))
        for output, values in expected.items():
            if output in _RANKED.get(name, ()):
                # What is as likely as each other may change places.
                same = clear_ranks(expected["scores"], tolerance)
                agree = np.array_equal(values[same], actual[output][same])
            elif output == "has_answer":
                same = answers.clear_decisions(served, expected, tolerance)
                agree = np.array_equal(values[same], actual[output][same])
            elif values.dtype == np.float32:
                agree = near(actual[output], values, tolerance)
            else:
                agree = np.array_equal(values, actual[output])
            if not agree:
                raise BertTfError(f"the reloaded SavedModel gives another `{output}` for the "
                                  f"signature `{name}` than the Keras model; nothing is published")


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
    expected = expected.reshape(len(expected), -1)
    error = np.linalg.norm(actual.reshape(expected.shape) - expected, axis=1)
    return bool(np.all(error <= tolerance * np.maximum(np.linalg.norm(expected, axis=1), 1)))


def clear_ranks(scores, tolerance):
    """Bool of the shape of `scores [B, M, k]`: no neighbour is within twice the tolerance."""
    gaps = np.abs(np.diff(scores, axis=-1)) > 2 * tolerance
    edge = np.ones_like(gaps[..., :1])
    # The last rank's next neighbour is not in the answer.
    return np.concatenate([edge, gaps], -1) & np.concatenate([gaps, ~edge], -1)


def sample_requests(served):
    """`{signature: inputs}`, five rows for every signature that the model has."""
    tensors = _sample_ids(served)
    if served.tokenizer is not None:
        mask_token = served.tokenizer.vocabulary.special_tokens[-1]
        texts = tf.constant([text.replace("[MASK]", mask_token) for text in _TEXTS])
        tensors = {"text": texts, "text_a": texts, "text_b": texts[::-1],
                   "question": texts, "context": texts[::-1], **served.read({"text": texts})}
    tensors["seed"] = tf.range(len(_LENGTHS))
    return {name: {key: tensors[key] for key in signature.inputs}
            for name, signature in signatures(served).items()}


def _sample_ids(served):
    mask = tf.sequence_mask(tf.minimum(_LENGTHS, served.seq_length), dtype=tf.int32)
    ids = tf.reshape(tf.range(tf.size(mask)), tf.shape(mask)) % served.model.config.vocab_size
    return {"input_word_ids": ids * mask, "input_mask": mask,
            "input_type_ids": tf.zeros_like(mask)}

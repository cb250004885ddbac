"""The loss of spans: padding has no part in it."""

import numpy as np
import pytest
from text_models import CONFIG, TINY, VOCABULARY

from bert_tf.errors import UsageError
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def model():
    return QuestionAnswering(TINY, seed=2)


def padded(width):
    """Two rows of 5 and 3 tokens, padded to `width`; the first has no answer."""
    mask = np.arange(width) < np.array([[5], [3]])
    ids = np.where(mask, np.arange(3, width + 3), 0).astype("int32")
    return {"input_word_ids": ids, "input_mask": mask.astype("int32"),
            "input_type_ids": np.zeros_like(ids),
            "start_positions": np.array([0, 1], "int32"),
            "end_positions": np.array([0, 2], "int32")}


def test_padding_has_no_part_in_the_loss(model):
    results = []
    for width in (5, 12):
        batch = padded(width)
        outputs = model(batch)
        results.append([float(value) for value in (*model.loss_sums(outputs, batch).values(),
                                                   *(right for right, _ in model.metric_sums(
                                                       outputs, batch).values()))])
        for task in model.tasks:
            expected = 0.0
            for row, length in enumerate((5, 3)):
                logits = outputs[f"{task}_logits"][row, :length].numpy().astype("float64")
                expected += np.log(np.exp(logits).sum()) - logits[batch[f"{task}_positions"][row]]
            np.testing.assert_allclose(model.loss_sums(outputs, batch)[task], expected, rtol=1e-5)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4)


def test_the_likeliest_token_is_none_of_the_padding(model):
    batch = padded(12)
    outputs = {name: logits.numpy() for name, logits in model(batch).items()}
    for logits in outputs.values():
        logits[:, 5:] = 100.0
        logits[[0, 1], [0, 2]] = 50.0
    batch["start_positions"] = np.array([0, 2], "int32")
    for right, weight in model.metric_sums(outputs, batch).values():
        assert float(right) == float(weight) == 2


def test_text_to_learn_from_is_refused(eager):
    model = QuestionAnswering(CONFIG, preprocessor=QuestionPreprocessor(Tokenizer(VOCABULARY), 12))
    model.compile("sgd")
    with pytest.raises(UsageError, match=r"span was given text and labels; .* try bert_tf.fine"):
        model.fit({"question": ["a"], "context": ["a b"]},
                  {"start_positions": [1], "end_positions": [1]}, verbose=0)

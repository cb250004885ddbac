"""The signature `tag` against the Keras model and against the text."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import SEQ_LENGTH, TAGS, TEXTS, word_piece

from bert_tf.saved_model.served_model import ServedModel, load_served
from bert_tf.saved_model.signatures import signatures
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.signature import clear_texts, only

LONG = [*TEXTS, "안녕 the café! " * 60]


def rows_of(answer):
    """The entities of each text, as `TokenClassifier.tag` gives them."""
    return [[{"text": answer["entities"][row, place].decode(),
              "label": answer["labels"][row, place].decode(),
              "start": answer["starts"][row, place], "end": answer["ends"][row, place],
              "score": pytest.approx(answer["scores"][row, place], abs=1e-4)}
             for place in range(count)] for row, count in enumerate(answer["num_entities"])]


@pytest.mark.parametrize("name", [
    "tagger", pytest.param("characters", marks=pytest.mark.long)])
def test_the_keras_model_and_the_text(name, exported):
    export = exported(name)
    answer = export.call("tag", text=LONG)
    assert rows_of(answer) == [told["entities"] for told in export.model.tag(LONG)]
    assert answer["num_entities"][0] and answer["num_entities"][-1] > 20
    types = {tag.partition("-")[2] for tag in TAGS}
    for text, row in zip(LONG, rows_of(answer), strict=True):
        for entity in row:
            assert text[entity["start"]:entity["end"]] == entity["text"] != ""
            assert entity["label"] in types
    after = np.arange(answer["starts"].shape[1]) >= answer["num_entities"][:, None]
    for output in ("starts", "ends", "scores"):
        assert not answer[output][after].any()
    assert set(answer["entities"][after]) | set(answer["labels"][after]) <= {b""}


def test_what_else_is_in_the_batch_changes_nothing(exported):
    call = exported("tagger").call
    together = rows_of(call("tag", text=LONG))
    for text, expected in zip(LONG, together, strict=True):
        assert rows_of(call("tag", text=[text]))[0] == expected
    assert call("tag", text=[])["num_entities"].shape == (0,)


def test_a_model_without_a_reader_is_served_words(exported, tmp_path, eager):
    model = exported("tagger").model
    bare = TokenClassifier(model.config, TAGS)
    bare.set_weights(model.get_weights())
    bare.save_pretrained(str(tmp_path / "model"), word_piece())
    served = load_served(str(tmp_path / "model"))
    answer = {name: value.numpy() for name, value in signatures(served)["tag"].function(
        served, tf.constant(TEXTS[:4])).items()}
    assert rows_of(answer) == [told["entities"] for told in model.tag(TEXTS[:4])]


def test_texts_whose_labels_are_a_toss_up_are_not_compared(exported):
    export = exported("tagger")
    served = ServedModel(export.model, export.tokenizer, SEQ_LENGTH)
    texts = tf.constant(TEXTS)
    assert clear_texts(served, texts, 0.0).all()
    assert clear_texts(served, texts, 0.6).tolist() == [False, True, False, False, False]
    answer = export.call("tag", text=TEXTS)
    kept = only(answer, np.array([True, True, False, False, False]))
    assert rows_of(kept) == rows_of(answer)[:2]
    assert kept["starts"].shape == (2, answer["num_entities"][0])

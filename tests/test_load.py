"""`bert_tf.from_pretrained`: any folder, text in, plain values out."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special
from text_models import TINY, VOCABULARY, classifier
from tiny_model import LABELS, MODELS, save_model

import bert_tf
from bert_tf.errors import UsageError
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.tokenizer import Tokenizer

TEXTS = ["The quick brown fox.", "안녕하세요 ㅋㅋ", "a lazy dog"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`folder(name)`: that of a model of `MODELS`."""
    root = tmp_path_factory.mktemp("models")
    return lambda name: save_model(os.path.join(root, name), name) if not os.path.exists(
        os.path.join(root, name)) else os.path.join(root, name)


def test_a_new_head_takes_text_at_once(folder, eager):
    model = bert_tf.from_pretrained(folder("bert"), "classifier", labels=["no", "yes"], seed=1)
    tokenizer = MODELS["bert"][0]()
    ids = pack(tokenizer.vocabulary, [tokenizer.tokenize(tf.constant(TEXTS))], 24, fixed=False)
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), model(ids), atol=1e-5)
    [first, *_] = found = model.classify(TEXTS)
    probabilities = special.softmax(model(ids), -1)
    assert len(found) == 3 and first["probabilities"] == pytest.approx(
        dict(zip(["no", "yes"], probabilities[0].tolist(), strict=True)), abs=1e-5)
    assert first["label"] == ["no", "yes"][probabilities[0].argmax()]
    assert model.classify(TEXTS[0])["score"] == pytest.approx(first["score"], abs=1e-5)
    with pytest.raises(UsageError, match="predicts labels, no number; try classify"):
        model.regress(TEXTS)


@pytest.mark.parametrize("task", ["encoder", "embedder", "tagger", "span"])
def test_every_task_reads_text(folder, task, eager):
    options = {"tagger": {"labels": ["O", "B-x"]}}.get(task, {})
    model = bert_tf.from_pretrained(folder("bert"), task, **options)
    if task == "encoder":
        assert model.predict(TEXTS, verbose=0)["pooled_output"].shape == (3, 16)
        assert np.allclose(model(TEXTS)["pooled_output"],
                           model(model.preprocessor(tf.constant(TEXTS)))["pooled_output"])
    elif task == "embedder":
        assert model.embed(TEXTS[0]).shape == (16,)
        ranked = model.rank(TEXTS[0], TEXTS[::-1])
        assert ranked[0]["index"] == 2 and ranked[0]["score"] == pytest.approx(1, abs=1e-5)
        assert [each["score"] for each in ranked] == sorted(
            (each["score"] for each in ranked), reverse=True)
    elif task == "tagger":
        [first, *_] = model.tag(TEXTS)
        assert [unit["text"] for unit in first["units"]] == ["The", "quick", "brown", "fox", "."]
        assert model.tag(TEXTS[0])["units"][0]["text"] == "The"
    else:
        answer = model.answer("the fox", TEXTS[0])
        assert TEXTS[0][answer["start"]:answer["end"]] == answer["answer"]
        assert answer["answers"][0]["score"] == answer["score"]


def test_labels_numbers_and_masks_are_plain(folder, eager):
    several = bert_tf.from_pretrained(folder("several"))
    row = several.classify(TEXTS[0], TEXTS[1])
    assert row["chosen"] == [label for label in LABELS if row["probabilities"][label] >= 0.5]
    number = bert_tf.from_pretrained(folder("regressor"))
    assert isinstance(number.regress(TEXTS[0]), float) and len(number.regress(TEXTS)) == 3
    model = bert_tf.from_pretrained(folder("bert"))
    filled = model.fill_mask(["The [MASK] fox [MASK].", "none"], top_k=2)
    assert [len(each) for each in filled] == [2, 0] and len(filled[0][0]) == 2
    assert filled[0][0][0]["score"] >= filled[0][0][1]["score"] > 0
    assert model.fill_mask("The [MASK] fox [MASK].", top_k=2)[0][0]["token"] == (
        filled[0][0][0]["token"])
    most = model.config.vocab_size
    assert len(model.fill_mask("[MASK]", top_k=most)[0]) == most
    for top_k in (0, most + 1, 2.5, "3"):
        with pytest.raises(UsageError, match=f"top_k={top_k!r}; expected 1 to {most}, the voc"):
            model.fill_mask("[MASK]", top_k=top_k)
    for texts in ("[MASK]", []):
        with pytest.raises(UsageError, match="batch_size=0"):
            model.fill_mask(texts, batch_size=0)
    long = "[MASK] " + "fox " * model.config.longest + "[MASK]"
    with pytest.raises(UsageError, match=r"texts\[1\] has 2 masks, 1 of them in the \d+ tokens"):
        model.fill_mask(["[MASK]", long], batch_size=1)


def test_heads_take_an_encoder_of_any_origin(folder):
    encoder = bert_tf.from_pretrained(folder("bert"), "encoder")
    model = bert_tf.Classifier(encoder, num_labels=3)
    assert model.encoder is encoder and model.labels == ["0", "1", "2"]
    assert bert_tf.TokenClassifier(encoder, ["O", "B-x"]).backbone is encoder.backbone
    assert bert_tf.QuestionAnswering(encoder).config == encoder.config
    assert bert_tf.SentenceEmbedder(encoder, normalize=True).encoder is encoder
    with pytest.raises(UsageError, match="dict as encoder; expected a ModelConfig, or an encoder"):
        bert_tf.Classifier({}, num_labels=2)
    # The file of such a model applied it to the encoder.
    assert bert_tf.Classifier(encoder, num_labels=3, dtype="float32").encoder is encoder
    with pytest.raises(UsageError, match="dtype='mixed_bfloat16' of a model on an encoder of 'flo"):
        bert_tf.Classifier(encoder, num_labels=3, dtype="mixed_bfloat16")


@pytest.mark.parametrize("name", ["hf_bert", "google_bert"])
def test_folders_of_others(shared, name):
    model = bert_tf.from_pretrained(str(shared / "reference" / name), "encoder")
    assert model.config.family == "bert"
    with np.load(shared / "reference" / name / "expected.npz") as expected:
        mask = "attention_mask" if name == "hf_bert" else "input_mask"
        types = "token_type_ids" if name == "hf_bert" else "segment_ids"
        output = model({"input_word_ids": expected["input_ids"], "input_mask": expected[mask],
                        "input_type_ids": expected[types]})["sequence_output"]
        name = "last_hidden_state" if name == "hf_bert" else "sequence_output"
        np.testing.assert_allclose(output, expected[name], atol=1e-4)


def test_nothing_there(tmp_path):
    with pytest.raises(UsageError, match="holds no model; expected a model folder"):
        bert_tf.from_pretrained(str(tmp_path))


def test_a_model_folder_in_place_of_a_keras_file(folder):
    with pytest.raises(UsageError, match=r"try bert_tf\.from_pretrained"):
        bert_tf.load_model(folder("several"))


def test_a_folder_in_place_of_a_keras_file(folder, tmp_path, eager):
    model = bert_tf.from_pretrained(folder("several"))
    model.save(tmp_path / "model", zipped=False)
    assert bert_tf.load_model(tmp_path / "model").classify(TEXTS[0]) == model.classify(TEXTS[0])


def test_models_that_share_a_preprocessor_are_read_with_its_tokenizer(tmp_path):
    """All but one read no text."""
    def saved(*preprocessors):
        text = keras.Input((), dtype="string")
        models = [classifier(preprocessor=None, name=f"model_{number}")
                  for number in range(len(preprocessors))]
        for each, preprocessor in zip(models, preprocessors, strict=True):
            each.preprocessor = preprocessor
        whole = keras.Model(text, [each(text) for each in models])
        whole.save(tmp_path / "whole.keras")
        return whole

    own, other = (TextPreprocessor(Tokenizer(VOCABULARY), 16) for _ in range(2))
    texts = tf.constant(["a good b", "bad"])
    expected = saved(own, own)(texts)
    np.testing.assert_array_equal(bert_tf.load_model(tmp_path / "whole.keras")(texts), expected)
    saved(own, own, other)
    with pytest.raises(UsageError, match="whole.keras: 2 tokenizers for 3 preprocessors; expected"):
        bert_tf.load_model(tmp_path / "whole.keras")


def test_weights_of_heads_that_share_an_encoder(tmp_path):
    """Of such a file Keras reads no model, as docs/python.md says."""
    def model(seed):
        encoder = bert_tf.build_encoder(TINY, seed=seed)
        head, tagger = (make(encoder, ["no", "yes"], seed=seed)
                        for make in (bert_tf.Classifier, bert_tf.TokenClassifier))
        return keras.Model(encoder.input, [head(encoder.input), tagger(encoder.input)])

    whole, other = model(1), model(2)
    whole.save(tmp_path / "whole.keras")
    with pytest.raises(ValueError, match="objects could not be loaded"):
        bert_tf.load_model(tmp_path / "whole.keras")
    other.load_weights(tmp_path / "whole.keras")
    ids = dict.fromkeys(other.input, tf.ones([1, 5], tf.int32))
    keras.tree.map_structure(np.testing.assert_array_equal, whole(ids), other(ids))

"""What the signatures answer, against the Keras model and against definitions."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import SEQ_LENGTH, TEXTS, TOP_K

from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.tokenizer import Tokenizer

SHAPES = {  # outputs, as serving/README.md promises them: type and rank
    "serving_default": {"embedding": ("float32", 2)},
    "encode": {"sequence_output": ("float32", 3), "pooled_output": ("float32", 2),
               "tokens": ("string", 2), "num_tokens": ("int32", 1)},
    "fill_mask": {"tokens": ("string", 3), "scores": ("float32", 3), "positions": ("int32", 2),
                  "num_masks": ("int32", 1)},
    "next_sentence": {"probability": ("float32", 1)},
}
SHAPES["encode_ids"] = SHAPES["encode"]


@pytest.fixture(scope="module")
def keras_model(model_folder):
    return from_pretrained(model_folder, dtype="float32")


@pytest.fixture(scope="module")
def tokenizer(model_folder):
    return Tokenizer.load(model_folder)


def _ids(tokenizer, texts, split_special=False):
    pieces = [tokenizer.tokenize(tf.constant(text), split_special) for text in texts]
    return pack(tokenizer.vocabulary, pieces, SEQ_LENGTH, fixed=True)


@pytest.mark.parametrize("fixture", ["call", "cased_call"])
def test_types_and_ranks(fixture, request):
    signatures = request.getfixturevalue(fixture).signatures
    shapes = {name: {output: (spec.dtype.name, spec.shape.rank)
                     for output, spec in function.structured_outputs.items()}
              for name, function in signatures.items()}
    expected = dict(SHAPES)
    if fixture == "cased_call":
        del expected["next_sentence"]
    assert shapes == expected
    for function in signatures.values():
        assert all(spec.shape[0] is None for spec in function.structured_outputs.values())


def test_encode_is_the_keras_model_on_the_real_tokens(call, keras_model, tokenizer):
    inputs = _ids(tokenizer, [TEXTS])
    expected = keras_model.encoder(inputs)
    lengths = inputs["input_mask"].numpy().sum(1)
    answer = call("encode", text=TEXTS)
    np.testing.assert_array_equal(answer["num_tokens"], lengths)
    np.testing.assert_allclose(answer["pooled_output"], expected["pooled_output"], atol=1e-5)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(answer["sequence_output"][row, :length],
                                   expected["sequence_output"][row, :length], atol=1e-5)
        assert not answer["sequence_output"][row, length:].any()
        assert set(answer["tokens"][row, length:]) <= {b""}
    pieces = [token.decode() for token in answer["tokens"][0, :6]]
    assert pieces == ["[CLS]", "the", "quick", "brown", "fox", "[UNK]"]
    assert answer["tokens"][1, :2].tolist() == [b"[CLS]", b"[SEP]"]
    assert [t.decode() for t in answer["tokens"][2, 1:3]] == ["안녕", "##하세요"]


def test_default_is_the_mean_over_the_real_tokens(call):
    encoded = call("encode", text=TEXTS)
    means = [vectors[:length].mean(0) for vectors, length
             in zip(encoded["sequence_output"], encoded["num_tokens"], strict=True)]
    np.testing.assert_allclose(call("serving_default", text=TEXTS)["embedding"], means, atol=1e-5)


def test_ids_in_gives_the_same_as_text_in(call, tokenizer):
    inputs = {name: ids.numpy() for name, ids in _ids(tokenizer, [TEXTS]).items()}
    # Padding to the window, and beyond it.
    wider = {name: np.pad(ids, ((0, 0), (0, 5))) for name, ids in inputs.items()}
    answer = call("encode", text=TEXTS)
    for given in (inputs, wider):
        same = call("encode_ids", **given)
        longest = answer["num_tokens"].max()
        np.testing.assert_allclose(same["sequence_output"][:, :longest],
                                   answer["sequence_output"], atol=1e-5)
        np.testing.assert_array_equal(same["tokens"][:, :longest], answer["tokens"])
        np.testing.assert_array_equal(same["num_tokens"], answer["num_tokens"])
        assert same["tokens"].shape == (len(TEXTS), SEQ_LENGTH)


def test_fill_mask_ranks_the_vocabulary(call, keras_model, tokenizer):
    inputs = _ids(tokenizer, [TEXTS], split_special=True)
    is_mask = inputs["input_word_ids"].numpy() == tokenizer.vocabulary.mask_id
    answer = call("fill_mask", text=TEXTS)
    np.testing.assert_array_equal(answer["num_masks"], is_mask.sum(1))
    assert answer["num_masks"].tolist()[:4] == [1, 0, 2, 0]
    for row in range(len(TEXTS)):
        count = answer["num_masks"][row]
        positions = np.flatnonzero(is_mask[row])
        np.testing.assert_array_equal(answer["positions"][row, :count], positions)
        one = {name: ids[row:row + 1] for name, ids in inputs.items()}
        logits = keras_model({**one, "masked_lm_positions": tf.constant(positions[None], tf.int32)})
        logits = logits["masked_lm_logits"].numpy()[0].astype(np.float64)
        exponents = np.exp(logits - logits.max(-1, keepdims=True))
        probabilities = exponents / exponents.sum(-1, keepdims=True)
        order = np.argsort(-probabilities)[:, :TOP_K]
        np.testing.assert_allclose(answer["scores"][row, :count],
                                   np.take_along_axis(probabilities, order, 1), atol=1e-5)
        tokens = [[tokenizer.vocabulary.tokens[i].encode() for i in ids] for ids in order]
        assert answer["tokens"][row, :count].tolist() == tokens
        assert not answer["scores"][row, count:].any()
        assert not answer["positions"][row, count:].any()
        assert set(answer["tokens"][row, count:].ravel()) <= {b""}


def test_next_sentence_is_the_probability_of_class_0(call, keras_model, tokenizer):
    firsts, seconds = TEXTS, TEXTS[::-1]
    inputs = _ids(tokenizer, [firsts, seconds])
    positions = tf.zeros([len(TEXTS), 0], tf.int32)
    logits = keras_model({**inputs, "masked_lm_positions": positions})["next_sentence_logits"]
    expected = 1 / (1 + np.exp(logits[:, 1] - logits[:, 0]))
    answer = call("next_sentence", text_a=firsts, text_b=seconds)
    np.testing.assert_allclose(answer["probability"], expected, atol=1e-5)


@pytest.mark.parametrize("signature", ["serving_default", "encode", "fill_mask", "next_sentence"])
def test_batch_mates_change_nothing_but_the_padding(call, signature):
    def inputs(texts):
        names = ("text_a", "text_b") if signature == "next_sentence" else ("text",)
        return dict.fromkeys(names, texts)

    together = call(signature, **inputs(TEXTS))
    for row, text in enumerate(TEXTS):
        alone = call(signature, **inputs([text]))
        for output, value in alone.items():
            trimmed = together[output][row][tuple(slice(size) for size in value.shape[1:])]
            if value.dtype == np.float32:
                np.testing.assert_allclose(trimmed, value[0], atol=1e-5, rtol=0)
            else:
                np.testing.assert_array_equal(trimmed, value[0])


def test_padding_goes_to_the_longest_of_the_batch(call):
    assert call("encode", text=["fox", "the dog"])["tokens"].shape == (2, 4)
    assert call("fill_mask", text=["fox", "the dog"])["scores"].shape == (2, 0, TOP_K)


def test_long_text_is_cut_and_masks_beyond_the_window_do_not_count(call):
    answer = call("encode", text=["fox " * 1000])
    assert answer["num_tokens"] == [SEQ_LENGTH]
    assert answer["tokens"][0, -1] == b"[SEP]"
    fits, beyond = "fox " * (SEQ_LENGTH - 3) + "[MASK]", "fox " * (SEQ_LENGTH - 2) + "[MASK]"
    assert call("fill_mask", text=[fits, beyond])["num_masks"].tolist() == [1, 0]
    assert call("next_sentence", text_a=["fox " * 99], text_b=["dog " * 99])["probability"].shape


@pytest.mark.parametrize("signature", sorted(SHAPES))
def test_an_empty_batch_gives_an_empty_answer(call, signature):
    inputs = {"encode_ids": {name: np.zeros((0, 0)) for name in
                             ("input_word_ids", "input_mask", "input_type_ids")},
              "next_sentence": {"text_a": [], "text_b": []}}.get(signature, {"text": []})
    answer = call(signature, **inputs)
    assert all(value.shape[0] == 0 for value in answer.values())
    assert {name: value.ndim for name, value in answer.items()} == {
        name: rank for name, (_, rank) in SHAPES[signature].items()}


def test_bytes_that_are_not_utf8_are_no_error(call):
    import base64

    broken = base64.b64decode("Zm94/8D+ZG9n")
    answer = call("encode", text=[broken, b"fox"])
    alone = call("encode", text=[b"fox"])
    np.testing.assert_allclose(answer["pooled_output"][1], alone["pooled_output"][0], atol=1e-5)


def test_the_casing_of_the_tokenizer_is_in_the_graph(call, cased_call):
    lower, cased = ([token.decode() for token in answer("encode", text=["The CAFÉ"])["tokens"][0]]
                    for answer in (call, cased_call))
    assert lower == ["[CLS]", "the", "café", "[SEP]"]
    assert cased == ["[CLS]", "The", "C", "##A", "##F", "##É", "[SEP]"]


def test_bfloat16_answers_near_float32(cased_folder, cased_call):
    model = from_pretrained(cased_folder, dtype="float32")
    expected = model.encoder(_ids(Tokenizer.load(cased_folder), [TEXTS]))["pooled_output"].numpy()
    difference = np.abs(cased_call("encode", text=TEXTS)["pooled_output"] - expected).max()
    assert 0 < difference < 0.1

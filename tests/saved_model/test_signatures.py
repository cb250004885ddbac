"""What the signatures answer, against the Keras model and against definitions."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from scipy import special
from tiny_model import DEFAULTS, MODELS, SEQ_LENGTH, TAGS, TEXTS, TOP_K, examples

from bert_tf.tokenization.packing import pack

ENCODED = {"sequence_output": ("float32", 3), "pooled_output": ("float32", 2),
           "tokens": ("string", 2), "num_tokens": ("int32", 1)}
REPLACED = {"probability": ("float32", 2), "tokens": ("string", 2), "num_tokens": ("int32", 1)}
GENERATED = {"output_word_ids": ("int32", 2), "tokens": ("string", 2), "num_tokens": ("int32", 1)}
CONTINUED = {**GENERATED, "text": ("string", 1)}
PREDICTED = {"label": ("string", 1), "score": ("float32", 1), "probabilities": ("float32", 2),
             "labels": ("string", 2)}
WEIGHED = {"terms": ("string", 2), "term_ids": ("int32", 2), "weights": ("float32", 2),
           "num_terms": ("int32", 1)}
OF_TOKENS = {"vectors": ("float32", 3), "num_vectors": ("int32", 1)}
SHAPES = {  # outputs, as serving/README.md promises them: type and rank
    **dict.fromkeys(("embed", "embed_ids"), {"embedding": ("float32", 2)}),
    "encode": ENCODED, "encode_ids": ENCODED,
    "fill_mask": {"tokens": ("string", 3), "texts": ("string", 3), "scores": ("float32", 3),
                  "positions": ("int32", 2), "num_masks": ("int32", 1)},
    "passage_vectors": OF_TOKENS, "query_vectors": OF_TOKENS,
    **dict.fromkeys(("sparse", "sparse_ids", "sparse_queries"), WEIGHED),
    "next_sentence": {"probability": ("float32", 1)},
    "sentence_order": {"probability": ("float32", 1)},
    "replaced": REPLACED, "replaced_ids": REPLACED,
    "generate_ids": GENERATED, "sample_ids": GENERATED, "generate": CONTINUED, "sample": CONTINUED,
    "tag": {"entities": ("string", 2), "labels": ("string", 2), "starts": ("int32", 2),
            "ends": ("int32", 2), "scores": ("float32", 2), "num_entities": ("int32", 1)},
    "predict": PREDICTED, "rank": {"score": ("float32", 1)},
    "classify": {"classes": ("string", 2), "scores": ("float32", 2)},
    "regress": {"outputs": ("float32", 1)}, "describe": {"description": ("string", 1)},
    "count_tokens": {"num_tokens": ("int32", 1)},
    "answer": {"answer": ("string", 1), "score": ("float32", 1), "start": ("int32", 1),
               "end": ("int32", 1), "answers": ("string", 2), "scores": ("float32", 2),
               "starts": ("int32", 2),
               "ends": ("int32", 2), "no_answer_score": ("float32", 1), "has_answer": ("bool", 1)},
}


def shapes_of(name):
    """`SHAPES` for a model of `MODELS`."""
    predicted = {"several": {**PREDICTED, "chosen": ("bool", 2)},
                 "regressor": {"score": ("float32", 1)}}.get(name, PREDICTED)
    shapes = {**SHAPES, "predict": predicted}
    return {**shapes, "serving_default": shapes[DEFAULTS.get(name, "embed")]}


def texts_of(export, texts=TEXTS):
    """`texts` with the model's own mask token."""
    mask_token = export.tokenizer.vocabulary.special_tokens[-1]
    return [text.replace("[MASK]", mask_token) for text in texts]


def ids_of(export, *segments, allow_special=False):
    """The model's inputs, padded to the window, as a user would make them."""
    pieces = [export.tokenizer.tokenize(tf.constant(texts), allow_special) for texts in segments]
    return pack(export.tokenizer.vocabulary, pieces, SEQ_LENGTH, fixed=True)


def encoder_of(export):
    return getattr(export.model, "encoder", export.model)


def test_signatures_types_and_ranks(any_export):
    signatures = any_export.call.signatures
    shapes = {name: {output: (spec.dtype.name, spec.shape.rank)
                     for output, spec in function.structured_outputs.items()}
              for name, function in signatures.items()}
    expected = shapes_of(any_export.name)
    assert shapes == {name: expected[name] for name in MODELS[any_export.name][2]}
    for function in signatures.values():
        _, inputs = function.structured_input_signature
        for spec in (*inputs.values(), *function.structured_outputs.values()):
            assert spec.shape[0] is None


def test_encode_is_the_keras_model_on_the_real_tokens(each):
    inputs = ids_of(each, TEXTS)
    expected = encoder_of(each)(inputs)
    lengths = inputs["input_mask"].numpy().sum(1)
    answer = each.call("encode", text=TEXTS)
    np.testing.assert_array_equal(answer["num_tokens"], lengths)
    np.testing.assert_allclose(answer["pooled_output"], expected["pooled_output"], atol=1e-5)
    pieces = each.tokenizer.vocabulary.tokens
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(answer["sequence_output"][row, :length],
                                   expected["sequence_output"][row, :length], atol=1e-5)
        assert not answer["sequence_output"][row, length:].any()
        ids = inputs["input_word_ids"][row, :length].numpy()
        assert [token.decode() for token in answer["tokens"][row, :length]] == [
            pieces[number] for number in ids]
        assert set(answer["tokens"][row, length:]) <= {b""}


def test_tokens_are_counted_of_whole_texts(exported):
    export = exported("bert")
    texts = [*texts_of(export), "the quick brown fox " * SEQ_LENGTH]
    pieces = export.tokenizer.tokenize(tf.constant(texts)).to_list()
    counts = export.call("count_tokens", text=texts)["num_tokens"]
    assert counts.tolist() == [len(row) + 2 for row in pieces] and counts[-1] > SEQ_LENGTH


def test_word_pieces(exported):
    tokens = exported("bert").call("encode", text=TEXTS)["tokens"]
    assert [token.decode() for token in tokens[0, :6]] == [
        "[CLS]", "the", "quick", "brown", "fox", "[UNK]"]
    assert tokens[1, :2].tolist() == [b"[CLS]", b"[SEP]"]
    assert [token.decode() for token in tokens[2, 1:3]] == ["안녕", "##하세요"]


def test_embed_is_the_mean_over_the_real_tokens(each):
    encoded = each.call("encode", text=TEXTS)
    means = [vectors[:length].mean(0) for vectors, length
             in zip(encoded["sequence_output"], encoded["num_tokens"], strict=True)]
    np.testing.assert_allclose(each.call("embed", text=TEXTS)["embedding"], means, atol=1e-5)


def test_default_is_what_the_model_was_trained_for(any_export):
    name = DEFAULTS.get(any_export.name, "embed")
    inputs = dict(_requests(any_export, texts_of(any_export)))[name]
    answer, expected = any_export.call("serving_default", **inputs), any_export.call(name, **inputs)
    assert set(answer) == set(expected)
    for output, values in expected.items():
        np.testing.assert_array_equal(answer[output], values)


def test_ids_in_gives_the_same_as_text_in(each):
    inputs = {name: ids.numpy() for name, ids in ids_of(each, TEXTS).items()}
    # Padding to the window, and beyond it, with whatever id.
    wider = {name: np.pad(ids, ((0, 0), (0, 5))) for name, ids in inputs.items()}
    for signature in {"encode", "replaced"} & set(each.call.signatures):
        answer = each.call(signature, text=TEXTS)
        longest = answer["num_tokens"].max()
        for given in (inputs, wider):
            same = each.call(f"{signature}_ids", **given)
            assert same["tokens"].shape == (len(TEXTS), SEQ_LENGTH)
            for output, values in answer.items():
                cut = same[output][:, :longest] if values.ndim > 1 else same[output]
                if output == "pooled_output":
                    cut = same[output]
                if values.dtype == np.float32:
                    np.testing.assert_allclose(cut, values, atol=1e-5)
                else:
                    np.testing.assert_array_equal(cut, values)


def test_a_row_without_a_token_is_all_padding(each):
    inputs = {name: ids.numpy() for name, ids in ids_of(each, TEXTS[:2]).items()}
    inputs["input_mask"][1] = 0  # whose first position is computed, as one that may be pooled
    answer = each.call("encode_ids", **inputs)
    assert answer["num_tokens"][0] > 0 and answer["num_tokens"][1] == 0
    assert answer["sequence_output"][0].any() and not answer["sequence_output"][1].any()
    assert set(answer["tokens"][1]) == {b""}


@pytest.mark.parametrize("name", [
    "bert", pytest.param("roberta", marks=pytest.mark.long), "albert"])
def test_fill_mask_ranks_the_vocabulary(name, exported):
    export = exported(name)
    texts = texts_of(export)
    vocabulary = export.tokenizer.vocabulary
    inputs = ids_of(export, texts, allow_special=True)
    is_mask = inputs["input_word_ids"].numpy() == vocabulary.mask_id
    answer = export.call("fill_mask", text=texts)
    np.testing.assert_array_equal(answer["num_masks"], is_mask.sum(1))
    assert answer["num_masks"].tolist()[:2] == [1, 0]
    for row in range(len(TEXTS)):
        count = answer["num_masks"][row]
        positions = np.flatnonzero(is_mask[row])
        np.testing.assert_array_equal(answer["positions"][row, :count], positions)
        one = {name: ids[row:row + 1] for name, ids in inputs.items()}
        one["masked_lm_positions"] = tf.constant(positions[None], tf.int32)
        probabilities = special.softmax(
            export.model(one)["masked_lm_logits"].numpy()[0], -1)
        order = np.argsort(-probabilities)[:, :TOP_K]
        np.testing.assert_allclose(answer["scores"][row, :count],
                                   np.take_along_axis(probabilities, order, 1), atol=1e-5)
        tokens = [[vocabulary.tokens[i].encode() for i in ids] for ids in order]
        assert answer["tokens"][row, :count].tolist() == tokens
        written = [[export.tokenizer.decode([i]).strip().encode() for i in ids] for ids in order]
        assert answer["texts"][row, :count].tolist() == written
        assert not answer["scores"][row, count:].any()
        assert not answer["positions"][row, count:].any()
        assert set(answer["tokens"][row, count:].ravel()) <= {b""}
        assert set(answer["texts"][row, count:].ravel()) <= {b""}


@pytest.mark.parametrize(("name", "task"), [("bert", "next_sentence"),
                                            ("albert", "sentence_order")])
def test_a_sentence_pair_has_the_probability_of_class_0(name, task, exported):
    export = exported(name)
    firsts, seconds = TEXTS, TEXTS[::-1]
    inputs = ids_of(export, firsts, seconds)
    inputs["masked_lm_positions"] = tf.zeros([len(TEXTS), 0], tf.int32)
    logits = export.model(inputs)[f"{task}_logits"]
    answer = export.call(task, text_a=firsts, text_b=seconds)
    np.testing.assert_allclose(answer["probability"], special.expit(logits[:, 0] - logits[:, 1]),
                               atol=1e-5)


@pytest.mark.long
def test_replaced_is_the_discriminator_of_every_token(exported):
    export = exported("electra")
    inputs = ids_of(export, TEXTS)
    expected = special.expit(export.model.discriminate(inputs)) * inputs["input_mask"].numpy()
    answer = export.call("replaced", text=TEXTS)
    longest = answer["num_tokens"].max()
    np.testing.assert_array_equal(answer["num_tokens"], inputs["input_mask"].numpy().sum(1))
    np.testing.assert_allclose(answer["probability"], expected[:, :longest], atol=1e-5)
    np.testing.assert_array_equal(answer["tokens"], export.call("encode", text=TEXTS)["tokens"])


def _requests(export, texts):
    """`(signature, inputs)` for every signature that takes text."""
    for signature, function in export.call.signatures.items():
        names = function.structured_input_signature[1]
        if not signature.endswith("_ids"):
            given = {"seed": np.arange(len(texts)),
                     "inputs": examples(text=texts, text_a=texts, text_b=texts)}
            yield signature, {name: given.get(name, texts) for name in names}


def test_batch_mates_change_nothing_but_the_padding(any_export):
    texts = texts_of(any_export)
    for signature, inputs in _requests(any_export, texts):
        together = any_export.call(signature, **inputs)
        for row in range(len(texts)):
            alone = any_export.call(signature, **{name: values[row:row + 1]
                                            for name, values in inputs.items()})
            for output, value in alone.items():
                trimmed = together[output][row:row + 1][tuple(map(slice, value.shape))]
                if value.dtype == np.float32:
                    np.testing.assert_allclose(trimmed, value, atol=1e-5, rtol=0)
                else:
                    np.testing.assert_array_equal(trimmed, value)


def test_an_empty_batch_gives_an_empty_answer(any_export):
    for signature, function in any_export.call.signatures.items():
        inputs = {name: np.zeros([0] * spec.shape.rank) for name, spec
                  in function.structured_input_signature[1].items() if spec.dtype != tf.string}
        inputs |= {name: [] for name in function.structured_input_signature[1]
                   if name not in inputs}
        answer = any_export.call(signature, **inputs)
        assert {name: (value.shape[0], value.ndim) for name, value in answer.items()} == {
            name: (0, rank) for name, (_, rank) in shapes_of(any_export.name)[signature].items()}


def test_padding_goes_to_the_longest_of_the_batch(exported):
    call = exported("bert").call
    assert call("encode", text=["fox", "the dog"])["tokens"].shape == (2, 4)
    assert call("fill_mask", text=["fox", "the dog"])["scores"].shape == (2, 0, TOP_K)


def test_long_text_is_cut_and_masks_beyond_the_window_do_not_count(exported):
    call = exported("bert").call
    answer = call("encode", text=["fox " * 1000])
    assert answer["num_tokens"] == [SEQ_LENGTH]
    assert answer["tokens"][0, -1] == b"[SEP]"
    fits, beyond = "fox " * (SEQ_LENGTH - 3) + "[MASK]", "fox " * (SEQ_LENGTH - 2) + "[MASK]"
    assert call("fill_mask", text=[fits, beyond])["num_masks"].tolist() == [1, 0]
    assert call("next_sentence", text_a=["fox " * 99], text_b=["dog " * 99])["probability"].shape


def test_bytes_that_are_not_utf8_are_no_error(each):
    broken = bytes([0x66, 0x6F, 0x78, 0x2F, 0xC0, 0xFE, 0x64, 0x6F, 0x67])
    answer = each.call("encode", text=[broken, b"fox"])
    alone = each.call("encode", text=[b"fox"])
    np.testing.assert_allclose(answer["pooled_output"][1], alone["pooled_output"][0], atol=1e-5)


def test_the_casing_of_the_tokenizer_is_in_the_graph(exported):
    lower, cased = ([token.decode() for token in call("encode", text=["The CAFÉ"])["tokens"][0]]
                    for call in (exported("bert").call, exported("cased", "bfloat16").call))
    assert lower == ["[CLS]", "the", "café", "[SEP]"]
    assert cased == ["[CLS]", "The", "C", "##A", "##F", "##É", "[SEP]"]


@pytest.mark.parametrize("name", ["cased", *(pytest.param(name, marks=pytest.mark.long)
                                             for name in ("albert", "gpt"))])
def test_bfloat16_answers_near_float32(name, exported):
    export = exported(name, "bfloat16")
    expected = encoder_of(export)(ids_of(export, TEXTS))["pooled_output"].numpy()
    given = export.call("encode", text=TEXTS)["pooled_output"]
    assert given.dtype == np.float32
    assert 0 < np.abs(given - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("name", ["albert", pytest.param("electra", marks=pytest.mark.long)])
def test_shared_weights_are_stored_once(name, exported):
    export = exported(name)
    stored = tf.train.list_variables(f"{export.version}/variables/variables")
    shapes = sorted(tuple(shape) for path, shape in stored if "OBJECT_GRAPH" not in path)
    served = [variable for variable in export.model.trainable_variables
              if not variable.path.startswith("generator")]
    assert shapes == sorted(tuple(variable.shape) for variable in served)


@pytest.mark.parametrize(("name", "dtype", "expected"), [
    ("bert", "float32", {"task": "pretraining", "mask_token": "[MASK]", "lower_case": True}),
    ("cased", "bfloat16", {"dtype": "bfloat16", "lower_case": False, "strip_accents": False}),
    pytest.param("roberta", "float32", {"mask_token": "<mask>", "lower_case": False},
                 marks=pytest.mark.long),
    ("albert", "float32", {"lower_case": True, "strip_accents": True}),
    ("classifier", "float32", {"task": "classifier", "labels": ["no", "maybe", "네"],
                               "pretokenize": None}),
    pytest.param("several", "float32", {"problem": "multi_label", "pair": True},
                 marks=pytest.mark.long),
    pytest.param("tagger", "float32", {"task": "tagger", "pair": False, "labels": TAGS},
                 marks=pytest.mark.long),
])
def test_describe_tells_each_row_what_a_client_needs(name, dtype, expected, exported):
    export = exported(name, dtype)
    rows = export.call("describe", text=["", "whatever"])["description"]
    told, again = (json.loads(row) for row in rows)
    assert told == again
    assert {key: told[key] for key in expected} == expected
    assert (told["seq_length"], told["dtype"]) == (SEQ_LENGTH, dtype)
    about = json.loads(pathlib.Path(export.version, "assets.extra/export.json").read_text())
    assert {key: about[key] for key in told} == told

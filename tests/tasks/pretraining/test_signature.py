"""Continuations of texts: which tokens are added, and the text that these add."""

import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import (
    SEQ_LENGTH,
    TEXTS,
    TOP_K,
    Traced,
    byte_pair,
    save_model,
    sentence_piece,
    word_piece,
)

from bert_tf.errors import UsageError
from bert_tf.saved_model.served_model import ServedModel, load_served
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.signature import continuation

LANGUAGE_MODELS = ["gpt", pytest.param("left_to_right", marks=pytest.mark.long)]
TOKENIZERS = {"word_piece": word_piece, "sentence_piece": sentence_piece, "byte_pair": byte_pair}


def _text(tokenizer, prompt, ids, num_tokens=None):
    served = ServedModel(None, tokenizer, 24)
    answer = continuation(served, tf.ragged.constant([prompt], dtype=tf.int32),
                          tf.constant([ids]), tf.constant([num_tokens or len(ids)]), text=True)
    return answer["text"].numpy()[0].decode()


@pytest.mark.parametrize(("prompt", "new", "text"), [
    ("the quick", "brown fox", " brown fox"),
    ("the C", "##A ##F ##É fox", "AFÉ fox"),
    ("", "the fox", "the fox"),
    ("the", "fox [SEP]", " fox"),
    ("안녕", "##하세요 [UNK] .", "하세요 ."),
])
def test_word_pieces_are_joined_and_special_tokens_vanish(prompt, new, text):
    tokenizer = word_piece()
    ids = [[tokenizer.vocabulary.id(token) for token in tokens.split()]
           for tokens in (f"[CLS] {prompt}", new)]
    assert _text(tokenizer, *ids) == text


def test_what_stands_after_the_end_is_not_text():
    tokenizer = word_piece()
    fox, dog = map(tokenizer.vocabulary.id, ("fox", "dog"))
    assert _text(tokenizer, [fox], [dog, fox], num_tokens=1) == " dog"


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_text_begins_with_the_text_of_its_first_tokens(name, data):
    tokenizer = TOKENIZERS[name]()
    some_ids = st.integers(0, len(tokenizer.vocabulary) - 1)
    ids = data.draw(st.lists(some_ids, min_size=1, max_size=8))
    whole = tokenizer.detokenize([ids]).numpy()[0]
    for count in range(1, len(ids)):
        assert whole.startswith(tokenizer.detokenize([ids[:count]]).numpy()[0])


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_generate_appends_the_likeliest_token_again_and_again(name, exported):
    export = exported(name)
    vocabulary, new = export.tokenizer.vocabulary, SEQ_LENGTH // 3
    answer = export.call("generate", text=TEXTS)
    prompts = export.tokenizer.tokenize(TEXTS).to_list()
    for row, pieces in enumerate(prompts):
        # Of a long text the end is continued.
        ids = [vocabulary.cls_id, *pieces[max(0, len(pieces) - (SEQ_LENGTH - new - 1)):]]
        start = len(ids)
        while len(ids) < start + new and ids[start:][-1:] != [vocabulary.sep_id]:
            inputs = {"input_word_ids": tf.constant([[*ids, 0]]),
                      "input_mask": tf.ones([1, len(ids) + 1], tf.int32)}
            logits = export.model(inputs)["language_model_logits"][0, -1]
            ids.append(int(np.argmax(logits)))
        count = len(ids) - start
        assert answer["num_tokens"][row] == count
        assert answer["output_word_ids"][row].tolist() == ids[start:] + [0] * (new - count)
        assert [token.decode() for token in answer["tokens"][row]] == [
            *(vocabulary.tokens[number] for number in ids[start:]), *[""] * (new - count)]
        before, both = (export.tokenizer.detokenize([each]).numpy()[0].decode("utf-8", "replace")
                        for each in (ids[:start], ids))
        assert before + answer["text"][row].decode() == both


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_sample_draws_by_the_rows_own_seeds(name, exported):
    export = exported(name)
    seeds = [1, 2, 3, 1, 2]
    texts = ["fox"] * len(seeds)
    answer = export.call("sample", text=texts, seed=seeds)
    ids = answer["output_word_ids"].tolist()
    assert (ids[0], ids[1]) == (ids[3], ids[4])
    assert len({tuple(row) for row in ids}) == 3
    # Every token is among the likeliest `TOP_K`, and not all are the likeliest.
    prompt = [export.tokenizer.vocabulary.cls_id,
              *export.tokenizer.tokenize(["fox"]).to_list()[0]]
    ranks = []
    for row, count in zip(ids, answer["num_tokens"], strict=True):
        inputs = {"input_word_ids": tf.constant([prompt + row[:count]])}
        inputs["input_mask"] = tf.ones_like(inputs["input_word_ids"])
        logits = export.model(inputs)["language_model_logits"][0].numpy()[len(prompt) - 1:]
        ranks += [np.count_nonzero(given > given[number])
                  for given, number in zip(logits, row[:count], strict=True)]
    assert 0 < max(ranks) < TOP_K


def test_sample_draws_from_all_tokens_where_a_temperature_or_top_p_is_given(tmp_path):
    folder = save_model(str(tmp_path), "gpt")
    everything = from_pretrained(folder).config.vocab_size
    for options, top_k in (({}, 5), ({"temperature": 1}, everything), ({"top_p": 1}, everything),
                         ({"temperature": 1, "top_k": 7}, 7)):
        assert load_served(folder, **options).top_k == top_k, options


@pytest.mark.long
def test_sample_draws_as_the_export_says(tmp_path):
    folder = save_model(str(tmp_path), "gpt")
    texts, seeds = ["fox", "the quick", "fox"], [1, 2, 3]
    options = {"temperature": 2.0, "top_p": 0.6}
    model = from_pretrained(folder)
    asked = model.generate(texts, SEQ_LENGTH // 3, seed=seeds, **options)
    call = Traced(folder, **options)
    answer = call("sample", text=texts, seed=seeds)
    assert [text.decode() for text in answer["text"]] == asked
    (alone,) = call("sample", text=texts[1:2], seed=seeds[1:2])["text"]
    assert alone.decode() == asked[1]
    described = json.loads(call("describe", text=[""])["description"][0])
    # Of all tokens, as in Python.
    assert {**options, "top_k": model.config.vocab_size}.items() <= described.items()
    with pytest.raises(UsageError, match="temperature=0; expected above 0"):
        Traced(folder, temperature=0)


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_ids_are_continued_as_text_is(name, exported):
    export = exported(name)
    pieces = export.tokenizer.tokenize(TEXTS)
    first = tf.fill([len(TEXTS), 1], export.tokenizer.vocabulary.cls_id)
    prompt = tf.concat([first, pieces[:, 1 - SEQ_LENGTH + SEQ_LENGTH // 3:]], 1)
    ids = {"input_word_ids": prompt.to_tensor(),
           "input_mask": tf.sequence_mask(prompt.row_lengths(), dtype=tf.int32)}
    seed = {"seed": np.arange(len(TEXTS))}
    for signature, further in (("generate", {}), ("sample", seed)):
        given = export.call(f"{signature}_ids", **ids, **further)
        for output, values in export.call(signature, text=TEXTS, **further).items():
            if output != "text":
                np.testing.assert_array_equal(given[output], values)
    # What has no token begins as "" does.
    one = export.call("generate", text=[""])
    for nothing in ({"input_word_ids": [[7, 0]], "input_mask": [[0, 0]]},
                    {"input_word_ids": np.zeros([1, 0]), "input_mask": np.zeros([1, 0])}):
        for output, values in export.call("generate_ids", **nothing).items():
            np.testing.assert_array_equal(values, one[output])

"""Tagged words as rows of tokens: every word once, with the tag of its first piece."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_models import VOCABULARY

from bert_tf.errors import BertTfError
from bert_tf.tasks.token_classification import features as tag_features_module
from bert_tf.tasks.token_classification.examples import TagExample
from bert_tf.tasks.token_classification.features import tag_features
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

LABELS = ["O", "B-A", "I-A", "B-B", "I-B"]
WORDS = {"a": ["a"], "good": ["good"], "b.": ["b", "[UNK]"], "\u0007": [], "xyz": ["[UNK]"],
         "c,d": ["c", "[UNK]", "d"], "good\u200d": ["good"]}  # and their words for the tokenizer


def make(words, tags=None, spaces=None, where="file line 1"):
    tags = tags or ["O"] * len(words)
    return TagExample("1", tuple(words), tuple(tags), tuple(spaces or [True] * len(words)), None,
                      where)


def preprocessor(*options):
    return WordPreprocessor(Tokenizer(VOCABULARY), *options)


def pieces(features, row):
    return [VOCABULARY.tokens[number] for number in features.rows["input_word_ids"][row]]


def test_by_hand():
    features = tag_features([make(["a", "c,d", "\u0007", "b."], ["B-A", "B-B", "I-B", "O"]),
                             make(["good", "."], ["I-A", "O"], [False, False])],
                            preprocessor(16), LABELS)
    assert pieces(features, 0) == ["[CLS]", "a", "c", "[UNK]", "d", "b", "[UNK]", "[SEP]"]
    assert features.rows["label_ids"][0].tolist() == [-1, 1, 3, -1, -1, 0, -1, -1]
    assert features.rows["label_ids"][1].tolist() == [-1, 2, 0, -1]
    assert features.example.tolist() == [0, 1]
    assert features.units[:, 0].tolist() == [0, 1, 1, 1, 3, 3, 4, 5]
    assert not features.rows["input_type_ids"].values.any()


def test_words_end_where_they_are_said_to():
    """`go` `od` without a blank are two words, and as characters they are inside one."""
    one = make(["go", "od"], spaces=[False, False])
    assert pieces(tag_features([one], preprocessor(16)), 0) == ["[CLS]", "[UNK]", "[UNK]", "[SEP]"]
    letters = make(list("ab"), spaces=[False, False])
    features = tag_features([letters], preprocessor(16, "character"))
    assert features.units.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert "label_ids" not in features.rows


def test_tags_of_characters_are_those_of_the_words_that_begin_with_them():
    letters = TagExample("1", tuple("agood."), ("O", "B-A", "I-A", "I-A", "I-A", "O"),
                         (True, *[False] * 5), unit="character")
    features = tag_features([letters, make(["go", "od"], spaces=[False, False])],
                            preprocessor(16), LABELS)
    assert pieces(features, 0) == ["[CLS]", "a", "good", "[UNK]", "[SEP]"]
    assert features.rows["label_ids"][0].tolist() == [-1, 0, 1, 0, -1]
    assert features.units[:, 0].tolist() == [0, 1, 5, 6, 7]


@settings(deadline=None, max_examples=10)
@given(st.lists(st.lists(st.tuples(st.sampled_from(sorted(WORDS)), st.sampled_from(LABELS),
                                   st.booleans()), min_size=1, max_size=12),
                max_size=5), st.integers(3, 9), st.sampled_from([1, 10, 1 << 20]))
def test_every_word_has_its_tag_once(rows, seq_length, chunk):
    examples = [make(*zip(*row, strict=True)) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tag_features_module, "_CHUNK_CHARACTERS", chunk)
        features = tag_features(examples, preprocessor(seq_length), LABELS)
    words = [(word, tag) for row in rows for word, tag, _ in row]
    example_of = [number for number, row in enumerate(rows) for _ in row]
    parts = [[VOCABULARY.tokens[features.rows["input_word_ids"][row][position]]
              for word, row, position in features.units if word == number]
             for number in range(len(words))]
    assert parts == [WORDS[word] for word, _ in words]
    seen = set()
    for word, row, position in features.units:
        assert features.example[row] == example_of[word]
        label = features.rows["label_ids"][row][position]
        assert label == (-1 if word in seen else LABELS.index(words[word][1]))
        seen.add(word)
    assert (features.rows["label_ids"].values >= 0).sum() == len(seen)
    assert set(features.example) == set(range(len(rows)))
    assert max(features.lengths, default=0) <= seq_length


def test_no_examples():
    features = tag_features([], preprocessor(16), LABELS)
    assert len(features) == 0 and features.units.shape == (0, 3)


def test_a_tag_without_an_i_tag_is_not_gone_on_with():
    features = tag_features([make(["c,d"], ["B-A"])], preprocessor(16), ["O", "B-A"])
    assert features.rows["label_ids"][0].tolist() == [-1, 1, -1, -1, -1]


def test_every_morpheme_of_a_word_has_a_tag():
    """So that `tag`, which is not told of the words, finds those of the file."""
    pytest.importorskip("kiwipiepy")
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "부산", "에서", "왔", "다"]),
                          pretokenize="morphemes")
    features = tag_features([make(["부산에서", "왔다"], ["B-A", "O"], [True, False])],
                            WordPreprocessor(tokenizer, 16), LABELS)
    assert features.units[:, 0].tolist() == [0, 0, 1, 1]
    assert features.rows["label_ids"][0].tolist() == [-1, 1, 2, 0, 0, -1]


def test_an_unknown_tag_is_named_with_its_line():
    with pytest.raises(BertTfError, match=r"f line 3: tag='I-AA' is unknown; .* try tag='I-A'"):
        tag_features([make(["a"], ["I-AA"], where="f line 3")], preprocessor(16), LABELS)


def test_rows_are_int32():
    features = tag_features([make(["a", "b."])], preprocessor(16), LABELS)
    assert {name: rows.values.dtype for name, rows in features.rows.items()} == dict.fromkeys(
        ("input_word_ids", "input_type_ids", "label_ids"), np.dtype("int32"))

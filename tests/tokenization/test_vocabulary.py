"""The vocabulary file and what is refused in it."""

import pytest

from bert_tf.errors import BertTfError, UsageError
from bert_tf.storage import checksums, manifest
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


def test_ids_are_line_numbers_from_zero(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\nthe\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n##s\n한국\u2028\n", encoding="utf-8")
    vocabulary = Vocabulary.load(str(path))
    assert len(vocabulary) == 8
    assert vocabulary.id("the") == 1
    assert vocabulary.id("absent") == vocabulary.unk_id == 2
    assert vocabulary.special_ids == (0, 2, 3, 4, 5)
    assert vocabulary.continuation.tolist() == [False] * 6 + [True, False]
    assert vocabulary.tokens[7] == "한국\u2028"
    vocabulary.save(str(tmp_path / "again.txt"))
    assert (tmp_path / "again.txt").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("token", ["\n", "a\nb", "a\r"])
def test_a_token_that_is_no_line_is_not_saved(tmp_path, token):
    with pytest.raises(UsageError, match="vocab.txt: the token .*; expected one without line br"):
        Vocabulary([*SPECIAL_TOKENS, token]).save(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize(("tokens", "message"), [
    (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], r"has no \[MASK\]"),
    ([*SPECIAL_TOKENS, "a", "b", "a"], "line 6: 'a' is there again in line 8"),
    ([*SPECIAL_TOKENS, "a", "", "b"], "line 7 is empty"),
])
def test_bad_vocabulary_names_file_and_line(tmp_path, tokens, message):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tokens) + "\n")
    with pytest.raises(UsageError, match=message) as error:
        Vocabulary.load(str(path))
    assert str(path) in str(error.value)


def test_a_change_of_a_learned_vocabulary_may_be_meant(tmp_path):
    path, record = tmp_path / "vocab.txt", tmp_path / "vocab.txt.manifest.json"
    path.write_text("\n".join(SPECIAL_TOKENS) + "\n")
    manifest.write(str(record), {}, files=checksums.facts(str(tmp_path), ["vocab.txt"]))
    Vocabulary.load(str(path))
    path.write_text(path.read_text() + "word\n")
    with pytest.raises(BertTfError, match="vocab.txt is damaged.*try learning it again; or, if the "
                                          f"change is meant, deleting {record}$"):
        Vocabulary.load(str(path))
    record.unlink()
    assert Vocabulary.load(str(path)).tokens[-1] == "word"

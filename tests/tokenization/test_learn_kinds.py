"""Byte-level BPE and Unigram vocabularies that are learned here."""

import json
import os
import unicodedata

import nasty_texts
import pytest
import tokenizers

from bert_tf import cli, learn_vocab
from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.errors import BertTfError, UsageError
from bert_tf.tokenization.learn_byte_pair import learn_byte_pair
from bert_tf.tokenization.learn_unigram import learn_unigram
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.word_counts import (
    BlankWords,
    ByteWords,
    WordCounter,
    WordPieceWords,
    count_words,
)


@pytest.fixture(scope="module")
def corpus(shared, tmp_path_factory):
    """A file of 1,000 real lines, and the lines."""
    lines = nasty_texts.real_lines(shared, 1000)
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n".join(lines))
    return str(path), lines


def test_merges_are_those_of_the_tokenizers_library(corpus):
    path, lines = corpus
    tokenizer = learn_byte_pair([path], 1200, progress=False)
    library = tokenizers.ByteLevelBPETokenizer()
    running = [lines[0], *(f" {line}" for line in lines[1:])]
    library.train_from_iterator(running, vocab_size=1200, min_frequency=2, show_progress=False,
                                special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    theirs = json.loads(library._tokenizer.to_str())["model"]["merges"]
    # Where pairs are equally frequent, their order differs.
    assert len({*map(tuple, theirs)} & {*tokenizer.merges}) > 0.98 * len(theirs)
    size = sum(len(row) for row in tokenizer.tokenize(lines).to_list())
    reference = sum(len(each.ids) for each in library.encode_batch(lines))
    assert abs(size - reference) < reference / 1000
    vocabulary = tokenizer.vocabulary
    assert len(vocabulary) == 1200 and vocabulary.special_ids == (1, 3, 0, 2, 1199)
    assert [tokenizer.decode(row) for row in tokenizer.encode(lines[:50])] == lines[:50]


def test_bytes_of_decomposed_text_are_those_of_composed(tmp_path):
    """macOS writes 영화 in jamo, three times as long."""
    text = "영화를 재밌게 봤다\n"
    learned = []
    for form in ("NFC", "NFD"):
        path = tmp_path / form
        path.write_text(unicodedata.normalize(form, text * 20))
        learned.append(learn_byte_pair([str(path)], 300, progress=False))
    tokenizer, other = learned
    assert tokenizer.merges == other.merges
    assert tokenizer.encode(unicodedata.normalize("NFD", text)) == tokenizer.encode(text)


def test_a_unigram_model_knows_the_text(corpus):
    path, lines = corpus
    tokenizer = learn_unigram([path], 2000, lower_case=True, strip_accents=True, progress=False)
    again = learn_unigram([path], 2000, lower_case=True, strip_accents=True, progress=False)
    assert again.model == tokenizer.model
    vocabulary = tokenizer.vocabulary
    assert vocabulary.special_ids == (0, 1, 2, 3, 4) and 1500 < len(vocabulary) <= 2000
    ids = tokenizer.tokenize(lines).to_list()
    unknown = sum(row.count(vocabulary.unk_id) for row in ids)
    assert unknown < sum(map(len, ids)) / 50
    # Hangul stays whole, whatever becomes of accents.
    assert tokenizer.decode(tokenizer.encode("Ünd 영화를, 12,")) == "und 영화를, 12,"
    assert tokenizer.vocabulary.unk_id not in tokenizer.encode("영화를")


@pytest.mark.parametrize(("lower_case", "strip_accents"), [
    (True, True), (True, False), (False, True), (False, False)])
def test_a_unigram_model_goes_to_hugging_face_and_back(tmp_path, lower_case, strip_accents):
    source, folder = tmp_path / "source", tmp_path / "folder"
    folder.mkdir()
    texts = ["서울에서 영화를 봤다.", "김철수는 The Café", unicodedata.normalize("NFD", "영화 é")]
    number = "12,a 12,b 12,c 12,d 12,"
    (tmp_path / "text.txt").write_text("\n".join([*texts, number] * 9))
    tokenizer = learn_unigram([str(tmp_path / "text.txt")], 200, lower_case=lower_case,
                              strip_accents=strip_accents, progress=False)
    source.mkdir()
    tokenizer.save(str(source))
    write_tokenizer(str(source), str(folder), "AlbertTokenizer", 64)
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert [each.ids for each in library.encode_batch(texts)] == tokenizer.encode(texts)
    back = load_tokenizer(str(folder))
    assert repr(back) == repr(tokenizer)
    # ALBERT's rule for commas is ours alone.
    assert "▁12," in tokenizer.vocabulary.tokens
    assert back.encode([*texts, number]) == tokenizer.encode([*texts, number])
    assert library.encode(number).ids != tokenizer.encode(number)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {name: value for name, value in config.items() if name != "normalization"}))
    assert load_tokenizer(str(folder)).encode(number) == library.encode(number).ids


def test_rare_syllables_are_left_out_where_accents_are_removed(tmp_path):
    """That takes them apart into a few jamo, which are frequent."""
    rare = "".join(map(chr, range(0xAC00, 0xAC00 + 200)))
    (tmp_path / "text.txt").write_text("가나 다라 가다 나라\n" * 20 + " ".join(rare))
    tokenizer = learn_unigram([str(tmp_path / "text.txt")], 30, lower_case=True,
                              strip_accents=True, progress=False)
    found = {character for token in tokenizer.vocabulary.tokens for character in token}
    assert {*"가나다라"} <= found and not found & {*rare[1:]}


@pytest.mark.parametrize("kind", ["bpe", pytest.param("unigram", marks=pytest.mark.long)])
def test_the_command(corpus, tmp_path, capsys, kind):
    path, lines = corpus
    folder = str(tmp_path / "learned")

    def run(*flags):
        code = cli.run(learn_vocab.main, ["--input", path, "--output", folder, "--type", kind,
                                          "--vocab_size", "600", *flags])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    code, printed = run()
    assert code == 0 and f"600 entries in {folder}" in printed
    tokenizer = load_tokenizer(folder)
    assert len(tokenizer.vocabulary) == 600 and len(tokenizer.encode(lines[0])) > 5
    code, printed = run()
    assert code == 0 and "there already" in printed
    code, printed = run("--min_frequency", "3")
    assert code == 2 and "min_frequency was 2, now 3" in printed
    assert run("--min_frequency", "3", "--overwrite")[0] == 0
    code, printed = run("--pretokenize", "morphemes")
    assert code == 2 and f"--pretokenize with --type {kind}" in printed
    os.remove(os.path.join(folder, "learn_vocab.json"))
    code, printed = run()
    assert code == 2 and "exists, from elsewhere" in printed


def test_files_beside_a_tokenizer_stay(corpus, tmp_path, capsys):
    path, _ = corpus
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("the only copy")
    code = cli.run(learn_vocab.main, ["--input", path, "--output", str(tmp_path / "texts"),
                                      "--type", "bpe", "--vocab_size", "300", "--overwrite"])
    assert code == 2 and "--overwrite would delete a.txt in" in capsys.readouterr().err
    assert os.listdir(tmp_path / "texts") == ["a.txt"]


def test_too_little_to_learn_from(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abc")
    for learn in (learn_byte_pair, learn_unigram):
        with pytest.raises(BertTfError, match="occurs 2 times; try more text"):
            learn([str(path)], 300, progress=False)
        with pytest.raises(UsageError, match="vocab_size=15; expected at least"):
            learn([str(path)], 15, progress=False)
    path.write_text("abcdefg 가나다라마바사\n" * 9)
    with pytest.raises(BertTfError, match="only the 5 most .* --vocab_size 16; try a larger"):
        learn_unigram([str(path)], 16, progress=False)
    path.write_text("\n \n")
    for learn in (learn_byte_pair, learn_unigram):
        with pytest.raises(BertTfError, match="holds no text|occurs 2 times"):
            learn([str(path)], 300, progress=False)


def test_words_are_counted_in_bounded_memory():
    for counter in (ByteWords(max_words=50), BlankWords(max_words=50)):
        assert isinstance(counter, WordCounter)
        for batch in range(5):
            counter.add(["often"] * 10 + [f"w{batch}x{index}" for index in range(40)])
            assert len(counter.counts) <= 50
        assert counter.counts[b"often"] + counter.counts[b" often"] == 50


def test_a_line_is_counted_as_after_a_blank(tmp_path):
    (tmp_path / "a.txt").write_text("One.\nTwo\n\nThree。\nFour\n Five\n")
    (tmp_path / "b.jsonl").write_text('{"text": "Six"}\n{"text": "Seven"}\n')
    counts = count_words([str(tmp_path / name) for name in ("a.txt", "b.jsonl")], ByteWords())
    words = {word.decode() for word in counts}
    assert words == {"One", ".", " Two", "Three", "。", "Four", " Five", "Six", "Seven"}


@pytest.mark.parametrize("kind", [ByteWords, BlankWords, lambda: WordPieceWords(True, True)])
def test_a_long_text_is_cut_between_words(tmp_path, kind):
    path, counts, batches = tmp_path / "text.txt", [], []
    path.write_text(" ".join(nasty_texts.TEXTS).replace("\n", " ") + " 가 e \u0301  a " * 9)
    for longest in (10**9, 40):
        counter = kind()
        counter.longest_text, counter.batch_characters = longest, 40
        add = counter.add
        counter.add = lambda texts, add=add: batches.append(texts) or add(texts)
        counts.append([*count_words([str(path)], counter).items()])
    assert counts[0] == counts[1] and len(batches) > 10


def test_the_bytes_of_words_are_bounded_too():
    counter = BlankWords(max_bytes=10_000)
    for batch in range(5):
        counter.add(["often"] * 10 + [f"{batch}{index}" + "x" * 1000 for index in range(8)])
        assert sum(map(len, counter.counts)) <= 10_000
    assert counter.counts[b"often"] == 50


def test_what_is_left_out_is_told(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"w{index:03}" for index in range(100)))
    count_words([str(path)], BlankWords())
    assert not capsys.readouterr().err
    counts = count_words([str(path)], BlankWords(max_words=50))
    assert [*counts] == [f"w{index:03}".encode() for index in range(75, 100)]  # what came last
    assert "75% of the text was left out" in capsys.readouterr().err
    path.write_text("日本語の文" * 1000)
    with pytest.raises(BertTfError, match="what is left of the text occurs 2 times; try blanks"):
        learn_unigram([str(path)], 300, progress=False)
    assert "5,000 of 5,000 characters were left out" in capsys.readouterr().err


def test_long_text_without_blanks_is_cut_at_its_punctuation(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("日本語の文、本の日。" * 1000 + "語" * 2000 + "。文の本")
    tokenizer = learn_unigram([str(path)], 300, progress=False)
    assert tokenizer.vocabulary.unk_id not in tokenizer.encode("日本語の文、本の日。")
    assert "2,001 of 12,004 characters were left out" in capsys.readouterr().err

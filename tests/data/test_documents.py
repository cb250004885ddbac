"""The reader of input texts: forms, bounded pieces, sentences, and what is refused."""

import contextlib
import gzip
import io
import json
import os
import pathlib
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.data.documents import (
    expand_inputs,
    read_documents,
    split_sentences,
    spool_if_claimed,
)
from bert_tf.data.term_weights import read_texts
from bert_tf.errors import BertTfError, UnavailableError, UsageError
from bert_tf.storage import files


def documents(paths, split="lines", **options):
    """[[sentence, …] of each document], pieces put together."""
    found = {}
    for piece in read_documents(list(map(str, paths)), split, **options):
        found.setdefault(piece.document, []).extend(piece.sentences)
    assert list(found) == list(range(len(found)))
    return list(found.values())


@pytest.mark.parametrize(("split", "expected"), [
    ("lines", [["One. Two", "three."], ["Four."], ["다섯."]]),
    ("sentences", [["One.", "Two three."], ["Four."], ["다섯."]]),
    ("none", [["One. Two"], ["three."], ["Four."], ["다섯."]]),
])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_plain_text(write_file, name, split, expected):
    path = write_file(name, "\ufeffOne. Two\r\n three. \n\n \t\n\nFour.\n")
    assert documents([path, write_file("b.txt", "다섯.")], split) == expected


@pytest.mark.parametrize(("split", "expected"), [
    ("lines", [["One. Two", "three."], ["Four."]]),
    ("sentences", [["One.", "Two three."], ["Four."]]),
    ("none", [["One. Two three."], ["Four."]]),
])
@pytest.mark.parametrize("name", ["a.JSONL", "a.jsonl.gz", "a.ndjson"])
def test_json_lines(write_file, name, split, expected):
    lines = [{"text": "One. Two\n\nthree.", "id": 1}, {"text": " \n"}, {"text": "Four."}]
    path = write_file(name, "\n".join(map(json.dumps, lines)) + "\n\n")
    assert documents([path], split) == expected


@pytest.mark.parametrize("split", ["lines", "sentences"])
def test_a_giant_document_comes_in_pieces(write_file, split):
    sentences = [f"Sentence number {number} ends here." for number in range(500)]
    path = write_file("a.txt", "\n".join(sentences) + "\n\nAnother document.\n")
    pieces = list(read_documents([str(path)], split, max_characters=1000))
    assert len(pieces) > 10
    assert max(sum(map(len, piece.sentences)) for piece in pieces) < 1200
    assert [piece.is_end for piece in pieces if piece.document == 0].count(True) == 1
    assert documents([path], split, max_characters=1000) == [sentences, ["Another document."]]


@pytest.mark.parametrize("split", ["lines", "sentences"])
def test_a_document_may_end_where_a_piece_does(write_file, split):
    path = write_file("a.txt", f"{'x' * 200}\n\n{'y' * 200}\n{'z' * 200}\n\n\nAnother.\n")
    found = documents([str(path)], split, max_characters=100)
    assert [len(sentences) for sentences in found] == [1, 2, 1]


@pytest.mark.parametrize(("text", "sentences"), [
    ("Mr. Smith paid $3.50 in the U.S. yesterday.  \"Really?\" he said. J. R. Tolkien agreed!",
     ["Mr. Smith paid $3.50 in the U.S. yesterday.", "\"Really?\" he said.",
      "J. R. Tolkien agreed!"]),
    ("He left (at 5 p.m. or so.) “Why?” She did not know... Nobody did.",
     ["He left (at 5 p.m. or so.)", "“Why?”", "She did not know...", "Nobody did."]),
    ("영화가 정말 좋았다. 다시 볼까?! 그럼요… 3.5점 줬다.",
     ["영화가 정말 좋았다.", "다시 볼까?!", "그럼요…", "3.5점 줬다."]),
    ("はい。いいえ！なぜ？", ["はい。", "いいえ！", "なぜ？"]),
    ("See No. 7. The answer is no. Nobody knew.",
     ["See No. 7.", "The answer is no.", "Nobody knew."]),
    ("이 법은 2024. 3. 1. 시행한다. 4. 1. 공포했다. 3명이 10. 그는 갔다. 창립은 1920. 30명이 왔다.",
     ["이 법은 2024. 3. 1. 시행한다.", "4. 1. 공포했다.", "3명이 10.", "그는 갔다.",
      "창립은 1920.", "30명이 왔다."]),
    ("1. 목적은 이렇다. 12. Terms hold. It was 1990. We left.",
     ["1. 목적은 이렇다.", "12. Terms hold.", "It was 1990.", "We left."]),
    ("no mark at\n the end", ["no mark at the end"]),
    ("  ", []),
])
def test_split_sentences(text, sentences):
    assert split_sentences(text) == sentences


@pytest.mark.parametrize("text", ["a" + "." * 200_000 + "b", "a" * 200_000 + "(. B"])
def test_what_is_no_end_takes_linear_time(text):
    # Tried from each of its characters, such a run takes hours.
    assert " ".join(split_sentences(text)) == text


@given(st.text("ab AB.!?…。\"') \n가"))
def test_split_sentences_loses_nothing(text):
    sentences = split_sentences(text)
    assert all(sentence == sentence.strip() != "" for sentence in sentences)
    assert "".join("".join(sentences).split()) == "".join(text.split())


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.txt", b"", "holds no text"),
    ("a.txt", b" \n\n", "holds no text"),
    ("a.jsonl", b'{"text": ""}\n', "holds no text"),
    ("a.txt", b"fine\nb\xffd\n", r"a\.txt line 2: byte 0xff at column 2 is not UTF-8"),
    ("a.txt", b"fine\n" * 300_000 + b"\xe3\x81", r"line 300001: byte 0xe3 at column 1"),
    ("a.jsonl", b'{"text": "x"}\n{"txt": "x"}', "line 2: invalid document"),
    ("a.jsonl", b'{"text": 3}', "line 1: invalid document"),
    ("a.jsonl", b"[]", "line 1: invalid document"),
    ("a.jsonl", b"{", "line 1: invalid document"),
    ("a.jsonl", b'{"text": "\\ud83d\\ude00"}\n{"text": "a\\ud83d"}',
     "line 2: half a surrogate pair in the text; expected whole characters"),
])
def test_bad_files_are_named(write_file, name, text, message):
    with pytest.raises(BertTfError, match=message):
        documents([write_file(name, text)])


def test_missing_and_damaged_files(tmp_path, write_file):
    with pytest.raises(BertTfError, match="no such file"):
        documents([tmp_path / "absent.txt"])
    path = pathlib.Path(write_file("a.txt.gz", "text\n" * 10_000))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BertTfError, match="damaged gzip"):
        documents([path])
    path.write_bytes(b"no gzip")
    with pytest.raises(BertTfError, match="damaged gzip"):
        documents([path])


@pytest.mark.parametrize("is_remote", [False, True])
def test_expand_inputs_spools_standard_input(tmp_path, write_file, monkeypatch, is_remote):
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    folder = "memory://spool/run" if is_remote else str(tmp_path / "run[1]")

    def expand(patterns, data, **options):
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))
        return expand_inputs(patterns, folder, **options)

    # What is no text is not kept: it would refuse the right text of the next command.
    for data, message in ((b"", "holds no text; .* before the pipe"), (b"\n \n", "holds no text"),
                          (b"\xff", "line 1: byte 0xff"),
                          (b"a line\n" * 200_000 + b"\xff", "line 200001: byte 0xff")):
        with pytest.raises(BertTfError, match=f"^standard input {message}"):
            expand(["-"], data)
    paths = expand([write_file("a.txt", "x"), "-"], b"from a pipe\n")
    if not is_remote:  # a pattern that matches the copy by another name
        glob = str(tmp_path / "." / "run[[]1]" / ".." / "run[[]1]" / "*.txt")
        assert expand([glob, "-"], b"from a pipe\n") == paths[1:]
    assert expand(["-"], b"from a pipe\n") == paths[1:]
    with pytest.raises(UsageError, match="stdin.txt holds other text from standard input"):
        expand(["-"], b"other\n")
    assert documents(paths) == [["x"], ["from a pipe"]]

    def refuse():
        raise UsageError("would be lost")

    absent = str(tmp_path / "*.absent")
    with pytest.raises(UsageError, match="would be lost"):
        expand(["-"], b"other\n", overwrite=True, ready=refuse)
    with pytest.raises(UsageError, match="no file matches"):
        expand(["-", absent], b"other\n", overwrite=True)
    assert documents(paths) == [["x"], ["from a pipe"]]
    expand(["-"], b"other\n", overwrite=True)
    assert documents(paths) == [["x"], ["other"]]
    with pytest.raises(UsageError, match="no file matches"):
        expand([str(tmp_path / "*.absent")], b"")
    files.remove(folder)


def test_a_copy_that_cannot_be_deleted_hides_no_reason(tmp_path, monkeypatch):
    def remove(path):
        raise UnavailableError(f"{path}: read-only")

    monkeypatch.setattr(files, "remove", remove)
    with pytest.raises(KeyboardInterrupt), spool_if_claimed(str(tmp_path)):
        raise KeyboardInterrupt


def test_standard_input_keeps_its_place_among_patterns_that_match_its_copy(write_file, tmp_path,
                                                                           monkeypatch):
    """Or the run that goes on would be told that its texts changed."""
    text = write_file("z.txt", "x")
    patterns, spool = [str(tmp_path / "*.txt"), "-"], str(tmp_path / "stdin.txt")
    for _ in range(2):
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(b"piped\n")))
        assert expand_inputs(patterns, str(tmp_path)) == [text, spool]


@pytest.mark.parametrize("name, message", [
    ("c4.json.gz", "is no text, by its name; expected .*jsonl"),
    ("texts.JSON", "is no text, by its name"), ("page.html", "is no text, by its name"),
    ("letter.rtf", "is no text, by its name"), ("보고서.hwp", "is no text, by its name"),
    ("crawl.warc.wet.gz", "is no text, by its name"), ("texts.parquet", "is no text, by its name"),
    ("texts.tar.gz", "is an archive or compressed")])
def test_what_is_no_text_by_its_name_is_refused(tmp_path, name, message):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UsageError, match=f"{name} {message}"):
        expand_inputs([str(tmp_path / "*")], str(tmp_path))
    for read in (read_texts, read_documents):
        with pytest.raises(UsageError, match=f"{name} {message}"):
            next(read([str(tmp_path / name)]))


@pytest.mark.parametrize("folder", ["", "memory://wiki/"])
@pytest.mark.parametrize(("name", "line", "message"), [
    ("wiki_00", '{"id": "7", "text": "A."}', "a JSON object; .*try a name that ends in .jsonl"),
    ("wiki_00.gz", '{"text": "A."}', "a JSON object"),
    ("wiki_00", '<doc id="7" url="x">', "<doc; .*try WikiExtractor's --json, and names .*jsonl"),
    ("dump", '<?xml version="1.0"?>', r"<\?xml; expected plain text"),
    ("wiki.xml-p1p9", '<mediawiki xmlns="x">', "<mediawiki; .*a name that ends in .txt"),
    ("page.php", "<!doctype html>", "<!doctype; expected plain text; try the text alone"),
    ("wiki_00", "{braces} are text", None), ("wiki_00", "{}", None), ("wiki_00", "<3", None),
    ("a.txt", "<doc >", None)])
def test_forms_that_a_name_does_not_tell_are_refused(tmp_path, write_file, folder, name, line,
                                                     message):
    """They would be trained on, braces and tags and all."""
    path = write_file(name, f"\ufeff\n {line}\n" + "more\n" * 1000)
    if folder:
        files.write_bytes(folder + name, pathlib.Path(path).read_bytes())
        path = folder + name
    with pytest.raises(UsageError, match=f"{name} begins with {message}") if message else (
            contextlib.nullcontext()):
        assert expand_inputs([path], str(tmp_path / "run")) == [path]


def test_what_a_run_wrote_into_its_folder_is_no_text_of_its_own(tmp_path, capsys):
    (tmp_path / "run" / "model").mkdir(parents=True)
    text, others = tmp_path / "vocab.txt", [tmp_path / "run" / name for name in (
        "metrics.jsonl", "model/vocab.txt", "vocab.txt")]
    for path in (text, *others):
        path.write_text("a\n")
    run = str(tmp_path / "run")
    assert expand_inputs([str(tmp_path / "**" / "*")], run) == [str(text)]
    assert capsys.readouterr().err == (f"note: {', '.join(map(str, others))} left out of the text: "
                                       "written by a run\n")
    assert expand_inputs([str(others[2])], run) == [str(others[2])]
    with pytest.raises(UsageError, match="no text remains; .*written by a run"):
        expand_inputs([str(tmp_path / "run" / "*.txt")], run)


def test_a_pipe_cannot_be_read_again(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UsageError, match="pipe.txt is a pipe .*standard input, --input -, which"):
        expand_inputs([str(tmp_path / "*.txt")], str(tmp_path))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.xlsx", "a.tfrecord"])
def test_tables_are_no_text(write_file, tmp_path, name):
    with pytest.raises(UsageError, match=f"{name} is no text, by its name"):
        expand_inputs([write_file(name, "id\ttext\n1\tthe film\n")], str(tmp_path))


def test_the_encoding_and_emptiness_of_the_last_file_are_told_at_once(write_file, tmp_path):
    (tmp_path / "c.txt").write_bytes("똠방각하".encode("cp949"))
    with pytest.raises(BertTfError, match="c.txt line 1"):
        expand_inputs([write_file("a.txt", "a"), str(tmp_path / "c.txt")], str(tmp_path))
    with pytest.raises(BertTfError, match="b.txt holds no text"):
        expand_inputs([write_file("a.txt", "a"), write_file("b.txt", "")], str(tmp_path))
    with pytest.raises(BertTfError, match="b.txt holds no text"):
        expand_inputs([write_file("b.txt", "\n" * (1 << 21))], str(tmp_path))
    assert expand_inputs([write_file("b.txt", "\n" * (1 << 21) + "b")], str(tmp_path))
    for name, data in (("b.txt", b""), ("b.txt", b" \n"), ("b.txt.gz", gzip.compress(b""))):
        files.write_text("memory://texts/a.txt", "a")
        files.write_bytes(f"memory://texts/{name}", data)
        with pytest.raises(BertTfError, match=f"{name} holds no text"):
            expand_inputs(["memory://texts/*"], str(tmp_path))
        files.remove("memory://texts")


def test_vocabulary_and_excluded_texts_are_no_input(write_file, tmp_path, capsys):
    text, dev, casing, vocab, record = (write_file(name, "a\n") for name in (
        "a.txt", "dev.txt", "tokenizer_config.json", "vocab.txt", "vocab.txt.manifest.json"))
    (tmp_path / "link.txt").symlink_to(dev)
    pattern, apart = str(tmp_path / "*.*"), [vocab, str(tmp_path / "link.txt")]
    run = str(tmp_path / "run")
    assert expand_inputs([pattern, text, apart[1]], run, apart=apart) == [text]  # each file once
    assert capsys.readouterr().err == (
        f"note: {dev}, {casing}, {vocab}, {record} left out of the text: the vocabulary, or "
        "excluded\n")
    with pytest.raises(UsageError, match="no text remains; .*the vocabulary, or excluded"):
        expand_inputs([dev], run, apart=apart)

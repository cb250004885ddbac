"""Atomic writing, damaged input, and locks."""

import errno
import gzip
import os
import pathlib
import socket
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import BertTfError, UnavailableError, UsageError
from bert_tf.storage import disk, files


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("aé한🙂 ", max_size=6), min_size=1, max_size=12), st.integers(1, 9),
       st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["text", "text.gz", "TEXT.GZ"]))
def test_lines_whatever_the_blocks(tmp_path_factory, lines, block_size, end, name):
    path = str(tmp_path_factory.mktemp("lines") / name)
    data = b"\xef\xbb\xbf" * (block_size > 2) + (end.join([*lines, ""])).encode()
    with (open if name == "text" else gzip.open)(path, "wb") as stream:
        stream.write(data)
    read = [line for block in files.read_line_blocks(path, block_size) for line in block]
    assert read == lines


@pytest.mark.parametrize("block_size", [4, 1 << 20])
def test_bad_utf8_is_named_by_line_and_column(tmp_path, block_size):
    path = tmp_path / "text"
    path.write_bytes(b"one\ntwo\nthr\xffee\n")
    with pytest.raises(BertTfError, match="text line 3: byte 0xff at column 4 is not UTF-8"):
        list(files.read_line_blocks(str(path), block_size))


@pytest.mark.parametrize(("text", "encoding", "found"), [
    ("one\n\ntwo", "UTF-16LE", "0x00 at column 2 is no text"),
    ("“one”", "UTF-16LE", "0x00 at column 4 is no text"),
    ("one", "UTF-16BE", "0x00 at column 1 is no text"),
    ("one", "UTF-32LE", "0x00 at column 2 is no text"),
    *(("мир " * 60, encoding, f"0x00 at column {column} is no text") for encoding, column in (
        ("UTF-16LE", 8), ("UTF-16BE", 7), ("UTF-32LE", 3))),
    ("\ufeffone", "UTF-32LE", "0x00 at column 1 is no text"),
    ("\ufeffone", "UTF-32BE", "0xfe at column 3 is not UTF-8"),
    *((text, encoding, r"0x\w\w at column \d is (not UTF-8|no text)")
      for text in ("한국어 문장\n" * 40, "日本語\nのテキスト" * 40)
      for encoding in ("UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"))])
def test_utf_16_and_32_without_their_marks_are_no_utf8(tmp_path, text, encoding, found):
    path = tmp_path / "text"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(BertTfError, match=f"text line 1: byte {found}, but may be {encoding}; .* "
                                          f"iconv -f {encoding} -t UTF-8"):
        list(files.read_lines(str(path)))
    assert list(files.read_lines(str(path), encoding)) == (
        text.removeprefix("\ufeff").removesuffix("\n").split("\n"))


def test_other_bytes_are_no_utf_16(tmp_path):
    path = tmp_path / "old.txt"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + b"\x3e\0\x03\0\xfe\xff")
    with pytest.raises(BertTfError, match="byte 0xd0 at column 1 is not UTF-8; try .* ENCODING"):
        list(files.read_lines(str(path)))


def test_a_byte_0x00_here_and_there_is_text(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a line of text\n" * 40 + b"on\0e\n")
    assert list(files.read_lines(str(path)))[-1] == "on\0e"


def test_standard_input_goes_on_where_others_stopped(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_text("a header\none\n한\n")
    with open(path, encoding="utf-8") as file:
        file.buffer.readline()
        monkeypatch.setattr(sys, "stdin", file)
        assert list(files.read_standard_input()) == ["one", "한"]
    one, other = socket.socketpair()  # which cannot be opened by a name
    with one, other, one.makefile(encoding="utf-8") as file:
        other.sendall(b"one\nt\xffwo")
        other.close()
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.raises(BertTfError, match="standard input line 2: byte 0xff at column 2"):
            list(files.read_standard_input())
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BertTfError, match="standard input: it is closed"):
        list(files.read_standard_input())


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "file"
    files.write_text(str(path), "first")
    with pytest.raises(RuntimeError), files.atomic_path(str(path)) as temporary:
        with open(temporary, "w") as stream:
            stream.write("half")
        assert path.read_text() == "first"
        raise RuntimeError
    with (pytest.raises(BertTfError, match="the disk is full"),
          files.atomic_path(str(path)) as temporary):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert path.read_text() == "first" and os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize(("number", "kind"), [
    (errno.EIO, UnavailableError), (errno.ESTALE, UnavailableError),
    (errno.ENOMEM, UnavailableError), (errno.ENAMETOOLONG, BertTfError), (None, BertTfError)])
def test_a_disk_that_fails_is_no_damage(number, kind):
    with pytest.raises(BertTfError, match="cannot read x: ") as raised, disk.explained("read", "x"):
        raise OSError(number, "wrong")
    assert raised.type is kind


def test_a_folder_that_is_away_is_not_taken_for_empty(monkeypatch, tmp_path):
    def away(*_, **__):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    assert files.list_folder(str(tmp_path / "none")) == []
    for name in ("listdir", "stat"):
        monkeypatch.setattr(os, name, away)
    with pytest.raises(UnavailableError, match="cannot list .*: Stale file handle"):
        files.list_folder(str(tmp_path))


def test_a_file_where_a_folder_should_be_is_named(tmp_path):
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(BertTfError, match="cannot create .*/file: it is a file;"):
        files.make_folder(str(path))
    with pytest.raises(BertTfError, match="cannot create .*/x: a parent of this path is a file;"):
        files.make_folder(str(path / "x"))
    with pytest.raises(BertTfError, match="cannot write .*/file: it is a file;"), \
            files.atomic_path(str(path)) as temporary:
        files.make_folder(temporary)


def test_a_folder_never_replaces_another(tmp_path):
    path = tmp_path / "folder"
    for expected in (None, "cannot write"):
        try:
            with files.atomic_path(str(path)) as temporary:
                os.mkdir(temporary)
                files.write_text(os.path.join(temporary, "file"), str(expected))
        except BertTfError as error:
            assert expected in str(error)
        else:
            assert expected is None
    assert (path / "file").read_text() == "None" and os.listdir(tmp_path) == ["folder"]


def test_a_name_that_is_temporary_is_cleaned_away_and_no_other(tmp_path):
    left = files.temporary_name(str(tmp_path / "step"))
    os.mkdir(left)
    (tmp_path / ".tmp-of the user").touch()
    files.clean_temporary(str(tmp_path))
    assert os.listdir(tmp_path) == [".tmp-of the user"]


def test_the_longest_names_have_temporary_ones(tmp_path):
    names = [letter + "글" * 84 + last for letter in "ab" for last in "xy"]  # of 254 bytes
    for name in names:
        files.write_text(tmp_path / name, name)
        pathlib.Path(files.temporary_name(files.temporary_name(tmp_path / name))).touch()
    assert {path.read_text() for path in tmp_path.iterdir()} == {*names, ""}
    files.clean_temporary(tmp_path, names[0])
    left = [path.name for path in tmp_path.iterdir() if path.name not in names]
    assert sorted(disk.is_left_over(each, name) for each in left for name in names) == (
        [False] * 9 + [True] * 3)


def test_patterns(tmp_path):
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).touch()
    a, b = str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    assert files.expand([b, str(tmp_path / "*.txt")]) == [b, a]
    os.symlink(b, tmp_path / "c.txt")
    assert files.expand([a, tmp_path / "." / ".." / tmp_path.name / "*.txt"]) == [a, str(
        tmp_path / ".." / tmp_path.name / "b.txt")]  # each file once, whatever its names
    with pytest.raises(UsageError, match="no file matches"):
        files.expand([str(tmp_path / "*.gz")])
    (tmp_path / "a[b].txt").touch()
    (tmp_path / "ab.txt").touch()
    assert files.expand([tmp_path / "a[b].txt"]) == [str(tmp_path / "a[b].txt")]
    assert files.expand([tmp_path / "[a]b.txt"]) == [str(tmp_path / "ab.txt")]


def test_a_name_in_jamo_is_found_however_it_is_typed(tmp_path):
    for made, typed in ("NFD", "NFC"), ("NFC", "NFD"):
        name, pattern = (unicodedata.normalize(form, f"{made}리뷰") for form in (made, typed))
        (tmp_path / f"{name}.csv").touch()
        for end in (".csv", "*"):
            assert files.expand([tmp_path / (pattern + end)]) == [str(tmp_path / f"{name}.csv")]


def test_a_name_that_is_no_utf8_in_json(tmp_path):
    value = {"한.txt": "\udcb0\udca1.txt"}  # as `os.fsdecode` gives it
    files.write_json(str(tmp_path / "a.json"), value)
    assert files.read_json(str(tmp_path / "a.json")) == value
    files.write_json_lines(str(tmp_path / "a.jsonl"), [value])
    assert files.read_json(str(tmp_path / "a.jsonl")) == value


def test_lines_of_json_are_told_their_name(write_file):
    with pytest.raises(BertTfError, match="line 2: invalid JSON: Extra data; try naming it .jsonl"):
        files.read_json(write_file("a.json", '{"text": "a"}\n{"text": "b"}\n'))
    with pytest.raises(BertTfError, match="line 1: invalid JSON: [^;]*$"):
        files.read_json(write_file("a.json", '{"text"\n'))


def test_a_file_that_is_gone_while_its_folder_is_deleted(tmp_path, monkeypatch):
    folder = tmp_path / "step"
    folder.mkdir()
    (folder / "variables").write_text("")
    unlink = os.unlink

    def twice(*args, **options):
        unlink(*args, **options)
        unlink(*args, **options)

    monkeypatch.setattr(os, "unlink", twice)
    files.discard(str(folder))
    assert not list(tmp_path.iterdir())

"""Input texts as streams of documents and sentences, in bounded memory.

- `.jsonl`, `.ndjson`: a document a line, an object whose field `text` holds it.
- any other name: plain text. With `split="lines"` a line is a sentence and a blank line ends a
  document; with `"sentences"` a blank line ends a document too, and what lies between is joined
  and split into sentences; with `"none"` every line that is not blank is a document of one
  sentence.

Both UTF-8, either also `.gz`. In a `.jsonl` text the line ends separate sentences (`lines`), are
white space like any other (`sentences`), or the whole text is one sentence (`none`).
"""

import contextlib
import filecmp
import itertools
import json
import os
import re
import shutil
import sys
import typing

from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.storage import files, manifest
from bert_tf.storage.encodings import line_blocks
from bert_tf.storage.json_texts import is_json_lines, read_json_texts, read_text_blocks
from bert_tf.tokenization import tokenizer_config
from bert_tf.tokenization.vocabulary import MANIFEST

STDIN_NAME = "stdin.txt"
# What runs write that patterns of texts match, too.
_OF_RUNS = (STDIN_NAME, "python_prose.txt", "vocab.txt", "merges.txt", "metrics.jsonl")
# JSON would be read as text, brackets and all, a table with its header and all columns, a web page,
# mail or what a crawler wrote with its tags and headers; the others hold no plain text.
_NO_TEXT = (".json", ".csv", ".tsv", ".html", ".htm", ".xhtml", ".mhtml", ".xml", ".eml", ".warc",
            ".wet", ".arc", ".pdf", ".rtf", ".doc", ".docx", ".odt", ".hwp", ".hwpx", ".epub",
            ".ppt", ".pptx", ".xls", ".xlsx", ".parquet", ".tfrecord")
_TEXT = (".txt", ".jsonl")  # any other name does not say what a file holds
# A web page, a dump as XML.
_MARKUP = re.compile(r"(<doc )|<\?xml|<!doctype|<mediawiki|<html", re.IGNORECASE)
_SMALL = 1 << 10  # bytes; empty files, also packed ones, have less

# What may end a sentence, with the quotes and brackets that close after it. The ideographic marks
# need no blank after them. A run of marks is tried once, from its beginning and whole: from each of
# its marks it would take quadratic time.
_END = re.compile(
    r"""(?<![.!?…])([.!?…]++["'”’»)\]]*+)\s+|([。！？]+["'”’」』）]*)\s*""")
_ABBREVIATIONS = frozenset((
    "mr", "mrs", "ms", "dr", "prof", "rev", "gen", "sen", "rep", "gov", "capt", "col", "lt", "sgt",
    "st", "jr", "sr", "vs", "etc", "fig", "al", "inc", "ltd", "co", "corp", "jan", "feb",
    "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "e.g", "i.e", "u.s",
    "u.k", "a.m", "p.m"))
_ENOUGH = 1 + max(map(len, _ABBREVIATIONS))  # last characters, to tell whether a word is one
_NUMBERED = re.compile(r"\d+\.")
_LAST_WORD = re.compile(r"[^\s\"'“‘(\[]*$")


class Piece(typing.NamedTuple):
    """A document, or the next part of one that is too long to hold."""

    document: int  # running number over all files, from 0
    sentences: list  # of str, stripped, none empty
    is_end: bool  # whether the document ends here


def split_sentences(text):
    """Split text into sentences: a plain rule for English and Korean.

    A sentence ends after `.`, `!`, `?` or `…`, closing quotes included, before white space, and
    after `。`, `！` and `？` anywhere; not where the next letter is a small one, nor after a
    single full stop of an initial (`J.`), of a common abbreviation (`Mr.`, `e.g.`; `No.` before
    a number), of a number in a date (`2024. 3. 1.`) or at the sentence's beginning (`1.`).

    Returns:
        list of str, white space within a sentence reduced to single blanks.
    """
    sentences = []
    start = 0
    text = " ".join(text.split())
    for match in _END.finditer(text):
        if match[1] and _goes_on(text, start, match):
            continue
        sentences.append(text[start:match.end()].rstrip())
        start = match.end()
    if start < len(text):
        sentences.append(text[start:])
    return sentences


def _goes_on(text, start, match):
    """Return whether the sentence from `start` continues after the mark found."""
    if text[match.end():match.end() + 1].islower():
        return True
    if match[1] != ".":
        return False
    word = _LAST_WORD.search(text, max(start, match.start() - _ENOUGH), match.start())[0]
    begin = match.start() - len(word)
    if word.isdecimal():
        return (begin == start or _NUMBERED.match(text, match.end()) is not None
                or text[begin - 2:begin] == ". " and text[begin - 3:begin - 2].isdecimal())
    initial = len(word) == 1 and word.isascii() and word.isupper() and word != "I"
    if word.lower() == "no":  # short for number, or an answer
        return text[match.end():match.end() + 1].isdigit()
    return initial or word.lower() in _ABBREVIATIONS


def read_documents(paths, split="lines", max_characters=1 << 20):
    """Yield the documents of the files in order.

    Args:
        paths: files, as in the module's description.
        split: `"lines"`, `"sentences"` or `"none"`.
        max_characters: a document of about twice as much or more comes in several pieces.

    Yields:
        Piece.

    Raises:
        UsageError: a file is no text by its name.
        BertTfError: a file is missing, unreadable, not UTF-8, or holds no text at all; a line of a
            `.jsonl` file is no object with a string `text`. File and line are named.
    """
    check_names(paths)
    document = 0
    for path in paths:
        read = _json_documents if is_json_lines(path) else _plain_documents
        first = document
        begun = False
        for sentences, is_end in read(path, split, max_characters):
            begun = begun or bool(sentences)
            if begun and (sentences or is_end):
                yield Piece(document, sentences, is_end)
            if is_end:
                document += begun
                begun = False
        if document == first:
            raise _without_text(path)


def read_unchanged(paths):
    """Yield the texts of the files with all their white space: lines, or the field `text`.

    Raises:
        BertTfError: as `read_documents`.
    """
    for path in paths:
        holds_text = False
        for texts in read_text_blocks(path):
            holds_text = holds_text or any(map(str.strip, texts))
            yield from texts
        if not holds_text:
            raise _without_text(path)


def _without_text(path, attempt="omitting the file"):
    return BertTfError(explain(f"{path} holds no text", "UTF-8 text, a sentence a line", attempt))


def _plain_documents(path, split, max_characters):
    """Yield (sentences, whether the document ends)."""
    held, size = [], 0
    is_open = False  # whether a part of the document has been yielded
    for lines in files.read_line_blocks(path):
        for line in lines:
            line = line.strip()
            if split == "none":
                if line:
                    yield [line], True
            elif line:
                held.append(line)
                size += len(line)
                if size > max_characters:
                    done, held = _sentences(held, split, is_end=False)
                    size = sum(map(len, held))
                    yield done, False
                    is_open = True
            elif held or is_open:
                yield _sentences(held, split)[0], True
                held, size, is_open = [], 0, False
    yield _sentences(held, split)[0], True


def _json_documents(path, split, _):
    """Yield (sentences, whether the document ends)."""
    for text in read_json_texts(path):
        if split == "none":
            yield [" ".join(text.split())] if text.strip() else [], True
            continue
        lines = [line for line in map(str.strip, text.split("\n")) if line]
        yield _sentences(lines, split)[0], True


def _sentences(lines, split, is_end=True):
    """Split lines into sentences; what may continue is left over unless the document ends."""
    if split == "lines":
        return lines, []
    sentences = split_sentences(" ".join(lines))
    if is_end or len(sentences) < 2:
        return sentences, []
    return sentences[:-1], sentences[-1:]


def check_names(paths):
    """Refuse files that are no text by their names: UsageError, before any is read."""
    for path in paths:
        files.refuse_packed(path)
        if files.suffix(path) in _NO_TEXT:
            raise UsageError(explain(f"{path} is no text, by its name", "plain text (.txt), or "
                                     "objects with the field text, one a line (.jsonl)"))


@contextlib.contextmanager
def spool_if_claimed(folder):
    """Delete the copy of standard input that the block made in a run's folder if it raises.

    It is text of no run then, and would refuse that of the next command. Once the folder is
    claimed it stays, whatever happens: text from a pipe may be nowhere else.

    Args:
        folder: as of `expand_inputs`, which the block calls before it claims the folder.
    """
    spool = os.path.join(folder, STDIN_NAME)
    was_there = files.exists(spool)
    try:
        yield
    except BaseException:  # also of Ctrl-C: the same command is given the text again
        if not was_there:
            with contextlib.suppress(BertTfError):  # the reason is told, as of a disk that is away
                files.remove(spool)
        raise


def expand_inputs(patterns, folder, overwrite=False, apart=(), ready=lambda: None, tell=print_note):
    """Return the paths of the texts that the user's `--input` names.

    Args:
        patterns: file names or glob patterns; `-` is standard input, plain text, which is written
            to `folder` once so that it can be read again.
        folder: an existing or new folder, the output folder of a run: what runs write there is left
            out unless it is named itself.
        overwrite: replace other text that was written there before.
        apart: files that are no text to train on, such as the vocabulary and what is excluded:
            they are left out, as is what is written beside a vocabulary, which is told.
        ready: function that refuses what would be lost; called before `overwrite` replaces text,
            which comes after all that is wrong with the other patterns.
        tell: function of a note and where to.

    Raises:
        UsageError: there is other text from standard input, or a pattern matches no file, or a
            pipe, which is empty when it is read again, or a file that is no text by its name; or
            nothing is left.
        BertTfError: a file cannot be read, or its beginning is not UTF-8.
    """
    spool, piped = os.path.join(folder, STDIN_NAME), "-" in patterns
    patterns = [spool if pattern == "-" else pattern for pattern in patterns]
    # A start before this one left the copy, which other patterns may match: its place is that of -.
    named = [[spool] if piped and pattern == spool else
             [path for path in files.expand([pattern]) if not (piped and path == spool)]
             for pattern in patterns]
    paths = list(dict.fromkeys(itertools.chain(*named)))
    beside = {files.resolved(name) for path in apart for name in (
        path, path + MANIFEST, os.path.join(os.path.dirname(path), tokenizer_config.NAME))}
    paths = _without(paths, "written by a run", tell, lambda path: (
        path not in patterns and _is_made(path, folder)))
    # Of several names of one file the first counts, of the copy its own.
    counts = {files.resolved(path): path for path in (*reversed(paths), *[spool] * piped)}
    paths = [path for path in paths if counts[files.resolved(path)] == path]
    paths = _without(paths, "the vocabulary, or excluded", tell, lambda path: (
        beside and files.resolved(path) in beside))
    check_names(paths)
    files.each(_check_beginning, [path for path in paths if not (piped and path == spool)])
    if piped:
        _copy_standard_input(spool, overwrite, ready)
    return paths


def _copy_standard_input(spool, overwrite, ready):
    """Write standard input to `spool`, with the last arguments of `expand_inputs`."""
    with files.atomic_path(spool) as temporary:
        with open(temporary, "wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        # A copy of no text would only refuse what the mended command gives: all of it is read.
        with open(temporary, "rb") as stream:
            if not sum(any(map(str.strip, lines))
                       for lines in line_blocks(stream, "standard input")):
                raise _without_text("standard input", "what comes before the pipe alone")
        if files.exists(spool) and not _are_same(temporary, spool):
            if not overwrite:
                raise UsageError(explain(
                    f"{spool} holds other text from standard input than there is now",
                    attempt="another output folder, or --overwrite"))
            ready()


def _check_beginning(path):
    """Refuse a text that cannot be read twice, one without text, and JSON or markup whose
    name does not say so: of many files the last one is not to be told after hours."""
    is_named = files.suffix(path) in _TEXT
    if files.is_remote(path):
        if is_named and files.size(path) > _SMALL:  # of many, all beginnings together are long
            return
    elif files.exists(path) and not files.is_file(path):
        raise UsageError(explain(f"{path} is a pipe or a device", "a file",
                                 "standard input, --input -, which is copied first"))
    first = next((line for lines in files.read_line_blocks(path) for line in lines
                  if line.strip()), None)
    if first is None:
        raise _without_text(path)
    if not is_named:
        _refuse_other_forms(path, first.strip())


def _refuse_other_forms(path, line):
    """Refuse a file whose first line says that it is no plain text: it would be trained on, braces
    and tags and all."""
    if found := _MARKUP.match(line):
        raise UsageError(explain(
            f"{path} begins with {found[0].strip()}", "plain text",
            ("WikiExtractor's --json, and names that end in .jsonl" if found[1] else
             "the text alone, without its tags") + "; as it is, by a name that ends in .txt"))
    with contextlib.suppress(ValueError, RecursionError):
        if line.startswith("{") and json.loads(line):
            raise UsageError(explain(f"{path} begins with a JSON object", "plain text",
                                     "a name that ends in .jsonl, for objects with the field text"))


def _are_same(path, stored):
    """Return whether a local file is the same as one that may be in an object store."""
    if files.is_remote(stored):
        return manifest.digest_file(path) == manifest.digest_file(stored)
    return filecmp.cmp(path, stored, shallow=False)


def _without(paths, why, tell, is_out):
    """Return the paths but those that are `is_out`, which is told; one or more must be left."""
    out = [path for path in paths if is_out(path)]
    if not out:
        return paths
    told = f"{', '.join(out)} left out of the text: {why}"
    if len(out) == len(paths):
        raise UsageError(explain(f"no text remains; {told}", "other text as well"))
    tell(told, file=sys.stderr)
    return [path for path in paths if path not in out]


def _is_made(path, folder):
    """Return whether a run with that output folder writes a file of that name there."""
    return folder and files.base_name(path) in _OF_RUNS and files.resolved(path).startswith(
        os.path.join(files.resolved(folder), ""))

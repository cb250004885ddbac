"""Text files: lines, gzip, JSON lines, tables, questions, tags, documents."""

import csv
import gzip
import io
import json

from fuzzing.target import Bytes, Target, bytes_or_json, json_seeds, write

TEXT = "One sentence.\r\nA second, 한국어 😀\n\nMr. J. Smith said \"no\"... Twice! 中。\n".encode()
TSV = b"id\ttext\tlabel\n0\tA dull film.\t0\n1\t\xea\xb0\x80 film\t1\n"
CSV = b'text,label\n"a ""quoted"",\nline",1\nb,0\n'
JSONL = b'{"text": "a", "label": 1}\n{"text": "b", "label": "x", "c": {"d": 2}}\n'
TAGS = b"-DOCSTART- O\n\nAnn B-PER\nLee I-PER\nleft\tO\n"
KLUE = "## klue-1\tAnn\n강\tB-PS\n 	O\n은\tI-PS\n\n".encode()
SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": "Ann went to Seoul.", "qas": [
    {"id": "1", "question": "Where?", "answers": [{"text": "Seoul", "answer_start": 12}]},
    {"id": 2, "question": "Why?", "answers": [], "is_impossible": True}]}]}]}
_TEXTS = (TEXT, TSV, CSV, JSONL, TAGS, KLUE, b"", b"\xef\xbb\xbfa\n", b"\xff\n", b"\xed\xa0\x80")


def _lines():
    from bert_tf.errors import BertTfError
    from bert_tf.storage import files

    def check(data):
        data = Bytes(data)
        size, content = 1 + data.number(1), data.rest
        path = write("lines.txt", content)
        try:
            expected = content.removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError:
            expected = None
        try:
            lines = [line for block in files.read_line_blocks(path, size) for line in block]
        except BertTfError:
            assert expected is None
            raise
        assert expected is not None
        # A last line without end is a line, one with an end is not followed by another.
        expected = expected.split("\n")
        expected = expected if expected[-1] else expected[:-1]
        assert lines == [line.rstrip("\r") for line in expected]

    return check


def _gzip():
    from bert_tf.storage import files

    def check(data):
        path = write("lines.txt.gz", data)
        lines = [*files.read_lines(path)]
        with gzip.open(path) as stream:
            assert "\n".join(lines) == "\n".join(
                line.rstrip("\r") for line in stream.read().removeprefix(
                    b"\xef\xbb\xbf").decode().removesuffix("\n").split("\n"))

    return check


def _json_texts():
    from bert_tf.storage import files
    from bert_tf.storage.json_texts import read_json_texts

    def check(data):
        path = write("texts.jsonl", data)
        for text in read_json_texts(path):
            assert isinstance(text, str)
            text.encode()
        files.read_json(path)

    return check


def _tables():
    from bert_tf.data import table_form, tables
    from bert_tf.tasks.base import text_files

    forms = ("tsv", "csv", "jsonl", "json")

    def check(data):
        data = Bytes(data)
        choice = data.byte()
        path = write(f"table.{forms[choice % 4]}", data.rest)
        columns = ("0", "1") if choice & 4 else ("text", "label")
        for where, values in tables.read_rows(path, list(columns), ["c.d"]):
            assert where.startswith(path)
            assert isinstance(values, tables.BadRow) or set(columns) <= set(values)
        problem = ("single_label", "multi_label", "regression")[choice // 8 % 3]
        form = table_form.TableForm(header=(None, True, False)[choice // 64 % 3])
        for example in text_files.read_texts(path, text_files.Columns(*columns), problem,
                                             form=form):
            isinstance(example, tables.BadRow) or example.text_a.encode()

    return check


def _spans():
    from bert_tf.tasks.question_answering import files as span_files

    def check(data):
        form, data = data[:1], data[1:]
        if form < b"\x80":
            examples = span_files.read_squad(write("squad.json", bytes_or_json((SQUAD,), data)))
        else:
            name = "spans.jsonl" if form < b"\xc0" else "spans.tsv"
            examples = span_files.read_span_table(write(name, data), {
                "text": "text", "text_b": "context", "label": "label"})
        for example in examples:
            for text, start in getattr(example, "answers", ()):
                assert example.context[start:start + len(text)] == text

    return check


def _tags():
    from bert_tf.data.tables import BadRow
    from bert_tf.tasks.token_classification import files as tag_files

    readers = (tag_files.read_conll, tag_files.read_klue,
               lambda path: tag_files.read_tag_table(path, {"text": "text", "label": "label"}))
    forms = ("txt", "tsv", "jsonl")

    def check(data):
        choice = data[0] if data else 0
        path = write(f"tags.{forms[choice // 3 % 3]}", data[1:])
        for example in readers[choice % 3](path):
            if isinstance(example, BadRow):
                continue
            assert len(example.words) == len(example.tags) == len(example.spaces) > 0
            assert all(word.strip() for word in example.words)

    return check


def _documents():
    from bert_tf.data import documents

    def check(data):
        data = Bytes(data)
        split = data.pick(("lines", "sentences", "none"))
        path = write(data.pick(("documents.txt", "documents.jsonl")), data.rest)
        before = -1
        for piece in documents.read_documents([path], split, 64):
            assert piece.document in (before, before + 1)
            before = piece.document
            assert all(sentence and sentence == sentence.strip() for sentence in piece.sentences)

    return check


def _csv_seed():
    stream = io.StringIO()
    csv.writer(stream).writerows([["text", "label"], ["a\tb", "1"], ['"', ""]])
    return stream.getvalue().encode()


TARGETS = (
    Target("lines", _lines, tuple(b"\x05" + text for text in _TEXTS), 950_000),
    Target("gzip", _gzip, tuple(gzip.compress(text, mtime=0) for text in _TEXTS), 300_000),
    Target("json_texts", _json_texts, (JSONL, b'{"text": 1}', b"[" * 3000, b'"\\ud800"'),
           500_000),
    Target("tables", _tables, tuple(bytes([form]) + text for form in range(24)
                                    for text in (TSV, CSV, JSONL, _csv_seed())), 600_000),
    Target("spans", _spans, (*(b"\0" + seed for seed in json_seeds((SQUAD,))),
                             b"\x90" + json.dumps({"text": "Where?", "context": "in a b",
                                                   "label": "b"}).encode(),
                             b"\xf0text\tcontext\tlabel\tanswer_start\nq\ta b\tb\t2\n"), 500_000),
    Target("tags", _tags, (b"\0" + TAGS, b"\1" + KLUE, b"\x05text\tlabel\na b\tO B-x\n",
                           b'\x08{"text": ["a", "b"], "label": ["O", "B-x"]}\n'), 500_000),
    Target("documents", _documents, tuple(bytes([split, form]) + text for split in range(3)
                                          for form in range(2) for text in _TEXTS), 300_000),
)

"""Documents that are skipped, against a search of every pair in plain Python."""

import json
import pathlib
import random

import pytest

from bert_tf.data import documents, skipped, text_copies
from bert_tf.errors import BertTfError, UsageError

WORDS = ["sun", "moon", "star", "sky", "rain", "wind", "snow", "cloud", "storm", "night"]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(skipped, "_BATCH_TEXTS", 7)


def kept(paths, split="none", dedupe=None, exclude=(), **options):
    """The documents that are left, as texts, with their numbers, and the counts."""
    found, counts = skipped.skipped_documents(paths, split, dedupe, exclude, **options)
    pieces = list(skipped.read_kept(paths, split, dict(found)))
    return [(piece.document, " ".join(piece.sentences)) for piece in pieces], counts


def test_exact_copies_are_all_but_the_first(write_file, small):
    """Whatever the case and the white space, in any file, as a set of Python finds them."""
    rng = random.Random(3)
    lines = [rng.choice([" ", "  ", "\t"]).join(
        rng.choice([str.upper, str.lower])(word) for word in rng.choices(WORDS[:3], k=2))
        for _ in range(60)]
    paths = [write_file("a.txt", "\n".join(lines[:35])), write_file("b.txt", "\n".join(lines[35:]))]
    seen, expected = set(), []
    for number, line in enumerate(lines):
        key = tuple(line.lower().split())
        if key not in seen:
            expected.append((number, line.replace("\t", "\t")))
        seen.add(key)
    left, counts = kept(paths, dedupe="exact")
    assert left == expected and 3 < len(left) <= 9
    assert counts["exact_duplicates"] == 60 - len(left) and counts["documents"] == 60
    everything, _ = kept(paths)
    assert [text for _, text in everything] == lines


def test_near_copies_and_others(write_file, small):
    rng = random.Random(4)
    texts = [" ".join(f"{rng.choice(WORDS)}{rng.randrange(1000)}" for _ in range(60))
             for _ in range(20)]
    near = [text.replace(text.split()[9], "else").upper() + "!" for text in texts[:8]]
    half = [" ".join(text.split()[:30] + other.split()[30:])
            for text, other in zip(texts, texts[::-1], strict=True)]
    path = write_file("a.txt", "\n".join([*texts, *near, *half, "...", "...", "?!"]))
    left, counts = kept([path], dedupe="near")
    numbers = {number for number, _ in left}
    assert numbers >= {*range(20)} and not numbers & {*range(20, 28)}
    assert counts["near_duplicates"] == 8 and counts["exact_duplicates"] == 1
    assert {*range(28, 48)} <= numbers and {48, 50} <= numbers
    excluded = write_file("dev.txt", near[0] + "\n")
    left, counts = kept([path], dedupe="near", exclude=[(excluded, None)])
    assert left[0][0] == 1 and counts["excluded"][0]["documents"] == 1


def test_processes_and_batches_change_nothing(write_file, monkeypatch):
    rng = random.Random(5)
    lines = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 9))) for _ in range(300)]
    text = "\n".join(line + "\n" * (rng.random() < 0.5) for line in lines)
    path = write_file("a.txt", "\n\n".join([text, *(f"{each.strip()}!" for each in
                                                     text.split("\n\n")[:20] if each.strip())]))

    def read(paths, split):
        """Long documents in pieces, as those of megabytes come."""
        return original(paths, split, max_characters=30)

    original = documents.read_documents
    monkeypatch.setattr(skipped, "read_documents", read)
    results = []
    for size, processes in ((1, 1), (13, 1), (1000, 1), (40, 2)):
        monkeypatch.setattr(skipped, "_BATCH_TEXTS", size)
        results.append(skipped.skipped_documents([path], "lines", "near", [],
                                                 num_processes=processes))
    assert all(result == results[0] for result in results)
    counts = results[0][1]
    assert counts["exact_duplicates"] > 3 and counts["near_duplicates"] > 3


def test_texts_to_exclude(write_file):
    rows = ["id\tdocument\tlabel", "1\tSun  and moon\t0", "2\tnot there\t1", "3\t\t0"]
    table = write_file("ratings.txt", "\n".join(rows))
    lines = write_file("dev.txt", "RAIN\n\nrain\nsnow\n")
    objects = write_file("dev.jsonl", "\n".join(json.dumps({"text": text}) for text in ("storm",)))
    path = write_file("a.txt", "sun and moon\nrain\nsun and moon.\nstorm\nrain\nsky\n")
    named = [skipped.excluded_file(text) for text in (f"{table}:document", lines, objects)]
    assert named == [(table, "document"), (lines, None), (objects, "text")]
    left, counts = kept([path], exclude=named)
    assert [text for _, text in left] == ["sun and moon.", "sky"]
    assert [(each["file"], each["texts"], each["documents"]) for each in counts["excluded"]] == [
        ("ratings.txt", 2, 1), ("dev.txt", 3, 2), ("dev.jsonl", 1, 1)]
    assert skipped.told(counts, "lines")[0] == (
        "excluded: 1 documents are among the 2 texts of ratings.txt")
    counts["excluded"][0]["documents"] = 0
    assert "with --split none" in skipped.told(counts, "lines")[0]
    assert skipped.told(counts, "none")[0].endswith("of ratings.txt")


def test_sentences_without_blanks_between_are_excluded(write_file):
    """Chinese and Japanese: what splits a document into sentences puts no blank into its hash."""
    lines = ["今天天气很好。我们去公园吧！", "好。"]
    path, dev = write_file("a.txt", "\n\n".join(lines)), write_file("dev.txt", lines[0])
    left, _ = kept([path], split="sentences", exclude=[(dev, None)])
    assert [text for _, text in left] == ["好。"]


@pytest.mark.parametrize("name, message", [
    ("none.txt", "--exclude none.txt: no such file; expected a file of a text a line, or "
                 "TABLE:COLUMN"),
    ("x.tsv", "--exclude x.tsv is a table; expected its column as well; try --exclude "
              "x.tsv:COLUMN"),
    ("none.tsv:text", "no such file")])
def test_exclude_that_is_refused(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("x.tsv").write_text("a\tb\n1\t2\n")
    with pytest.raises(UsageError, match=message):
        skipped.excluded_file(name)
    with pytest.raises(UsageError, match="no column 'c' among a, b"):
        kept(["x.tsv"], exclude=[("x.tsv", "c")])


def test_what_excludes_nothing_is_refused_and_bytes_are_text(write_file, tmp_path):
    """Or a model would be measured on what it has learned."""
    pa, pq = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    path, table = write_file("a.txt", "sun\nmoon\n"), str(tmp_path / "dev.parquet")
    pq.write_table(pa.table({"text": [b"moon"], "bad": [b"\xff"], "label": [1]}), table)
    assert kept([path], exclude=[(table, "text")])[0] == [(0, "sun")]
    for exclude, message in (((table, "label"), "parquet:label holds no text; expected the texts"),
                             ((write_file("dev.txt", " \n"), None), "dev.txt holds no text"),
                             ((table, "bad"), "row 1: bytes that are not UTF-8")):
        with pytest.raises(BertTfError, match=message):
            kept([path], exclude=[exclude])


@pytest.mark.parametrize("options", [{"holdout": 0.2}, {"format": "full_sentences"}])
def test_examples_of_a_text_with_copies_are_those_without(make, text, write_file, options):
    """Shard by shard, byte by byte; the counts are in the manifest."""
    whole = pathlib.Path(text).read_text()
    parts = whole.strip().split("\n\n")
    dev = write_file("dev.txt", "In no document\nbut this, of one line\n")
    copied = write_file("copied.txt", "\n\n".join(
        [*parts, parts[3].upper(), "but this,\nof one line", parts[0] + "\nz"]) + "\n")
    clean, made = make(**options)
    cleaned, told = make(inputs=[copied], dedupe="near", exclude=(dev,), **options)
    assert "skipped" not in made
    assert told["splits"] == made["splits"]
    for path in pathlib.Path(clean).glob("*.tfrecord"):
        assert (pathlib.Path(cleaned) / path.name).read_bytes() == path.read_bytes()
    assert told["skipped"] == {
        "documents": 33, "exact_duplicates": 1, "near_duplicates": 1,
        "excluded": [{"file": "dev.txt", "texts": 2, "documents": 1}]}
    with pytest.raises(BertTfError, match="no document is left to train on"):
        make(inputs=[write_file("a.txt", "a b\n")], exclude=(write_file("b.txt", "A b\n"),),
             split="none", format="full_sentences", pairs=None)


def test_hashes_that_two_processes_find_are_joined():
    """The hash of a text in parts differs from those of its parts and of their other order."""
    a, b = text_copies.text_hashes(["one", "two"])
    assert len({int(a), int(b), text_copies.joined_hash(a, b),
                text_copies.joined_hash(b, a)}) == 4

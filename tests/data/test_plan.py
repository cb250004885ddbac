"""Sections: cut without each other, yet one text."""

import pytest

from bert_tf.data import plan
from bert_tf.data.example_maker import ExampleOptions
from bert_tf.errors import BertTfError
from bert_tf.tokenization.load import TokenizerSource


@pytest.fixture(autouse=True)
def small_sections(monkeypatch):
    monkeypatch.setattr(plan, "SECTION_BYTES", 40)


def _plan(write_file, texts, holdout=0.0, seed=0, suffix=".txt"):
    paths = [write_file(f"{number}{suffix}", text) for number, text in enumerate(texts)]
    options = ExampleOptions(
        seq_length=32, format="segment_pair", pairs="random",
        masking="dynamic", whole_word=False, max_ngram=1, masked_share=0.15, dupe_factor=1,
        max_predictions_per_seq=5, short_seq_prob=0.1, seed=seed)
    sections, size = plan.make_sections(paths)
    return plan.Plan(sections, size, "lines", holdout, options, TokenizerSource("vocab.txt"),
                     "data")


def _documents(chunk, part):
    return {sentence.split()[0] for _, sentences in getattr(chunk, part) for sentence in sentences}


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_files_are_gathered(write_file, suffix):
    texts = ["a" * 30 + "\n", "b" * 30 + "\n", "c" * 50 + "\n", "d\n"]
    made = _plan(write_file, texts, suffix=suffix)
    if suffix == ".txt":
        assert [len(section) for section in made.sections] == [2, 1, 1]
        assert made.size == sum(map(len, texts))
    else:  # so little text is longer compressed
        assert sum(map(len, made.sections)) == 4


def test_a_section_of_one_document_borrows_from_the_next(write_file):
    texts = [f"{name} one sentence of it\n{name} another sentence\n" for name in "abc"]
    made = _plan(write_file, texts)
    assert len(made.sections) == 3
    for section, (own, lent) in enumerate(("ab", "bc", "ca")):
        (chunk,) = made.chunks(section)
        assert (chunk.section, chunk.number) == (section, 0)
        assert _documents(chunk, "own") == {own}
        assert _documents(chunk, "lent") == {lent}
    assert [next(made.chunks(section)).file_name for section in (0, 2)] == [
        "train-00000.tfrecord", "train-00002-00000.tfrecord"]
    with pytest.raises(BertTfError, match="the text is a single document"):
        list(_plan(write_file, texts[:1]).chunks(0))


def test_copies_of_a_document_go_the_same_way_in_all_sections(write_file):
    text = "\n\n".join(f"document-{number} goes somewhere" for number in range(30)) + "\n"
    made = _plan(write_file, [text] * 3, holdout=0.3)
    held_out = []
    for section in range(3):
        splits = {"train": set(), "eval": set()}
        for chunk in made.chunks(section):
            splits[chunk.split] |= _documents(chunk, "own")
        assert len(splits["train"]) + len(splits["eval"]) == 30
        held_out.append(splits["eval"])
    assert held_out[0] == held_out[1] == held_out[2] and 2 <= len(held_out[0]) < 20

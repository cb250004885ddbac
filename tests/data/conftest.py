"""A small corpus and its examples."""

import numpy as np
import pytest

from bert_tf.data import chunks, create

LETTERS = "abcdefghijklmnopqrstuvwxyz"
OPTIONS = {
    "lower_case": True, "strip_accents": False, "seq_length": 32, "format": "segment_pair",
    "masking": "dynamic", "whole_word": True, "dupe_factor": None, "max_predictions_per_seq": 6,
    "short_seq_prob": 0.1, "seed": 7, "num_processes": 1, "split": "lines", "progress": False}


@pytest.fixture(scope="session")
def options():
    """What `create_examples` is called with here."""
    return dict(OPTIONS)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Thirty documents of random words, a sentence a line."""
    rng = np.random.default_rng(0)
    documents = []
    for _ in range(30):
        lines = [" ".join("".join(rng.choice(list(LETTERS), rng.integers(1, 6)))
                          for _ in range(rng.integers(1, 10)))
                 for _ in range(rng.integers(4, 20))]
        documents.append("\n".join(lines))
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join(documents) + "\n")
    return str(path)


@pytest.fixture(scope="session")
def vocab(tmp_path_factory):
    """The special tokens and the letters."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS,
                               *(f"##{letter}" for letter in LETTERS)]) + "\n")
    return str(path)


@pytest.fixture(scope="session")
def make(text, vocab, tmp_path_factory):
    """Function that makes examples with some options changed: its folder and manifest."""
    def made(**changes):
        folder = str(tmp_path_factory.mktemp("data"))
        inputs = changes.pop("inputs", [text])
        return folder, create.create_examples(**{
            **OPTIONS, "input": inputs, "vocab": vocab, "output_dir": folder, **changes})
    return made


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(chunks, "_WINDOW_BYTES", 2000)


@pytest.fixture
def run(text, vocab, tmp_path, options):
    """Function that makes examples in `tmp_path` with some options changed."""
    return lambda **changes: create.create_examples(**{
        **options, "input": text, "vocab": vocab, "output_dir": str(tmp_path), **changes})


@pytest.fixture(scope="module")
def dynamic(make):
    return make(holdout=0.2)


@pytest.fixture(scope="module")
def static(make):
    return make(holdout=0.2, masking="static", dupe_factor=2)

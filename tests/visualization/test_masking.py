"""The example shown is the one that a training reads, and is masked by the documented rule."""

import collections
import functools
import itertools
import json
import math
import re

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import save_model

from bert_tf import cli, visualize
from bert_tf.data.create import create_examples
from bert_tf.data.pretraining_input import PretrainingInput
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.visualization import masking
from bert_tf.visualization.masking import make_records, read_examples
from bert_tf.visualization.masking_page import REPLACEMENTS

LETTERS = "abcdefghijklmnopqrst"
PIECES = [*LETTERS, *(f"##{letter}" for letter in LETTERS), "<", ">", "##script", "script"]
SEED, LENGTH, EXAMPLES = 5, 40, 40


def _document(number):
    """Words of three letters, the first the document's, the others counting up."""
    words = [f"{LETTERS[number]}{a}{b}" for a, b in itertools.product(LETTERS[:8], LETTERS[:9])]
    return [" ".join(words[start:start + 6]) for start in range(0, len(words), 6)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join("\n".join(_document(number)) for number in range(12)) + "\n")
    return path


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES]))


@pytest.fixture(scope="module")
def made(corpus, tokenizer, tmp_path_factory):
    """Function of `pairs` and further options: the folder of the records, made once."""
    @functools.cache
    def make(**options):
        folder = tmp_path_factory.mktemp("made")
        return make_records([str(corpus)], tokenizer, str(folder), seed=SEED, **{
            "max_seq_length": LENGTH, **options})
    return make


@pytest.fixture(scope="module")
def examples(made, tokenizer):
    """The first examples, of next sentence and of sentence order prediction."""
    return {pairs: read_examples(folder, tokenizer, 0, EXAMPLES, SEED)
            for pairs in ("random", "swapped") for folder, _ in [made(pairs=pairs)]}


def _words(example):
    """Positions of each word: what begins after a special token or is no `##` piece."""
    words = []
    for place, token in enumerate(example["tokens"]):
        if token in SPECIAL_TOKENS:
            continue
        begins = not token.startswith("##") or example["tokens"][place - 1] in SPECIAL_TOKENS
        assert example["word_starts"][place] == begins
        if begins:
            words.append([])
        words[-1].append(place)
    return words


def test_the_rule(examples):
    for example in itertools.chain(*examples.values()):
        words = _words(example)
        budget = min(max(round(len(example["ids"]) * 0.15), 1), round(LENGTH * 0.15))
        for name, masked in example["maskings"].items():
            positions = masked["positions"].tolist()
            assert positions == sorted(set(positions))
            assert set(positions) <= set(itertools.chain(*words))
            # The labels are the tokens as they were, all others stay.
            np.testing.assert_array_equal(masked["label_ids"], example["ids"][positions])
            others = np.setdiff1d(np.arange(len(example["ids"])), positions)
            np.testing.assert_array_equal(masked["input_ids"][others], example["ids"][others])
            for place, label, fate in zip(positions, masked["labels"], masked["fates"],
                                          strict=True):
                given = masked["input"][place]
                assert {"mask": given == "[MASK]", "kept": given == label,
                        "random": given not in (*SPECIAL_TOKENS, label)}[fate]
            if name == "token":
                assert len(positions) == budget
                continue
            chosen = [word for word in words if set(word) & set(positions)]
            assert sorted(itertools.chain(*chosen)) == positions  # whole words
            left = budget - len(positions)
            assert left >= 0 and all(len(word) > left for word in words if word not in chosen)
            fates = dict(zip(positions, masked["fates"], strict=True))
            # A word has one fate; of random tokens one may happen to be the original.
            assert all(len({fates[place] == "mask" for place in word}) == 1 for word in chosen)


@pytest.mark.parametrize("name", ["token", "whole_word"])
def test_shares_of_fates(examples, name):
    counts = collections.Counter()
    for example in itertools.chain(*examples.values()):
        counts.update(example["maskings"][name]["fates"])
    # What is drawn once is a token, or a word of about three.
    draws = counts.total() / (1 if name == "token" else 3)
    for fate, share in (("mask", 0.8), ("random", 0.1), ("kept", 0.1)):
        spread = math.sqrt(share * (1 - share) / draws)
        assert abs(counts[fate] / counts.total() - share) < 4 * spread, counts


def test_labels_of_pairs(examples):
    told = collections.Counter()
    for pairs, of_pairs in examples.items():
        for example in of_pairs:
            pair = example["pair"]
            first, second = (re.findall(r"\b[a-t]{3}\b", text) for text in pair["segments"])
            if not first or not second:
                continue
            told[pairs, pair["label"]] += 1
            if pairs == "random":
                assert pair["task"] == "next sentence prediction"
                assert (first[0][0] != second[0][0]) == pair["label"]
                assert ("another document" in pair["meaning"]) == pair["label"]
            else:
                assert pair["task"] == "sentence order prediction"
                assert (first[-1] > second[0]) == pair["label"]
                assert ("swapped" in pair["meaning"]) == pair["label"]
    assert len(told) == 4 and min(told.values()) > 5, told


def test_it_is_what_a_training_reads(corpus, made, tokenizer, tmp_path):
    folder, used = made(pairs="random")
    assert used is None
    number = 13
    (example,) = read_examples(folder, tokenizer, number, 1, SEED)
    tokenizer.vocabulary.save(str(tmp_path / "vocab.txt"))
    for name, whole_word in masking.MASKINGS.items():
        # Made by create_data itself, with masks of whole words stated there, in batches of 8.
        data = str(tmp_path / name)
        create_examples(
            input=str(corpus), vocab=str(tmp_path / "vocab.txt"), output_dir=data,
            max_seq_length=LENGTH, whole_word=whole_word, seed=SEED, num_processes=1,
            progress=False)
        source = PretrainingInput(data, "train", batch_size=8, seed=SEED)
        (batch,) = source.dataset(start_step=number // 8, num_steps=1).as_numpy_iterator()
        row = {key: values[number % 8] for key, values in batch.items()
               if key != "first_example"}
        size, masked = row["input_mask"].sum(), example["maskings"][name]
        np.testing.assert_array_equal(row["input_word_ids"][:size], masked["input_ids"])
        np.testing.assert_array_equal(row["input_type_ids"][:size], example["segments"])
        chosen = row["masked_lm_weights"] > 0
        np.testing.assert_array_equal(row["masked_lm_positions"][chosen], masked["positions"])
        np.testing.assert_array_equal(row["masked_lm_ids"][chosen], masked["label_ids"])
        assert row["next_sentence_labels"] == example["pair"]["label"]
    # The tokens are those of a record.
    written = tf.data.TFRecordDataset(tf.io.gfile.glob(f"{data}/*.tfrecord"))
    records = [tf.train.Example.FromString(record).features.feature["input_word_ids"]
               .int64_list.value for record in written.as_numpy_iterator()]
    assert example["ids"].tolist() in [list(record) for record in records]


def test_spans_and_single_segments(made, tokenizer):
    folder, _ = made(format="full_sentences", max_ngram=3, masked_lm_prob=0.3)
    for example in read_examples(folder, tokenizer, 0, 8, SEED):
        assert example["pair"] is None and not example["segments"].any()
        words = {place: index for index, word in enumerate(_words(example)) for place in word}
        positions = example["maskings"]["whole_word"]["positions"].tolist()
        assert all(place in positions for place, index in words.items()
                   if index in {words[chosen] for chosen in positions})
    folder, _ = made(pairs="next")
    pair = read_examples(folder, tokenizer, 1, 1, SEED)[0]["pair"]
    assert pair["label"] is None and len(pair["segments"]) == 2


def test_the_beginning_of_long_text(corpus, made, monkeypatch):
    from bert_tf.data import chunks

    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)
    folder, used = made()
    assert used == 4  # a document has 287 bytes
    with open(f"{folder}/../text.txt") as kept:
        assert kept.read().split("\n\n")[:-1] == corpus.read_text().split("\n\n")[:4]


def test_the_beginning_of_a_document_that_is_longer(tmp_path):
    text = tmp_path / "long.txt"
    text.write_text("a line of words\n" * 200_000)
    assert masking._write_first_documents([str(text)], "lines", str(tmp_path / "out.txt")) == 1
    text.write_text("a line of words\n")
    assert masking._write_first_documents([str(text)], "lines", str(tmp_path / "out.txt")) is None


def test_the_files(corpus, tokenizer, tmp_path, capsys):
    vocab, hostile = tmp_path / "vocab.txt", tmp_path / "hostile.txt"
    tokenizer.vocabulary.save(str(vocab))
    hostile.write_text("\n\n".join(["<script>\n> <script> <"] * 3))

    def run(output, *flags):
        return cli.run(visualize.main, ["masking", "--input", str(hostile), "--output",
                                        str(tmp_path / output), *map(str, flags)])

    flags = ("--vocab", vocab, "--seq_length", LENGTH, "--seed", SEED, "--pairs", "swapped",
             "--masked_share", "0.6")
    assert run("a.json", *flags) == 0
    made = json.loads((tmp_path / "a.json").read_text())
    told = capsys.readouterr().out.splitlines()[-4:]
    chosen = {name: masked["fates"] for name, masked in made["maskings"].items()}
    assert told[0].startswith(f"sentence order prediction: {made['pair']['label']}, ")
    assert told[1] == (f"token: {len(chosen['token'])} of {len(made['ids'])} tokens chosen: "
                       + ", ".join(f"{chosen['token'].count(fate)} {word}" for fate, word in (
                           ("mask", "[MASK]"), ("random", "random"), ("kept", "kept"))))
    assert run("a.html", *flags) == 0
    page = (tmp_path / "a.html").read_text()
    assert "<script" not in page and "&lt; script &gt;" in page
    for fate in REPLACEMENTS:
        marked = sum(fates.count(fate) for fates in chosen.values())
        assert page.count(f'<td class="first {fate}"') == marked
        assert page.count(f'<td class="{fate}"') == marked
    assert all(chosen.values())
    save_model(str(tmp_path / "roberta"), "roberta")
    assert run("b.json", "--model", tmp_path / "roberta") == 2
    assert "other tokens around two segments than one separator after each; expected formats" in (
        capsys.readouterr().err)


@pytest.mark.parametrize(("name", "begin"), [
    ("roberta_tokens", "Ġ"), ("xlm_roberta_mlm", "▁"),
    pytest.param("modernbert_mlm", "Ġ", marks=pytest.mark.long)])
def test_tokenizers_of_other_kinds(shared, tmp_path, name, begin):
    """Whole words are those of the blanks; sentences begin with one."""
    lines = ["one film after another", "and words, many words"]
    (tmp_path / "text.txt").write_text("\n\n".join(["\n".join(lines)] * 3))
    assert cli.run(visualize.main, [
        "masking", "--input", str(tmp_path / "text.txt"), "--format", "full_sentences",
        "--model", str(shared / "reference" / "hub" / name), "--masked_share", "0.4",
        "--output", str(tmp_path / "a.json")]) == 0
    made = json.loads((tmp_path / "a.json").read_text())
    tokens, starts = made["tokens"], np.array(made["word_starts"])
    blank = np.array([token.startswith(begin) for token in tokens])
    assert starts[blank].all() and 0 < blank.sum() < starts.sum() < len(tokens)
    words = np.cumsum(starts)
    chosen = made["maskings"]["whole_word"]["positions"]
    assert chosen and set(np.flatnonzero(np.isin(words, words[chosen]))) == set(chosen)

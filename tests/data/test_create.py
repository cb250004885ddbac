"""create_data: the same bytes always, bad input, and readers other than ours."""

import json
import pathlib
import re
import signal

import numpy as np
import pytest
import tensorflow as tf
from folders import files_of

from bert_tf import cli, create_data
from bert_tf.data import records
from bert_tf.data.masking import Masking
from bert_tf.errors import BertTfError, UsageError
from bert_tf.randomness import stream_key
from bert_tf.storage import files


def test_bytes_do_not_depend_on_processes(make, small_chunks):
    one, manifest = make(holdout=0.2)
    two, _ = make(holdout=0.2, num_processes=2)
    assert len(manifest["splits"]["train"]["shards"]) > 3
    assert files_of(one) == files_of(two)


@pytest.mark.parametrize("format, pairs, label, share", [
    ("segment_pair", None, "next_sentence_labels", "random_next"),
    ("sentence_pair", "random", "next_sentence_labels", "random_next"),
    ("segment_pair", "swapped", "sentence_order_labels", "swapped"),
    ("sentence_pair", "next", None, None), ("full_sentences", None, None, None),
    ("doc_sentences", None, None, None), ("packed", None, None, None)])
def test_manifest_tells_the_truth(make, format, pairs, label, share):
    folder, made = make(format=format, pairs=pairs, holdout=0.2)
    assert made["pair_labels"] == label
    for split, facts in made["splits"].items():
        dataset = tf.data.TFRecordDataset([f"{folder}/{s['name']}" for s in facts["shards"]])
        examples = [tf.train.Example.FromString(record).features.feature
                    for record in dataset.as_numpy_iterator()]
        lengths = [len(e["input_word_ids"].int64_list.value) for e in examples]
        assert facts["num_examples"] == len(examples) > 0, split
        assert facts["num_tokens"] == sum(lengths)
        assert facts["mean_tokens"] == np.mean(lengths)
        features = {"input_word_ids", "input_type_ids", "word_starts"}
        assert set(examples[0]) == features | ({label} if label else set())
        if label:
            labels = [e[label].int64_list.value[0] for e in examples]
            assert facts[share] == np.mean(labels)
            assert abs(np.mean(labels) - 0.5) < 0.1
    assert sum(facts["num_documents"] for facts in made["splits"].values()) == 30


def test_training_holds_no_held_out_sentence(make):
    folder, made = make(holdout=0.2, format="segment_pair")
    tokens = {}
    for split, facts in made["splits"].items():
        dataset = tf.data.TFRecordDataset([f"{folder}/{s['name']}" for s in facts["shards"]])
        tokens[split] = {
            tuple(part) for record in dataset.as_numpy_iterator()
            for part in _windows(tf.train.Example.FromString(record)
                                 .features.feature["input_word_ids"].int64_list.value)}
    assert len(tokens["eval"]) > 100
    assert not tokens["train"] & tokens["eval"]


def _windows(ids, size=12):
    """Runs of pieces too long to be the same by chance."""
    return [window for start in range(len(ids) - size)
            if not {2, 3} & {*(window := ids[start:start + size])}]


@pytest.mark.parametrize("v2_names, options", [
    (True, {"pairs": "swapped", "max_ngram": 3}),
    *(pytest.param(v2_names, {}, marks=pytest.mark.long) for v2_names in (False, True))])
def test_static_records_feed_the_official_loader(make, v2_names, options):
    """Labels of swapped pairs too, under the name that google-research/albert knows."""
    from official.nlp.data import pretrain_dataloader

    folder, made = make(masking="static", dupe_factor=3, **options)
    config = pretrain_dataloader.BertPretrainDataConfig(
        input_path=f"{folder}/train-*.tfrecord", global_batch_size=4, is_training=False,
        seq_length=32, max_predictions_per_seq=6, use_v2_feature_names=v2_names,
        drop_remainder=False)
    batches = list(pretrain_dataloader.BertPretrainDataLoader(config).load())
    joined = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    assert len(joined["input_word_ids"]) == made["splits"]["train"]["num_examples"]
    assert joined["input_mask"].sum() == made["splits"]["train"]["num_tokens"]
    weights = joined["masked_lm_weights"] > 0
    budget = np.maximum(1, np.round(joined["input_mask"].sum(1) * 0.15))
    assert (weights.sum(1) <= np.minimum(6, budget)).all() and weights.sum(1).mean() > 3
    seen = np.take_along_axis(joined["input_word_ids"], joined["masked_lm_positions"], 1)
    assert (joined["masked_lm_ids"][weights] > 4).all() and (seen[weights] >= 4).all()
    assert set(joined["next_sentence_labels"].ravel()) == {0, 1}
    if options:
        assert joined["next_sentence_labels"].mean() == made["splits"]["train"]["swapped"]


@pytest.mark.parametrize("options", [{"whole_word": False}, {"max_ngram": 3},
                                     {"max_ngram": 2, "masked_share": 0.3, "pairs": "next"}])
def test_static_masks_are_the_dynamic_ones_under_their_key(make, options, vocab):
    static, dynamic = (make(masking=masking, dupe_factor=1, **options)
                       for masking in ("static", "dynamic"))
    facts = dynamic[1]["splits"]["train"]
    vocabulary, stated = dynamic[1]["vocabulary"], dynamic[1]["options"]
    columns = [records.parse(
        records.feature_table(made["options"]["masking"], None, 32, 6),
        tf.constant(records.Records(f"{folder}/{s['name']}" for s in facts["shards"]).read(
            np.arange(facts["num_examples"])))) for folder, made in (static, dynamic)]
    masking = Masking(vocab_size=vocabulary["size"], special_ids=vocabulary["special_ids"],
                      mask_id=vocabulary["mask_id"], masked_lm_prob=stated["masked_share"],
                      **{name: stated[name] for name in (
                          "whole_word", "max_ngram", "max_predictions_per_seq")})
    ids, starts = (columns[1][name] for name in ("input_word_ids", "word_starts"))
    masked = masking(stream_key(stated["seed"], "static masking train 0"), 0,
                     ids.to_tensor(vocabulary["pad_id"], shape=[None, 32]),
                     tf.cast(ids.row_lengths(), tf.int32), starts.to_tensor(shape=[None, 32]))
    assert masked["masked_lm_weights"].numpy().sum() > 100
    for name, value in masked.items():
        np.testing.assert_array_equal(value, columns[0][name], err_msg=name)


@pytest.mark.parametrize("change, message", [
    ({"seq_length": 7}, "max_seq_length=7; expected at least 8"),
    ({"short_seq_prob": 1.5}, "short_seq_prob=1.5"),
    ({"format": "segment_pairs"}, "try format='segment_pair'"),
    ({"pairs": "swap"}, "try pairs='swapped'"),
    ({"pairs": "next", "format": "full_sentences"}, "no second segment; try format='segment_pair'"),
    ({"masked_share": 0.0}, "masked_lm_prob=0.0; expected a fraction between 0 and 1"),
    ({"max_ngram": 0}, "max_ngram=0; expected a whole number of at least 1"),
])
def test_options_out_of_range(run, change, message):
    with pytest.raises(UsageError, match=message):
        run(**change)


def _run(*flags):
    """Exit code of `create_data` run in this process."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        return cli.run(create_data.main, [*flags, "--num_processes", "1"])
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("content, code, message", [
    ("", 1, "holds no text"),
    ("one\ntwo\nthree\n", 1, "the text is a single document"),
    ("one\n\ntwo\n\nthree\n", 1, "no pair has its own second sentence"),
    ("one\ntwo\n\n\x01\n\x02\n", 1, "fewer than two documents that hold words"),
])
def test_bad_text_is_one_line(tmp_path, vocab, capsys, content, code, message):
    path = tmp_path / "bad.txt"
    path.write_text(content)
    assert _run("--input", str(path), "--vocab", vocab,
                    "--output_dir", str(tmp_path / "data")) == code
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert len(error) == 1 and message in error[0]


def test_pairs_within_documents_need_no_other_document(tmp_path, vocab, capsys):
    path = tmp_path / "text.txt"
    path.write_text("one\ntwo\nthree\n")
    arguments = ["--input", str(path), "--vocab", vocab, "--output_dir", str(tmp_path / "data")]
    assert _run(*arguments, "--pairs", "swapped", "--masked_share", "0.25", "--max_ngram", "3",
                    "--seq_length", "64") == 0
    made = files.read_json(str(tmp_path / "data/manifest.json"))
    assert made["options"]["max_predictions_per_seq"] == 16
    path.write_text("one\n\ntwo\n\nthree\n")
    assert _run(*arguments, "--pairs", "swapped", "--overwrite") == 1
    assert "no document has two sentences with words" in capsys.readouterr().err
    assert _run(*arguments, "--pairs", "next", "--overwrite") == 0
    assert "train: 3 examples from 3 documents" in capsys.readouterr().out


def test_the_first_shard_may_be_empty(tmp_path, vocab):
    path = tmp_path / "text.txt"  # single sentences, in which there is no order, come first
    path.write_text("a single sentence of words\n\n" * 80_000 + "one\ntwo\n\nthree\nfour\n")
    assert _run("--input", str(path), "--vocab", vocab, "--output_dir", str(tmp_path / "data"),
                "--pairs", "swapped") == 0
    shards = files.read_json(str(tmp_path / "data/manifest.json"))["splits"]["train"]["shards"]
    assert shards[0]["num_examples"] == 0 and sum(each["num_examples"] for each in shards) == 2


def test_bad_vocabulary_and_casing(tmp_path, text, vocab, capsys):
    bad = tmp_path / "vocab.txt"
    bad.write_text("[PAD]\na\n")
    arguments = ["--input", text, "--output_dir", str(tmp_path / "data")]
    assert _run(*arguments, "--vocab", str(bad)) == 2
    assert "has no [UNK] [CLS] [SEP] [MASK]" in capsys.readouterr().err
    bad.write_text(pathlib.Path(vocab).read_text())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"lower_case": True, "strip_accents": False}))
    assert _run(*arguments, "--vocab", str(bad), "--no-lower_case") == 2
    assert "lower_case" in capsys.readouterr().err
    assert _run(*arguments, "--vocab", str(bad)) == 0
    assert files.read_json(str(tmp_path / "data/manifest.json"))["options"]["lower_case"]


@pytest.mark.parametrize("piece, flags, told", [
    ("b", [], True), ("B", [], False), ("b", ["--lower_case"], False)])
def test_a_vocabulary_without_capitals_is_told(tmp_path, text, vocab, capsys, piece, flags, told):
    own = tmp_path / "own.txt"
    own.write_text(pathlib.Path(vocab).read_text() + f"{piece}{piece}\n")
    assert _run("--input", text, "--output_dir", str(tmp_path / "data"), "--vocab", str(own),
                *flags) == 0
    assert (f"note: no piece of {own} has a capital letter" in capsys.readouterr().err) == told


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_text_that_the_vocabulary_does_not_know_is_told(tmp_path, vocab, capsys, masking):
    text, data = tmp_path / "text.txt", tmp_path / "data"
    flags = ["--input", str(text), "--output_dir", str(data), "--vocab", vocab,
             "--masking", masking, "--format", "doc_sentences", "--dupe_factor", "1", "--overwrite"]
    known = next(piece for piece in pathlib.Path(vocab).read_text().splitlines()
                 if piece.isalpha())
    text.write_text(f"{known} \u2603 {known} {known}\n\n" * 20)
    assert _run(*flags) == 0
    assert f"note: 25 % of the tokens are unknown to {vocab}\n" in capsys.readouterr().err
    text.write_text("\u2603 \u2604\n\n\u2603\n")
    assert _run(*flags) == 1
    assert f"every token is unknown: {vocab} has no piece" in capsys.readouterr().err
    assert not (data / "manifest.json").exists()


@pytest.mark.parametrize("between, held_out, told", [
    ("\n\n", 2, r"[45]\d%"),  # at least two are, and two are not
    ("\n", 0, "none")])
def test_how_much_is_held_out_of_few_documents(run, write_file, capsys, between, held_out, told):
    path = write_file("one.txt", between.join(
        "\n".join(f"The {word} fox {number}." for number in range(8))
        for word in ("quick", "brown", "lazy", "old")))
    made = run(input=path, holdout=0.05, progress=True, format="full_sentences", pairs=None)
    assert made["splits"]["eval"]["num_documents"] == held_out
    assert re.search(f"note: {told} of the text is held out, since it has few documents: a blank "
                     "line ends one", capsys.readouterr().err)


@pytest.mark.parametrize("words, flags, told", [
    (200, {"pairs": "random"}, "8[0-9]% of the tokens are in no example, .*; try --split sentences "
                               "or --format full_sentences"),
    (200, {"pairs": "swapped"}, "8[0-9]%"),
    (200, {"format": "full_sentences"}, None), (10, {"pairs": "random"}, None)])
def test_how_much_is_in_no_example(run, write_file, small_chunks, capsys, words, flags, told):
    path = write_file("lines.txt", f"{'a ' * words}\nb c\n{'d ' * words}\ne f\n\n" * 10)
    run(input=path, progress=True, **flags)
    err = capsys.readouterr().err
    assert re.search(f"note: {told}", err) if told else "in no example" not in err


@pytest.mark.parametrize("pairs", ["random", "swapped"])
def test_lines_alone_have_no_second_segment(run, tmp_path, pairs):
    with pytest.raises(UsageError, match="split='none' with format='segment_pair' and pairs='"
                                         f"{pairs}': a document.*try format='full_sentences'"):
        run(split="none", format="segment_pair", pairs=pairs)
    assert not list(tmp_path.iterdir())


def test_vocabulary_and_excluded_texts_are_not_trained_on(run, tmp_path, text, vocab, write_file):
    for name, source in (("a.txt", text), ("vocab.txt", vocab)):
        write_file(name, pathlib.Path(source).read_text())
    dev = write_file("dev.txt", "a b\n")
    pattern, own = str(tmp_path / "*.txt"), str(tmp_path / "vocab.txt")
    made = run(input=pattern, vocab=own, exclude=(dev,))
    assert made["inputs"] == [str(tmp_path / "a.txt"), own, dev]


@pytest.mark.parametrize("pairs, message", [
    ("random", "no pair has its own second sentence"), ("swapped", "no document has two sent")])
def test_a_text_without_pairs_is_told_early(run, write_file, small_chunks, capsys, pairs, message):
    path = write_file("lines.txt", "a few words of one sentence\n\n" * 200)
    with pytest.raises(BertTfError, match=message):
        run(input=path, pairs=pairs, progress=True)
    assert f"note: so far {message}" in (told := capsys.readouterr().err)
    assert "; try --overwrite with another --split" in told
    assert run(input=path, pairs=None, format="full_sentences", overwrite=True)


def test_the_records_are_the_same_whatever_the_dynamic_masks(make):
    shards = [{name: held for name, held in files_of(make(**options)[0]).items()
               if name != "manifest.json"} for options in (
        {}, {"whole_word": False, "max_ngram": 3, "masked_share": 0.3,
             "max_predictions_per_seq": 9})]
    assert shards[0] == shards[1] != {}

"""What a finished run tells beside its figures."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from bert_tf.pretrain.report import _fill_mask, figures, held_out_words, report
from bert_tf.pretrain.training import Training


def test_a_sentence_task_stands_beside_its_more_frequent_label():
    """Short examples of long sentences are mostly pairs of random segments."""
    metrics = {"next_sentence_accuracy": 0.822, "next_sentence_majority": 0.821,
               "next_sentence_accuracy_interval": [0.733, 0.886]}
    assert figures(metrics) == ["NSP accuracy 0.822, in 95 of 100 cases between 0.733 and 0.886; "
                                "the more frequent label alone gives 0.821"]


def test_a_language_model_has_a_perplexity():
    metrics = {"language_model_loss": 2.0, "language_model_accuracy": 0.5, "unigram_entropy": 4.0}
    assert figures(metrics) == ["LM loss 2.000 nats (perplexity 7.4), unigram entropy of the same "
                                "tokens 4.000, LM accuracy 0.500"]


@pytest.mark.parametrize(("texts", "shown"), [
    ({"texts": [[["fox", ""]]]}, "fox 0.75, Ġ 0.25"),
    ({}, "Ġfox 0.75, Ġ 0.25")])
def test_what_fills_a_mask_is_shown_as_it_is_written(texts, shown):
    """A finished run that is started again may have exported before there were `texts`."""
    outputs = {"tokens": [[["Ġfox", "Ġ"]]], "scores": [[[0.75, 0.25]]], **texts}
    (lines,) = _fill_mask(lambda text: {name: tf.constant(value) for name, value in
                                        outputs.items()}, [(["a", "cat", "."], 1)], "<mask>")
    assert lines == ("a <mask> .", f"-> {shown}   (was: cat)")


def test_a_run_whose_examples_were_deleted_shows_no_texts(tmp_path):
    """They are the largest part of a finished run."""
    run = Training(SimpleNamespace(output_dir=str(tmp_path)), None, SimpleNamespace(seed=1),
                   tf.distribute.get_strategy())
    run.tokenizer = lambda: SimpleNamespace(vocabulary=None)
    assert held_out_words(run) == []


@pytest.mark.parametrize(("pretokenize", "asked"), [
    ("morphemes", "saved --pretokenize=none -- 'A text .'"), (None, "saved -- 'A text .'")])
def test_words_that_are_split_already_are_asked_as_they_are(pretokenize, asked, tmp_path,
                                                            monkeypatch, capsys):
    """The analyser, asked again, puts further blanks into some of them."""
    monkeypatch.setattr(tf.saved_model, "load", lambda path: SimpleNamespace(signatures={}))
    monkeypatch.setattr("bert_tf.pretrain.report.export_notes", lambda path: [])
    run = SimpleNamespace(
        options=SimpleNamespace(export_dir="saved"), masked_lm=False, path=lambda *names: "run",
        data=lambda *names: str(tmp_path.joinpath(*names)), has_held_out=lambda: False,
        train_config=SimpleNamespace(seed=1), tokenizer=lambda: SimpleNamespace(
            vocabulary=SimpleNamespace(special_tokens=["[MASK]"]), pretokenize=pretokenize))
    report(run, {}, str(tmp_path))
    assert f"bert_tf.query {asked}" in capsys.readouterr().out

"""Checkpoints that the original projects fine-tuned: their heads, and what is left behind."""

import json

import numpy as np
import pytest
from harness import unsealed
from same import check_same
from test_google_tf1 import made, rewrite

import bert_tf
from bert_tf.converters import google_tf1
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS


def fine_tuned(folder, family, task, names):
    """The path of a checkpoint as fine-tuning wrote it, and the `Checkpoint` that it stands for."""
    checkpoint = made(family, task)
    path = str(folder / "google")
    google_tf1.write(checkpoint, path)
    rewrite(path, lambda tensors: {
        **tensors, "global_step": np.int64(7), **{
            f"{theirs}{slot}": checkpoint.tensors[ours]
            for ours, theirs in names.items() for slot in ("", "/adam_m", "/adam_v")}})
    return unsealed(path), checkpoint


@pytest.mark.parametrize("family, task, scope", [
    ("bert", {"task": "classifier", "labels": ["LABEL_0", "LABEL_1", "LABEL_2"]}, ""),
    ("albert", {"task": "classifier", "labels": ["LABEL_0"], "problem": "regression"}, ""),
    ("bert", {"task": "span"}, "cls/squad/")])
def test_heads_that_the_original_code_fine_tuned(family, task, scope, tmp_path):
    path, expected = fine_tuned(tmp_path, family, task, {
        f"cls/{task['task']}/{name}": scope + name for name in ("output_weights", "output_bias")})
    read = google_tf1.read(path)
    check_same(expected, read)
    assert all(name == "global_step" or "/adam_" in name for name in read.dropped)
    assert [note for note in read.notes if "output_weights" in note] == ([] if scope else [
        "output_weights is read as the head of run_classifier.py; no file names its labels: they "
        f"are {'LABEL_0 to LABEL_2' if family == 'bert' else 'LABEL_0'}, in its order"])


def test_heads_of_other_code_are_left_behind_with_a_note(tmp_path):
    path, _ = fine_tuned(tmp_path, "electra", {"task": "encoder"}, {
        "electra/embeddings/word_embeddings": "task_specific/mnli/dense/kernel"})
    read = google_tf1.read(path)
    check_same(made("electra", {"task": "encoder"}), read)
    assert "left behind as heads of other code: task_specific/mnli/dense/kernel" in read.notes


def test_no_file_says_whether_texts_are_pairs(tmp_path):
    """Saved again it was one of single texts, whose export refused `--pair`."""
    path, checkpoint = fine_tuned(tmp_path, "bert", {
        "task": "classifier", "labels": ["LABEL_0", "LABEL_1"]}, {
            f"cls/classifier/{name}": name for name in ("output_weights", "output_bias")})
    pieces = [*SPECIAL_TOKENS, *map(str, range(checkpoint.config.vocab_size - 5))]
    (tmp_path / "google" / "vocab.txt").write_text("\n".join(pieces) + "\n")
    bert_tf.from_pretrained(path).save_pretrained(str(tmp_path / "again"))
    assert json.loads((tmp_path / "again/task.json").read_text())["reading"]["pair"] is None

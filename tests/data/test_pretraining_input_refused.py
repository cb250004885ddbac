"""What the input stream refuses: numbers out of range, damaged files, records of others."""

import json

import numpy as np
import pytest

from bert_tf.data import records
from bert_tf.data.pretraining_input import PretrainingInput, explained_errors
from bert_tf.errors import BertTfError, UsageError


def test_what_does_not_fit_is_refused(dynamic, static, make):
    with pytest.raises(UsageError, match="batch_size=8 on 3 replicas.*batch_size=9"):
        PretrainingInput(dynamic[0], "train", batch_size=8, seed=1).dataset(num_replicas=3)
    with pytest.raises(UsageError, match="masks stored"):
        PretrainingInput(static[0], "train", batch_size=8, seed=1, max_predictions_per_seq=3)
    with pytest.raises(UsageError, match="objective='lm' with masks stored.*masking='dynamic'"):
        PretrainingInput(static[0], "train", batch_size=8, seed=1, objective="lm")
    with pytest.raises(UsageError, match="objective='rdt' is unknown.*try objective='rtd'"):
        PretrainingInput(dynamic[0], "train", batch_size=8, seed=1, objective="rdt")
    with pytest.raises(UsageError, match="final_masked_lm_prob without train_steps"):
        PretrainingInput(dynamic[0], "train", batch_size=8, seed=1, final_masked_lm_prob=0.1)
    with pytest.raises(BertTfError, match="no eval examples"):
        PretrainingInput(make()[0], "eval", batch_size=8, seed=1)
    spec = PretrainingInput(dynamic[0], "train", batch_size=8, seed=1,
                            max_predictions_per_seq=3).dataset().element_spec
    assert spec["masked_lm_ids"].shape == [8, 3]


@pytest.mark.parametrize(("given", "message"), [
    ({"batch_size": 0}, "batch_size=0; expected a whole number of at least 1"),
    ({"batch_size": 4.0}, "batch_size=4.0; expected int"),
    ({"seed": 2**31}, "seed=2147483648; expected a whole number of at least 0, below 2\\*\\*31"),
    ({"max_predictions_per_seq": -3}, "max_predictions_per_seq=-3; expected a whole number"),
    ({"eval_examples": -5}, "eval_examples=-5; expected a whole number of at least 1"),
    ({"final_masked_lm_prob": 7.0, "train_steps": 9}, "final_masked_lm_prob=7.0; expected a frac"),
    ({"final_masked_lm_prob": 0.3, "train_steps": 0}, "train_steps=0; expected a whole number"),
    ({"causal_fraction": 2.0}, "causal_fraction=2.0; expected a fraction in")])
def test_numbers_out_of_their_range_are_refused(dynamic, given, message):
    with pytest.raises(UsageError, match=message):
        PretrainingInput(dynamic[0], "train", **{"batch_size": 8, "seed": 1, **given})


def test_a_damaged_record_is_named(make):
    folder, _ = make()
    with open(f"{folder}/train-00000.tfrecord", "r+b") as stream:
        stream.seek(40)
        stream.write(b"!!!")
    data = PretrainingInput(folder, "train", batch_size=8, seed=1)
    message = r"train-00000\.tfrecord record 0 is damaged; try [^\n]*$"
    with pytest.raises(BertTfError, match=message), explained_errors():
        list(data.dataset(num_steps=data.num_examples // 8 + 1))


@pytest.mark.parametrize("change", [
    lambda made: made.clear(), lambda made: made.update(options=7),
    lambda made: made["options"].update(seq_length="32"),
    lambda made: made["vocabulary"].pop("mask_id"), lambda made: made.pop("pair_labels"),
    lambda made: made["splits"].update(train=[]),
    lambda made: made["splits"]["train"].update(shards=["train-00000.tfrecord"]),
    lambda made: made["splits"]["train"].update(shards=[{"name": 1}])])
def test_a_damaged_manifest_is_named(make, change):
    folder, made = make()
    change(made)
    with open(f"{folder}/manifest.json", "w", encoding="utf-8") as stream:
        json.dump(made, stream)
    told = "manifest.json is (damaged: .*; try making|no manifest; try)"
    with pytest.raises(BertTfError, match=told):
        PretrainingInput(folder, "train", batch_size=8, seed=1)


def test_shards_from_elsewhere_are_refused(make, tmp_path):
    folder, made = make()
    made["splits"]["train"]["shards"][0]["name"] = "../train-00000.tfrecord"
    with open(f"{folder}/manifest.json", "w", encoding="utf-8") as stream:
        json.dump(made, stream)
    with pytest.raises(BertTfError, match="points outside its folder"):
        PretrainingInput(folder, "train", batch_size=8, seed=1)


def test_a_sound_record_that_is_no_example(make):
    folder, made = make()
    path = f"{folder}/{made['splits']['train']['shards'][0]['name']}"
    count = len(records.read_index(path)["num_tokens"])
    row = np.frombuffer(b"\x0a\xffno example", np.uint8)
    rows = np.tile(row, count), np.full(count, len(row))
    records.write_shard(path, [records.frame(rows)], np.ones(count), [])
    data = PretrainingInput(folder, "train", batch_size=8, seed=1)
    with pytest.raises(BertTfError, match="not a tf.train.Example"), explained_errors():
        list(data.dataset(num_steps=1))

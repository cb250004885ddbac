"""What a run remembers of its training texts."""

import io

import numpy as np

from bert_tf.finetune.trained_on import TRAINED_ON, trained_on_notes, write_trained_on
from bert_tf.tasks.base.query_examples import QueryExample


def test_queries_are_known_again_whatever_was_mined(tmp_path):
    mined = [QueryExample(str(number), f"q{number}", ("p",), (f"n{number}",))
             for number in range(4)]
    write_trained_on(str(tmp_path), mined)
    given = [QueryExample(str(number), f"q{number}", ("p", "r")) for number in range(2, 6)]
    note, = trained_on_notes(str(tmp_path), given)
    assert "learned from 2 of these 4 examples" in note
    assert trained_on_notes(str(tmp_path), given[2:]) == []


def test_digests_of_another_kind_are_of_no_example(tmp_path):
    stream = io.BytesIO()
    np.save(stream, np.arange(5, dtype=np.uint64))
    (tmp_path / TRAINED_ON).write_bytes(stream.getvalue())
    assert trained_on_notes(str(tmp_path), [QueryExample("0", "q", ("p", "r"))]) == []

"""Lines of rankings as trec_eval reads them."""

import numpy as np

from bert_tf.retrieval.run_file import run_lines


def test_passages_are_in_order_by_their_scores_too():
    near = np.nextafter(np.float32(0.8), np.float32([0, 1]))
    scores = np.array([[near[1], 0.8, near[0], 0]], np.float32)
    lines = list(run_lines("by 2", ["a b"], ["x", "y", "z\u3000"], scores,
                           np.array([[2, 0, 1, -1]])))
    assert [line.split()[:4] for line in lines] == [
        ["a%20b", "Q0", "z%3000", "1"], ["a%20b", "Q0", "x", "2"], ["a%20b", "Q0", "y", "3"]]
    written = [np.float32(line.split()[4]) for line in lines]
    assert written == scores[0, :3].tolist() and len(set(written)) == 3

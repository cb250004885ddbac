"""What signatures compare."""

import numpy as np

from bert_tf.tasks.base.signature import clear_ranks


def test_near_ties_may_change_places():
    scores = np.array([[[0.5, 0.3, 0.3, 0.1]]])
    assert clear_ranks(scores, 1e-4).tolist() == [[[True, False, False, False]]]
    assert clear_ranks(scores[..., :1], 1e-4).tolist() == [[[False]]]

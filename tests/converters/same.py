"""What converting must not change: tensors to the byte, and what is computed from them."""

import numpy as np


def check_same(one, other):
    """Compare two `Checkpoint`s."""
    assert (one.config, one.task) == (other.config, other.task)
    assert dict(one.tensors.shapes) == dict(other.tensors.shapes)
    for name in one.tensors:
        assert one.tensors[name].tobytes() == other.tensors[name].tobytes(), name


def near(ours, theirs):
    """Compare outputs; seen: errors of 1e-5."""
    np.testing.assert_allclose(ours, theirs, atol=5e-5, rtol=0)

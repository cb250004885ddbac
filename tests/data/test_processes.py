"""Work divided among processes: what they raise."""

import pytest

from bert_tf.data.processes import in_order


@pytest.mark.parametrize("num_processes", [1, 2])
def test_what_a_process_raises_at_its_start_is_raised(num_processes):
    with pytest.raises(ValueError, match="base 10: 'x'"):
        list(in_order([(-4,)], abs, int, ("x",), num_processes, "worked"))

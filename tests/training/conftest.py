"""The tiny model of `tiny_run` in a temporary folder."""

import pytest
from tiny_run import Tiny


@pytest.fixture
def tiny(tmp_path):
    return Tiny(tmp_path)

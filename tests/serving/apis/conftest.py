"""One server of fake models for the tests of a file."""

import pytest
from fake_backend import EMBEDDER, MOODS, PAIRS, RANKER, TERMS, FakeBackend, serving


@pytest.fixture(scope="module")
def served():
    """`(httpx.Client, FakeBackend)`."""
    backend = FakeBackend(EMBEDDER, RANKER, MOODS, PAIRS, TERMS)
    with serving(backend, max_tokens=200) as client:
        yield client, backend
    backend.close()


@pytest.fixture
def backend(served):
    """`FakeBackend` that was asked nothing yet."""
    backend = served[1]
    backend.asked.clear()
    backend.counted.clear()
    yield backend
    backend.problem = None


@pytest.fixture
def post(served, backend):
    """`post(path, **fields)` gives a status and what the body holds."""
    def post(path, **fields):
        response = served[0].post(path, json=fields)
        return response.status_code, response.json()

    return post

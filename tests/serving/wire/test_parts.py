"""What a model is asked at a time of a large request."""

import numpy as np

from bert_tf.serving.wire import parts


def test_parts_hold_few_of_long_texts(monkeypatch):
    """Tokenizing takes many times their bytes: the query of a rerank is there in every row."""
    monkeypatch.setattr(parts, "_BYTES", 100)

    def sizes(query, **more):
        inputs = {"query": np.array([query] * 5, object), "passage": ["a"] * 5, **more}
        cut = parts.cut(inputs, 3)
        for name, values in inputs.items():
            assert [row for part in cut for row in list(part[name])] == list(values)
        return [len(part["query"]) for part in cut]

    assert sizes(b"q" * 49) == [2, 2, 1] and sizes(b"q" * 200) == [1] * 5
    assert sizes(b"q", title=["나" * 16] * 5) == [2, 2, 1]  # bytes count, not characters
    assert sizes(b"q", number=np.arange(5)) == [3, 2]
    # A long text is no reason to ask for the short ones one by one.
    assert sizes(b"q", title=["", "t" * 99, "", "", ""]) == [1, 1, 3]
    assert len(parts.cut({"text": []})) == 1

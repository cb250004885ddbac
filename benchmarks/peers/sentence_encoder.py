"""sentence-transformers as a side of the benchmarks of speed, see `speed/worker.py`."""

import sentence_transformers
import torch

PACKAGES = ("sentence-transformers", "transformers", "torch")


def embedder(model, dtype):
    """Its own `encode`, which sorts the texts by length."""
    loaded = sentence_transformers.SentenceTransformer(
        model, device="cpu", model_kwargs={"dtype": getattr(torch, dtype)})

    def embed(texts, batch_size):
        vectors = loaded.encode(texts, batch_size=batch_size, show_progress_bar=False,
                                convert_to_tensor=True)
        return vectors.float().numpy()

    return embed

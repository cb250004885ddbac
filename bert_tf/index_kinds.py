"""The kinds of indexes: what is stored of a model's answers, and what queries become."""

from bert_tf.errors import UsageError, explain
from bert_tf.retrieval import multi_vector_index, sparse_index, vector_index
from bert_tf.retrieval.stored_index import kind_of, read_manifest
from bert_tf.retrieval.token_vectors import TokenVectors


class Vectors:
    """Of models that give a vector for each text.

    Attributes:
        retriever: what reads such a model, of the module `embedder`, which is imported where it is
            needed: an index is searched by vectors without TensorFlow.
        index: the `StoredIndex`.
        shard_size: passages of a shard, where nobody says how many.
        allowed: values of options that have no others here.
    """

    retriever, index = "Embedder", vector_index.VectorIndex
    shard_size = 16384
    allowed = {}

    @staticmethod
    def stored(config):
        """Return the `Stored` of an `IndexConfig`."""
        from bert_tf.embedder import Embedder

        embedder = Embedder(config.model, config.dtype)
        return vector_index.StoredVectors(
            config.to_dict(), lambda passages: embedder.vectors(_contents(passages)))

    @staticmethod
    def of_queries(model, dtype):
        """Return a function from a list of str to what the index is searched by."""
        from bert_tf.embedder import Embedder

        embedder = Embedder(model, dtype)
        return lambda texts: embedder.vectors(texts, "query")


class TermWeights:
    """Of models that give weights of tokens; as `Vectors`."""

    retriever, index = "TermWeigher", sparse_index.SparseIndex
    shard_size = 16384
    allowed = {"dimensions": (None,), "approximate": (None, False), "dtype": (None,),
               "precision": ("float32",)}

    @staticmethod
    def stored(config):
        """See `Vectors`."""
        from bert_tf.embedder import TermWeigher

        weigher = TermWeigher(config.model)
        return sparse_index.StoredWeights(
            lambda passages: _joined(weigher.weights(_contents(passages))))

    @staticmethod
    def of_queries(model, dtype):
        """See `Vectors`."""
        from bert_tf.embedder import TermWeigher

        weigher = TermWeigher(model)
        return lambda texts: _joined(weigher.weights(texts, "query"))


class MultiVectors:
    """Of models that give a vector for each token; as `Vectors`."""

    retriever, index = "TokenEmbedder", multi_vector_index.MultiVectorIndex
    shard_size = 1024  # of which each takes some hundred vectors
    allowed = {**TermWeights.allowed, "precision": multi_vector_index.PRECISIONS}

    @staticmethod
    def stored(config):
        """See `Vectors`."""
        from bert_tf.embedder import TokenEmbedder

        embedder = TokenEmbedder(config.model)
        return multi_vector_index.StoredTokenVectors(config.precision, lambda passages: (
            TokenVectors.joined(embedder.vectors(_contents(passages)))))

    @staticmethod
    def of_queries(model, dtype):
        """See `Vectors`."""
        from bert_tf.embedder import TokenEmbedder

        embedder = TokenEmbedder(model)
        return lambda texts: TokenVectors.joined(embedder.vectors(texts, "query"))


KINDS = (Vectors, TermWeights, MultiVectors)


def kind_of_model(config):
    """Return which of `KINDS` an `IndexConfig` asks for.

    Raises:
        UsageError: it has options that such an index has not.
    """
    from bert_tf.embedder import retriever_of

    retriever = retriever_of(config.model)
    (kind,) = (each for each in KINDS if each.retriever == retriever.__name__)
    for name, values in kind.allowed.items():
        value = getattr(config, name)
        if value not in values:
            expected = " or ".join(map(str, values)) if name == "precision" else ""
            raise UsageError(explain(
                f"--{name} {value} of {config.model}, which gives {retriever.gives}", expected,
                f"leaving --{name} out"))
    return kind


def kind_of_index(folder):
    """Return which of `KINDS` the index in a folder is.

    Raises:
        UsageError: there is none, or one of a later version.
    """
    name = kind_of(read_manifest(folder))
    for kind in KINDS:
        if kind.index.kind == name:
            return kind
    raise UsageError(explain(f"{folder}, an index of the kind {name!r}",
                             f"one of {', '.join(kind.index.kind for kind in KINDS)}"))


def _contents(passages):
    return [passage.content for passage in passages]


def _joined(parts):
    return [each for part in parts for each in part]

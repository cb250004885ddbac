"""Systems that find or rank passages: vectors of a model, BM25, their fusion, a reranker."""

import os

import numpy as np
import tqdm

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.load import from_pretrained
from bert_tf.models.find import SERVED, find_model
from bert_tf.retrieval.search import search
from bert_tf.storage import checksums, files
from bert_tf.tasks.base.task_type import batches_by_length
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tokenization.morphemes import analyse
from bert_tf.tokenization.tokenizer import CONFIG_NAME as TOKENIZER_CONFIG

_AT_ONCE = 1024  # texts or pairs between which progress is shown
_BATCH_CHARACTERS = 1 << 14  # of the texts that a SavedModel is asked about together
_LENGTH = 512  # tokens that a model reads which does not say how many


class Embedder:
    """Vectors of a model folder, of a checkpoint of others or of a SavedModel.

    Args:
        path: its place.

    Raises:
        UsageError: it gives no vector for a text.
    """

    def __init__(self, path):
        self.path = path
        self._served = find_model(path).kind in SERVED
        self._model = _Served(path, "embed") if self._served else _loaded(path, "embedder")

    def find(self, queries, passages, depth):
        """Return `(scores, rows)` of the nearest passages, see `search`.

        Args:
            queries, passages: lists of str.
            depth: passages of a query.
        """
        return search(self._vectors(queries, ("query",)),
                      self._vectors(passages, ("passage", "document")), depth)

    def _vectors(self, texts, prompts):
        """Return float32 `[n, W]`; a model's prompt of one of these names comes before each
        text."""
        if self._served:
            found = self._model(texts)
        else:
            prompt = next((name for name in prompts if name in self._model.prompts), None)
            found = [part for texts in _parts(texts, "vectors")
                     for part in self._model.embed(texts, prompt=prompt)]
        vectors = np.stack(found)
        if vectors.ndim != 2:
            raise UsageError(explain(f"{self.path} gives a vector for each token",
                                     "one that pools them"))
        if not np.isfinite(vectors).all():
            raise BertTfError(explain(f"{self.path} gives vectors that are not finite",
                                      "a model that was trained without overflow"))
        return vectors


class Reranker:
    """Scores of pairs by a model folder, a checkpoint of others or a SavedModel.

    Args:
        path: its place.

    Raises:
        UsageError: it gives no number for a pair of texts.
    """

    def __init__(self, path):
        if find_model(path).kind in SERVED:
            model = _Served(path, "rank")
            self._scores = lambda queries, passages: np.array(model(queries, passages))
            return
        model = _loaded(path)
        if not hasattr(model, "scores") or getattr(model, "problem", "regression") != "regression":
            raise UsageError(explain(f"--reranker {path}, which gives no number to rank by",
                                     "a cross-encoder", "bert_tf.finetune --task rank first"))
        self._scores = model.scores

    def rerank(self, queries, passages, rows, depth):
        """Return `(scores, rows)` of the first `depth` of `rows`, ranked anew.

        Args:
            queries, passages: lists of str.
            rows: int64 `[queries, n]`, what another system found, best first; -1 for none.
            depth: passages of a query that are read.

        Returns: float32 and int64 `[queries, n]`, highest first; of equal scores the order is
            kept. Passages after the first `depth` follow in their order, with scores below those.
        """
        scores = np.full(rows.shape, -np.inf, np.float32)
        pairs = np.argwhere(rows[:, :depth] >= 0)
        for part in _parts(pairs, "reranking"):
            scores[tuple(part.T)] = self._scores(
                [queries[query] for query, _ in part],
                [passages[rows[query, rank]] for query, rank in part])
        if not np.isfinite(scores[tuple(pairs.T)]).all():
            raise BertTfError("the reranker gives scores that are not finite")
        order = np.argsort(-scores, axis=1, kind="stable")
        scores, rows = (np.take_along_axis(values, order, 1) for values in (scores, rows))
        # Those that were not read come after, one by one.
        lowest = np.min(scores, axis=1, where=np.isfinite(scores), initial=0, keepdims=True)
        after = np.cumsum(~np.isfinite(scores), axis=1)
        return np.where(np.isfinite(scores), scores, lowest - after).astype(np.float32), rows


class _Served:
    """A signature of a SavedModel, called with lists of texts: a list of its one output's rows."""

    def __init__(self, path, name):
        import tensorflow as tf

        version = checksums.opened(path)
        self._tf, self._loaded = tf, tf.saved_model.load(version)
        if name not in self._loaded.signatures:
            raise UsageError(explain(f"{path} has no signature {name}", attempt="another model"))
        self._call = self._loaded.signatures[name]
        self._inputs = ("text",) if name == "embed" else ("query", "passage")
        config = os.path.join(version, "assets.extra", TOKENIZER_CONFIG)
        self._pretokenize = files.exists(config) and (
            files.read_json_object(config).get("pretokenize"))

    def __call__(self, *columns):
        if self._pretokenize:
            columns = [analyse(column, progress=True) for column in columns]
        found = [None] * len(columns[0])
        sizes = np.array([sum(map(len, texts)) for texts in zip(*columns, strict=True)])
        for rows in batches_by_length(sizes, _BATCH_CHARACTERS):
            texts = {name: self._tf.constant([column[row] for row in rows])
                     for name, column in zip(self._inputs, columns, strict=True)}
            [output] = self._call(**texts).values()
            for row, value in zip(rows, output.numpy(), strict=True):
                found[row] = value
        return found


def _loaded(path, task=None):
    """Return the Keras model; one that does not say how much of a text it reads reads all it
    can."""
    model = from_pretrained(path)
    if task is not None and model.saved_as != task:
        if hasattr(model, "problem"):
            raise UsageError(explain(
                f"--model {path}, which predicts a label or a number", "a model that gives vectors",
                f"--reranker {path}"))
        model = from_pretrained(path, task)
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None:
        raise UsageError(explain(f"{path} takes no text", "a model with a tokenizer"))
    if type(preprocessor) is TextPreprocessor and not _says_length(path):
        preprocessor.resize(min(_LENGTH, model.config.longest))
    model.encoder.backbone.padding_free = True  # texts of any lengths
    return model


def _says_length(path):
    """Return whether a model was saved with how it reads text."""
    found = find_model(path)
    task = os.path.join(found.folder, "task.json")
    return found.kind == "sentence_transformers" or (
        files.exists(task) and "reading" in files.read_json_object(task))


def _parts(values, what):
    """Yield `values` in parts, with a progress bar where it takes long."""
    with tqdm.tqdm(desc=what, total=len(values), delay=2, leave=False) as bar:
        for start in range(0, len(values), _AT_ONCE):
            part = values[start:start + _AT_ONCE]
            yield part
            bar.update(len(part))

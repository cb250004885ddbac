"""Vectors of texts by a model at a path: ours, of other formats, or a SavedModel."""

import os

import numpy as np
import tqdm

from bert_tf.errors import NoTextError, UsageError, explain
from bert_tf.load import from_pretrained
from bert_tf.models.find import (
    MODULES,
    ROUTES,
    SERVED,
    SPLADE_POOLING,
    find_model,
    gives_token_vectors,
)
from bert_tf.models.pretrained import TASK, takes_no_text
from bert_tf.predictor import Predictor
from bert_tf.retrieval.codes import VectorCode
from bert_tf.retrieval.prompts import ROLES, prompted
from bert_tf.retrieval.token_vectors import TokenVectors
from bert_tf.shapes import check_finite, check_weights
from bert_tf.storage import files
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder

_AT_ONCE = 1024  # texts or pairs between which progress is shown
_LENGTH = 512  # tokens that a model reads which does not say how many
_OF_QUERIES = "sparse_queries"  # a signature of models that weigh them by a table


class Embedder:
    """Vectors of a model folder, of a checkpoint of others or of a SavedModel.

    Args:
        path: its place.
        dtype: what it computes in, such as `bfloat16`; None for float32, of a SavedModel as
            exported.

    Raises:
        UsageError: it gives no vector for a text.
    """

    def __init__(self, path, dtype=None):
        self.path = path
        other = retriever_of(path)
        if other is not Embedder:
            raise UsageError(explain(f"{path}, which gives {other.gives}",
                                     "a model that gives a vector for each text",
                                     f"evaluate --task retrieval --model {path}"))
        self._served = find_model(path).kind in SERVED
        if self._served:
            self._model = Predictor(path, "embed", dtype)
            if self._model.vector is None:
                raise UsageError(explain(f"{path} gives a vector for each token",
                                         "one that pools them"))
            if self._model.described.get("problem"):
                raise UsageError(predicts(path))
            self._code = VectorCode.from_options(self._model.described.get("embedding", {}))
        else:
            self._model = loaded(path, "embedder", dtype)

    def vectors(self, texts, role="passage"):
        """Return float32 `[n, W]`.

        Args:
            texts: list of str.
            role: `query` or `passage`: a model's prompt of such a name comes before each text.

        Raises:
            BertTfError: a vector is not finite.
        """
        texts = _with_prompts(self._model, role, texts)
        if self._served:
            found = self._code.decode(self._model(texts, progress=True)[self._model.vector]
                                      ) if texts else []
        else:
            found = [vector for part in parts(texts, "vectors")
                     for vector in self._model.embed(part)]
        vectors = np.stack(found) if len(found) else np.zeros((0, 0), np.float32)
        check_finite(vectors, f"{self.path} gives vectors")
        return vectors


class TermWeigher:
    """Weights of tokens by a `SparseEmbedder` at a path, or by its SavedModel.

    Args:
        path: its place.
    """

    gives = "weights of tokens"

    def __init__(self, path):
        self.path, self._served = path, find_model(path).kind in SERVED
        self._model = Predictor(path, "sparse") if self._served else loaded(path)
        by_table = self._served and _OF_QUERIES in self._model.described["results"]
        self._of_queries = Predictor(path, _OF_QUERIES) if by_table else self._model

    def weights(self, texts, role="passage"):
        """Yield lists of dicts of float by token, of some texts after the other.

        Args:
            texts: list of str.
            role: see `Embedder.vectors`.

        Raises:
            BertTfError: a weight is not finite.
        """
        for part in parts(_with_prompts(self._model, role, texts), "weights"):
            found = (self._of_queries if role == "query" else self._model)(part)["terms"] if (
                self._served) else self._model.sparse(part, queries=role == "query")
            for weights in found:
                check_finite(list(weights.values()), f"{self.path} gives weights")
            yield found


class TokenEmbedder:
    """Vectors of tokens by a `MultiVectorEmbedder` at a path, or by its SavedModel.

    Args:
        path: its place.
    """

    gives = "a vector for each token"

    def __init__(self, path):
        self.path = path
        if find_model(path).kind in SERVED:
            served = {role: Predictor(path, f"{role}_vectors") for role in ROLES}
            self._vectors = lambda texts, role: served[role](texts)["vectors"]
        else:
            self._vectors = loaded(path).vectors

    def vectors(self, texts, role="passage"):
        """Yield `TokenVectors` of some texts after the others.

        Args:
            texts: list of str.
            role: `query` or `passage`: as what they are read.

        Raises:
            BertTfError: a vector is not finite.
        """
        for part in parts(texts, "vectors"):
            found = TokenVectors.of(self._vectors(part, role))
            check_finite(found.values, f"{self.path} gives vectors")
            yield found


def _with_prompts(model, role, texts):
    """Return texts after the prompt that a Keras model or a `Predictor` has for their role."""
    prompts = (model.described.get("prompts") or {} if isinstance(model, Predictor)
               else model.prompts)
    return [prompted(prompts, role, text) for text in texts]


def retriever_of(path):
    """Return what finds by the model at a path, judged by its files: the class `TermWeigher` or
    `TokenEmbedder`, else `Embedder`."""
    found = find_model(path)
    task = os.path.join(found.folder, TASK)
    if files.exists(task):
        return {SparseEmbedder.saved_as: TermWeigher, MultiVectorEmbedder.saved_as: TokenEmbedder
                }.get(files.read_json_object(task).get("task"), Embedder)
    if found.kind != "sentence_transformers":
        return TokenEmbedder if gives_token_vectors(found.folder) else Embedder
    places = (os.path.join(found.folder, name) for name in (MODULES, ROUTES))
    modules = "".join(files.read_text(path) for path in places if files.exists(path))
    if SPLADE_POOLING in modules:
        return TermWeigher
    # PyLate's have no module that pools, either.
    return Embedder if any(kind in modules for kind in ("Pooling", "StaticEmbedding")) else (
        TokenEmbedder)


def loaded(path, task=None, dtype=None):
    """Return the Keras model; one that does not say how much of a text it reads reads all it
    can."""
    options = {} if dtype is None else {"dtype": dtype}
    model, says_length = from_pretrained(path, **options), _says_length(path)
    if task is not None and model.saved_as != task:
        if hasattr(model, "problem"):
            raise UsageError(predicts(path))
        model, says_length = from_pretrained(path, task, **options), False
    check_weights(model, path)
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None:
        raise NoTextError(takes_no_text(path, model.text_read_otherwise))
    if type(preprocessor) is TextPreprocessor and not says_length:
        preprocessor.resize(min(_LENGTH, model.config.longest))
    model.encoder.backbone.padding_free = True  # texts of any lengths
    return model


def predicts(path):
    """Return what is wrong with a classifier or reranker in an embedder's place."""
    return explain(f"{path}, which predicts a label or a number", "a model that gives vectors",
                   f"evaluate --reranker {path}")


def _says_length(path):
    """Return whether a model was saved with how it reads text."""
    found = find_model(path)
    task = os.path.join(found.folder, TASK)
    return found.kind in ("hf", "sentence_transformers") or (
        files.exists(task) and "reading" in files.read_json_object(task))


def parts(values, what):
    """Yield `values` in parts, with a progress bar where it takes long."""
    with tqdm.tqdm(desc=what, total=len(values), delay=2, leave=False) as bar:
        for start in range(0, len(values), _AT_ONCE):
            part = values[start:start + _AT_ONCE]
            yield part
            bar.update(len(part))

"""What the protocols need of whoever runs the models, and what they know of a model."""

import dataclasses
import functools
from typing import Protocol

from bert_tf.retrieval.codes import VectorCode

EMBEDS, RANKS, CLASSIFIES, WEIGHS = "embedding", "reranker", "classifier", "sparse"
QUERY_VECTORS = "query_vectors"  # the signature of late interaction
_SPECIAL = (("text_tokens", 2), ("pair_tokens", 3))  # around a text and a pair, if not stated


class Backend(Protocol):
    """Runs models. All methods raise `ServingError`."""

    def names(self):
        """Sorted names of the models."""

    async def about(self, name, deadline):
        """The `About` of a model; NOT_FOUND where it is not there. `deadline` as of `run`."""

    async def run(self, about, signatures, inputs, deadline):
        """Ask signatures that take the same inputs.

        Args:
            about: `About` of the model.
            signatures: a tuple of names.
            inputs: `{name: list of str, or int array [B, S]}`; texts as the model reads them.
            deadline: a value of `time.monotonic()`, or None.

        Returns: `{output: array}` of all of them with the batch as the first axis; outputs of text
            may be left out.

        Raises:
            OutdatedError: another version answered than the one that `about` is of.
        """

    async def decode(self, function, data, *arguments, deadline=None):
        """`function(data, *arguments, limits)`, of large data in another process."""

    def count(self, name, api, status, seconds):
        """Count a request, as of `Metrics.request`."""

    async def is_ready(self, name=None):
        """Whether a model, without a name any, can be asked."""


class OutdatedError(Exception):
    """An `About` is of a version whose place another one has taken."""


@dataclasses.dataclass(frozen=True)
class About:
    """What is known of a model.

    Attributes:
        name: of the model.
        version: its number.
        signatures: `{name: names of the inputs}`.
        description: what its signature `describe` says; {} where it has none.
    """

    name: str
    version: int
    signatures: dict
    description: dict

    def answers(self, signature, *inputs):
        """Whether there is a signature with these inputs."""
        return set(self.signatures.get(signature, ())) == set(inputs)

    @functools.cached_property
    def tasks(self):
        """What it can do, of the four; what it is for comes first."""
        found = []
        if self.answers("rank", "query", "passage"):
            found.append(RANKS)
        if self.answers("predict", *self.texts) and (self.labels or self.is_regression):
            found.append(CLASSIFIES)
        if self.answers("sparse", "text"):
            found.append(WEIGHS)
        if self.answers("embed", "text") and self._embedding.get("pooling") != "none":
            found.append(EMBEDS)
        return tuple(found)

    @property
    def texts(self):
        """The inputs of `predict`."""
        return ("text_a", "text_b") if self.description.get("pair") else ("text",)

    @property
    def labels(self):
        return self.description.get("labels") or []

    @property
    def is_regression(self):
        return self.description.get("problem") == "regression"

    def window(self, task):
        """Tokens of a text at most that are read for a task, or None: not known, or longer ones are
        read in windows, which is done only for what the model was trained for."""
        in_windows = self.description.get("long") == "windows" and self.tasks[:1] == (task,)
        return None if in_windows else self.description.get("seq_length")

    @property
    def reads_apart(self):
        """Whether `rank` reads query and passage each for itself: late interaction."""
        return self.answers(QUERY_VECTORS, "text")

    @property
    def roles(self):
        """How it reads them then, as of `RoleReader.described`, by name; {} where not stated."""
        return self.description.get("roles") or {}

    def special(self, texts):
        """Tokens that stand around one text, or around and between two."""
        name, usual = _SPECIAL[texts - 1]
        stated = self.description.get(name)
        return usual if stated is None else stated

    @property
    def prompts(self):
        return self.description.get("prompts") or {}

    @property
    def pooling(self):
        return self._embedding.get("pooling") or "mean"

    @functools.cached_property
    def code(self):
        """The `VectorCode` of its vectors."""
        return VectorCode.from_options(self._embedding)

    @property
    def _embedding(self):
        return self.description.get("embedding") or {}

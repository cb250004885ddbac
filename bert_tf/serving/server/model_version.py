"""A configured model, its versions, and the state each of them is in."""

import asyncio
import contextlib
import dataclasses


@dataclasses.dataclass(frozen=True)
class VersionStatus:
    """What is known of a version.

    Attributes:
        version: its number.
        state: `START`, `LOADING`, `AVAILABLE`, `UNLOADING` or `END`.
        error_code: name of a gRPC code, `OK` if there is no error.
        error_message: why it could not be loaded.
    """

    version: int
    state: str
    error_code: str = "OK"
    error_message: str = ""


class Version:
    """A version of a model: its state, and once it is available what it can do.

    Attributes:
        number: of the version.
        path: of its folder.
        state: as of `VersionStatus`.
        problem: the `ServingError` that ended it, or None.
        aspired: whether it is to be loaded, or to stay so.
        loaded: `LoadedVersion`, or None.
        batching: `Batching`, or None.
    """

    def __init__(self, number, path):
        self.number = number
        self.path = path
        self.state = "START"
        self.problem = None
        self.aspired = True
        self.loaded = None
        self.batching = None
        self._users = 0
        self._unused = None

    def status(self):
        if self.problem is None:
            return VersionStatus(self.number, self.state)
        return VersionStatus(self.number, self.state, self.problem.code, self.problem.message)

    @contextlib.contextmanager
    def used(self):
        """Keep the version in memory for the length of a request."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users and self._unused is not None:
                self._unused.set()

    async def unused(self):
        """Wait until no request uses the version any more; none may begin to."""
        if self._users:
            self._unused = asyncio.Event()
            await self._unused.wait()


class Model:
    """A configured model: its `ModelConfig` and its versions."""

    def __init__(self, model_config):
        self.config = model_config
        self.versions = {}  # number: Version

    def latest(self):
        """The available version with the highest number, or None."""
        available = [number for number, version in self.versions.items()
                     if version.state == "AVAILABLE"]
        return self.versions[max(available)] if available else None

"""The models that there are: which version answers a request, and the state each one is in."""

import asyncio
import contextlib

from bert_tf.serving.wire.messages import error


class Version:
    """A version of a model: its state, and once it is available what it can do.

    Attributes:
        number: of the version.
        path: of its folder.
        state: `START`, `LOADING`, `AVAILABLE`, `UNLOADING` or `END`.
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
        """What ended it, as a `StatusProto` has it: dict of `error_code` and `error_message`."""
        return {"error_code": self.problem.code if self.problem else "OK",
                "error_message": self.problem.message if self.problem else ""}

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


class Models:
    """All models of a server, as requests see them; `ModelStore` is what changes them.

    Attributes:
        by_name: `{name: Model}` of those that are configured.
        gone: `{name: Model}` of those that are no more, until their versions have ended.
        labels: `{(model, label): version number}`.
    """

    def __init__(self):
        self.by_name, self.gone, self.labels = {}, {}, {}

    def find(self, spec):
        """The `Version` that answers a request.

        Raises:
            ServingError: there is none that is available.
        """
        if not spec.name:
            raise error("no_name")
        number = spec.version
        if spec.label is not None:
            number = self.labels.get((spec.name, spec.label))
            if number is None:
                raise error("unknown_label", label=spec.label)
        model = self.by_name.get(spec.name)
        if number is None:
            version = model and model.latest()
        else:
            version = model and model.versions.get(number)
            version = version if version and version.state == "AVAILABLE" else None
        if version is None:
            which = f"Latest({spec.name})" if number is None else f"Specific({spec.name}, {number})"
            raise error("not_found", request=which)
        return version

    def status(self, name, number=None):
        """The `Version`s of a model, highest first, or the one of that number."""
        model = self.by_name.get(name) or self.gone.get(name)
        versions = model.versions if model else {}
        if number is not None:
            if number not in versions:
                raise error("no_version", version=number, name=name)
            return [versions[number]]
        if not versions:
            raise error("no_versions", name=name)
        return [versions[number] for number in sorted(versions, reverse=True)]

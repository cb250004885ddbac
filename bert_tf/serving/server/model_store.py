"""Which versions of which models are loaded: found, loading, available, unloading.

Versions come and go as in TensorFlow Serving: `sources/storage_path/
file_system_storage_path_source.cc` says which are aspired to (`wanted_versions`), `core/
availability_preserving_policy.cc` in which order they are loaded and unloaded, `core/
basic_manager.cc` and `model_servers/server_core.cc` which one a request gets (`models`). States
change in the event loop only; files are listed, versions loaded and dropped in a thread.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import time

from bert_tf.serving.server.batching import model_batching
from bert_tf.serving.server.loaded_version import LoadedVersion
from bert_tf.serving.server.models import Model, Version
from bert_tf.serving.server.wanted_versions import checked_configs, find_versions
from bert_tf.serving.server.warm_up import warm_up
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError
from bert_tf.storage import local_copies

_log = logging.getLogger(__name__)


class ModelStore:
    """What finds, loads and drops the versions of one server.

    Args:
        models: `Models`, empty.
        settings: `Settings`.
        metrics: `Metrics`.
    """

    def __init__(self, models, settings, metrics):
        self._models = models.by_name
        self._gone = models.gone
        self._labels = models.labels
        self._settings = settings
        self._flags = settings.flags
        self._metrics = metrics
        self._changed = asyncio.Condition()
        self._configuring = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._tasks = set()
        self._poller = None
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "load")
        self._said = {}

    # What is configured.

    async def reload(self, model_config):
        """Take another `ModelServerConfig` in place of the present one.

        Returns once every model that is new has an available version. Another configuration may
        come while one waits for that.

        Raises:
            ServingError: the configuration cannot be; the present one stays. Or a new model has no
                version that loads; the configuration holds.
        """
        await self._until_available(await self.configure(model_config))

    async def configure(self, model_config):
        """Take another configuration, without waiting; the names of models that are new.

        Raises:
            ServingError: the configuration cannot be; the present one stays.
        """
        async with self._configuring:
            configs = checked_configs(model_config)
            labels = self._checked_labels(configs)
            new = [name for name in configs if name not in self._models]
            for name in [*self._models]:
                if name not in configs:
                    self._gone[name] = self._models.pop(name)
                    self._aspire(self._gone[name], {})
            for name, one in configs.items():
                if name in self._models:
                    self._models[name].config = one
                else:
                    # A model that is back finds the versions that have not ended.
                    model = self._gone.pop(name, None) or Model(one)
                    model.config = one
                    self._models[name] = model
            self._labels.clear()
            self._labels.update(labels)
            await self._poll()
            if self._poller is None and self._flags.file_system_poll_wait_seconds > 0:
                self._poller = self._spawn(self._keep_polling())
        return new

    def _checked_labels(self, configs):
        labels = {}
        for name, one in configs.items():
            for label, number in one.version_labels.items():
                model = self._models.get(name)
                version = model and model.versions.get(number)
                may = self._flags.allow_version_labels_for_unavailable_models and \
                    self._labels.get((name, label), number) == number
                if not may and (version is None or version.state != "AVAILABLE"):
                    raise error("label_unavailable", version=number, name=name)
                labels[name, label] = number
        return labels

    async def _until_available(self, names):
        """Wait until each model has an available version, or all of its versions have failed."""
        def settled():
            return all(model is None or model.latest() or (model.versions and all(
                version.state == "END" for version in model.versions.values()))
                for model in map(self._models.get, names))
        async with self._changed:
            await self._changed.wait_for(settled)
        failed = [(name, version) for name in names if name in self._models
                  and not self._models[name].latest()
                  for version in self._models[name].versions.values()]
        if failed:
            raise error("unavailable", number=len(failed), models=", ".join(
                f"{{name: {name} version: {version.number} due to error: "
                f"{version.problem and version.problem.code}: {version.problem}}}"
                for name, version in failed))

    # What is in the folders.

    async def _keep_polling(self):
        while True:
            await asyncio.sleep(self._flags.file_system_poll_wait_seconds)
            try:
                await self._poll()
            except Exception:
                _log.exception("cannot look for versions; the next look comes")

    async def _poll(self):
        """Look for versions of all models."""
        configs = {name: model.config for name, model in self._models.items()}
        found = await asyncio.to_thread(find_versions, configs)
        for name, versions in found.items():
            model = self._models.get(name)
            if model is None or model.config is not configs[name]:
                continue  # configured anew meanwhile
            if isinstance(versions, str):
                self._say(name, versions)
                continue  # a folder that is away for a moment ends nothing
            kept = [version for number, version in sorted(model.versions.items())
                    if version.state in ("LOADING", "AVAILABLE")
                    and _is_other(versions.get(number, version.path), version.path)]
            missing = set(model.config.model_version_policy.specific.versions) - versions.keys()
            if missing:
                self._say(name, f"no version {' '.join(map(str, sorted(missing)))} of {name} under "
                                f"{model.config.base_path}, which its policy names")
            elif kept:
                self._say(name, f"version {kept[0].number} of {name} stays that of {kept[0].path}: "
                                f"the one under {model.config.base_path} has the same number; try "
                                "another number for it")
            elif not versions:
                self._say(name, f"no versions of {name} under {model.config.base_path}: a version "
                                "is a folder whose name is a number")
            else:
                self._said.pop(name, None)
            self._aspire(model, versions)
        await self._notify()

    def _say(self, name, text):
        """Warn, but not at every look."""
        if self._said.get(name) != text:
            self._said[name] = text
            _log.warning("%s", text)

    def _aspire(self, model, paths):
        """Load and keep the versions `{number: path}`, and no others."""
        for number, path in paths.items():
            version = model.versions.get(number)
            if version is None or version.state == "END" and (
                    not version.aspired or version.path != path):
                model.versions[number] = Version(number, path)
            elif version.state == "UNLOADING":
                version.path = path  # of which it is loaded again
        for number, version in model.versions.items():
            version.aspired = number in paths
        self._next(model)

    def _next(self, model):
        """Begin what a model's versions allow: unload first, as long as one stays, then load."""
        versions = sorted(model.versions.values(), key=lambda version: version.number)
        aspired = [version for version in versions if version.aspired]
        unneeded = [version for version in versions
                    if not version.aspired and version.state == "AVAILABLE"]
        if aspired and not any(version.state == "AVAILABLE" for version in aspired):
            unneeded = unneeded[:-1]  # the newest answers until an aspired one does
        for version in unneeded:
            version.state = "UNLOADING"
            self._spawn(self._unload(model, version))
        for version in reversed(versions):
            if version.state == "START":
                if version.aspired:
                    version.state = "LOADING"
                    self._spawn(self._load(model, version))
                else:
                    version.state = "END"

    # Loading and unloading.

    async def _load(self, model, version):
        name, problem = model.config.name, None
        tries = 1 + self._flags.max_num_load_retries
        for attempt in range(1, tries + 1):
            try:
                async with self._loading:
                    if not version.aspired:  # any more, since it began to wait
                        break
                    started = time.monotonic()
                    version.loaded, version.batching = await self._in_thread(
                        self._load_now, version.path)
            except Exception as failure:
                self._metrics.load(version.path, "fail")
                # Without the frames of its traceback, which hold what was loaded.
                problem = ServingError(failure.code, failure.message) if isinstance(
                    failure, ServingError) else error("not_loaded")
                _log.error("model %s version %d failed to load (%d of %d)", name, version.number,
                           attempt, tries, exc_info=failure)
                if attempt < tries and version.aspired:
                    await self._wait_to_retry(version)
            else:
                version.state = "AVAILABLE"
                self._metrics.load(version.path, "success")
                _log.info("model %s version %d is available after %.1f s", name, version.number,
                          time.monotonic() - started)
                break
        if version.state != "AVAILABLE":
            version.state, version.problem = "END", problem
        await self._move_on(model)

    async def _wait_to_retry(self, version):
        """Wait until the next try, or until the version is aspired to no more."""
        interval = self._flags.load_retry_interval_micros / 1e6
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, interval)), self._changed:
                await self._changed.wait_for(lambda: not version.aspired)

    def _load_now(self, path):
        flags, batching = self._flags, self._settings.batching
        with local_copies.staged(path) as local:
            if batching is not None and flags.enable_per_model_batching_parameters:
                batching = model_batching(local, batching)
            loaded = LoadedVersion(local, tuple(flags.saved_model_tags.split(",")),
                                   flags.constant_kernels)
            if flags.enable_model_warmup:
                self._warm_up(path, loaded)
        return loaded, batching

    def _warm_up(self, path, loaded):
        started, status, records = time.monotonic(), "OK", 0
        try:
            records = warm_up(loaded, max(1, self._flags.num_request_iterations_for_warmup))
        except ServingError as problem:
            status = problem.code
            loaded.close()
            raise
        finally:
            self._metrics.warm_up(path, status, time.monotonic() - started, records)

    async def _unload(self, model, version):
        await version.unused()
        loaded, version.loaded = version.loaded, None
        try:
            await self._in_thread(loaded.close)
        except Exception:
            _log.exception("model %s version %d", model.config.name, version.number)
        version.state = "END"
        _log.info("model %s version %d is unloaded", model.config.name, version.number)
        if version.aspired:  # again, since it began to unload
            model.versions[version.number] = Version(version.number, version.path)
        await self._move_on(model)

    def _in_thread(self, function, *arguments):
        return asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def _move_on(self, model):
        self._next(model)
        await self._notify()

    async def _notify(self):
        async with self._changed:
            self._changed.notify_all()

    def _spawn(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self):
        """Stop looking for versions; a version that is loading is not waited for."""
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)


def _is_other(path, loaded):
    """Whether two paths differ in more than how they are written.

    No file is asked: one on a disk that is away would stop the event loop.
    """
    return os.path.normpath(path) != os.path.normpath(loaded)

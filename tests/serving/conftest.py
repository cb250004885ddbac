"""One server for the tests of a process, with models of their own."""

import itertools

import pytest
from server_harness import BINARY, Server

pytest.importorskip("grpc_health", reason="the extra [serving] is not installed")
pytest.importorskip("tensorflow_serving", reason="the extra [serving] is not installed")


class Models:
    """The models that the shared server has at the moment; a test adds its own.

    Attributes:
        server: `Server`.
    """

    def __init__(self, folder):
        from small_model import BATCHING, save_small
        from tensorflow_serving.config import model_server_config_pb2

        self._folder = folder
        self._names = (f"model_{number}" for number in itertools.count())
        self.config = model_server_config_pb2.ModelServerConfig()
        self.add(save=save_small, name="plain")
        self.add(save=save_small, name="merging", batching=BATCHING)
        path = folder / "models.config"
        path.write_text(str(self.config))
        batching = folder / "batching.config"
        batching.write_text("num_batch_threads { value: 1 }\n")
        monitoring = folder / "monitoring.config"
        monitoring.write_text("prometheus_config { enable: true path: '/metrics' }\n")
        self.server = Server(
            f"--model_config_file={path}", "--max_num_load_retries=0", "--enable_batching=true",
            *([] if BINARY else ["--allow_reload=loopback"]),
            f"--batching_parameters_file={batching}", "--enable_per_model_batching_parameters=true",
            f"--monitoring_config_file={monitoring}")

    def add(self, save=None, name=None, **options):
        """An entry for a model, with a first version by `save(folder, **options)` if given."""
        name = name or next(self._names)
        one = self.config.model_config_list.config.add(
            name=name, base_path=str(self._folder / name), model_platform="tensorflow")
        if save:
            save(one.base_path, **options)
        return one

    def remove(self, one):
        self.config.model_config_list.config.remove(one)

    def reload(self):
        self.server.reload(self.config)


@pytest.fixture(scope="session")
def shared_models(tmp_path_factory):
    models = Models(tmp_path_factory.mktemp("models"))
    yield models
    models.server.stop()


@pytest.fixture
def models(shared_models):
    """`Models`; afterwards its configuration is what it was."""
    before = type(shared_models.config)()
    before.CopyFrom(shared_models.config)
    yield shared_models
    if shared_models.config != before:
        shared_models.config.CopyFrom(before)
        shared_models.reload()


@pytest.fixture
def server(models):
    return models.server


@pytest.fixture(scope="session")
def task_models(made_once, tmp_path_factory):
    """`TaskModels`."""
    from task_models import serve_tasks

    served = serve_tasks(made_once, tmp_path_factory.mktemp("tasks"))
    yield served
    served.server.stop()


@pytest.fixture(scope="session")
def more_task_models(made_once, tmp_path_factory):
    """`TaskModels` for tests of `make test-all`."""
    from task_models import serve_tasks

    served = serve_tasks(made_once, tmp_path_factory.mktemp("more"), ("regressor", "gpt"))
    yield served
    served.server.stop()


@pytest.fixture
def fake_versions(monkeypatch):
    """Versions are loaded as `fake_models.Loaded`."""
    from fake_models import Loaded

    from bert_tf.serving.server import model_store

    monkeypatch.setattr(model_store, "LoadedVersion", Loaded)
    monkeypatch.setattr(model_store, "warm_up", lambda *_: 0)

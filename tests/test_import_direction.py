"""Rooms import each other in one direction only; imports are read from the source."""

import ast
import functools
import pathlib
import pickle
import subprocess
import sys

import pytest

from bert_tf.cli import COMMANDS

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "bert_tf"
GROUND = {"bottlenecks", "config", "cores", "fields", "family_defaults", "presets", "errors",
          "shapes", "storage", "randomness", "options", "side_by_side", "without_keras"}
LIGHT = {"bottlenecks", "config", "cores", "fields", "family_defaults", "presets", "errors",
         "storage", "shapes", "cli", "options", "side_by_side", "without_keras"}
ALLOWED = {
    "layers": set(),
    "models": {"layers"},
    "tasks": {"data", "models", "layers", "tokenization", "retrieval"},
    "tokenization": set(),
    "data": {"tokenization"},
    "retrieval": {"data", "tokenization"},
    "training": set(),
    "visualization": {"data", "tasks", "models", "layers", "tokenization",
                      "training", "saved_model", "converters", "cli"},
    "saved_model": {"models", "tasks", "tokenization", "layers", "retrieval"},
    "converters": {"models", "tasks", "tokenization"},
    "load": {"models", "tasks", "converters", "saved_model"},
    "text_signatures": {"converters", "layers", "models", "saved_model", "serving", "tasks"},
    "predictor": {"data", "models", "serving", "tasks", "text_signatures", "tokenization"},
    "embedder": {"load", "models", "predictor", "tasks", "tokenization", "retrieval"},
    "index_kinds": {"embedder", "retrieval"},
    "serving": {"tokenization", "saved_model", "cli", "retrieval"},
}
HEAVY = {"tensorflow", "keras", "tensorflow_text", "official", "tf_keras", "keras_hub", "fsspec"}


def _modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        yield relative.parts[0] if len(relative.parts) > 1 else relative.stem, path


@functools.cache
def _imports(path, top_level_only=False):
    tree, found = ast.parse(path.read_text()), []
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _rooms(path):
    for name in _imports(path):
        parts = name.split(".")
        if parts[0] == "bert_tf" and len(parts) > 1:
            yield parts[1]


def test_rooms_import_in_one_direction():
    wrong = []
    for room, path in _modules():
        for other in set(_rooms(path)) - GROUND - {room, "__version__"}:
            if room in ALLOWED:
                fine = other in ALLOWED[room]
            else:
                fine = room in {*COMMANDS, "__main__"} and (
                    other not in COMMANDS or (room, other) in (
                        ("evaluate", "finetune"), ("predict", "finetune"),
                        ("adapt", "pretrain")))
            if not fine:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_task_folders_know_of_each_other_nothing():
    folders = {path.name for path in (PACKAGE / "tasks").iterdir() if path.is_dir()} - {"base"}
    wrong = [f"{path.relative_to(PACKAGE)} imports {name}"
             for folder in folders | {"base"} for path in (PACKAGE / "tasks" / folder).glob("*.py")
             for name in _imports(path)
             if name.startswith("bert_tf.tasks.") and name.split(".")[2] in folders - {folder}]
    assert len(folders - {"__pycache__"}) > 4 and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room, others", [
    ("wire", set()), ("client", {"wire"}), ("apis", {"wire"}), ("server", {"wire", "apis"}),
    ("gateway", {"wire", "apis", "client", "server"})])
def test_server_and_client_share_the_wire_and_nothing_else(room, others):
    wrong = [f"{path.name} imports {name}"
             for path in (PACKAGE / "serving" / room).glob("*.py") for name in _imports(path)
             if name.startswith("bert_tf.serving.") and name.split(".")[2] not in {room, *others}]
    assert not wrong, "\n".join(wrong)


def test_ground_floor_and_entry_points_load_nothing_heavy():
    wrong = []
    for room, path in _modules():
        entry = room in COMMANDS and path.stem in (room, "__init__", "__main__", "config")
        if entry or room in LIGHT or room == "__init__":
            tops = {name.split(".")[0] for name in _imports(path, top_level_only=True)}
            rooms = set(_rooms(path)) if room in LIGHT else set()
            wrong += [f"{path.name}: {name}" for name in tops & HEAVY]
            wrong += [f"{path.name}: {name}" for name in rooms - LIGHT - {"__version__"}]
    assert not wrong, "\n".join(wrong)


def test_imports_are_light():
    """Of each module by itself, in a fork of a process that has imported nothing."""
    modules = ["bert_tf", "bert_tf.__main__", "bert_tf.pretrain", "bert_tf.pretrain.__main__",
               "bert_tf.create_data", "bert_tf.learn_vocab", "bert_tf.export", "bert_tf.finetune",
               "bert_tf.finetune.__main__", "bert_tf.evaluate", "bert_tf.adapt",
               "bert_tf.adapt.__main__", "bert_tf.predict", "bert_tf.predict.__main__",
               "bert_tf.serve", "bert_tf.query", "bert_tf.gateway", "bert_tf.serving.gateway.run",
               "bert_tf.visualize", "bert_tf.visualization.served_attention",
               "bert_tf.serving.client", "bert_tf.serving.client.grpc_wire",
               "bert_tf.serving.client.rest_wire"]
    code = f"""if True:
        import os, sys
        for module in {modules!r}:
            if not os.fork():
                __import__(module)
                sys.exit(" ".join(sorted({HEAVY!r} & set(sys.modules))) or None)
            if os.wait()[1]:
                sys.exit(f"{{module}} imports these, or fails")
        """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr.strip()) == (0, "")


def test_text_is_read_and_served_without_keras_and_models_are_asked_without_extras():
    """By a process that is sent its work; Keras is there for whoever imports it later.

    A fork of it has no packages of extras, as a plain installation; the tests' has all of them.
    """
    from bert_tf.data import create, processes

    extras = {"apache_beam", "bm25s", "faiss", "gcsfs", "grpc_health", "httptools", "httpx",
              "kiwipiepy", "orjson", "prometheus_client", "s3fs", "safetensors", "starlette",
              "tenacity", "tensorflow_serving", "uvicorn"}
    code = f"""if True:
        import gc, os, pickle, sys
        pickle.loads({pickle.dumps((processes._WithoutKeras(), create._start_process))!r})
        assert "bert_tf.data.create" in sys.modules
        assert not {extras!r} & set(sys.modules)
        if not os.fork():
            sys.modules.update(dict.fromkeys({extras!r}))  # as if not installed
            import bert_tf.embedder, bert_tf.predictor
            import bert_tf.evaluate.run, bert_tf.evaluate.systems, bert_tf.evaluate.retrieval
            import bert_tf.predict.run, bert_tf.predict.work
            import bert_tf.index, bert_tf.index_kinds, bert_tf.mine_negatives
            sys.exit()
        assert os.wait()[1] == 0, "without packages of extras"
        from bert_tf.without_keras import import_without_keras
        from bert_tf.serving.server import server
        from bert_tf.tokenization import learn_byte_pair, learn_unigram, learn_wordpiece, load
        assert "keras" not in sys.modules and gc.get_freeze_count() > 10_000 and gc.isenabled()
        gc.unfreeze()
        import keras, tensorflow as tf
        assert tf.keras.Model is keras.Model
        from bert_tf.models import families
        import_without_keras("tensorflow")
        assert not gc.get_freeze_count()  # what is there may be the caller's
        assert sys.modules["keras"] is keras
        """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr

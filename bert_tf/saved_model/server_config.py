"""Files for `tensorflow_model_server`: which models there are, and how a model's requests merge."""

import json
import os

from bert_tf.storage import files, locks

_WRITTEN = "# Written by every export: all models of saved_models/, the latest version of each.\n"
# Under which path a server finds saved_models/: containers mount it, others see this machine's.
_IN_CONTAINERS = "/models"
_CONTAINERS, _LOCAL = "models.config", "models.local.config"
_HINT = """\
# Exports leave a file alone that does not begin with the line above: to name versions and labels
# yourself, start from models.config.example.
"""
_MODEL = """\
  config {{
    name: {name}
    base_path: {base_path}
    model_platform: "tensorflow"
    model_version_policy {{ latest {{ num_versions: 1 }} }}
  }}
"""
# What holds for 2 to 64 cores: the threads that run batches are the server's choice.
BATCHING_PARAMS = """\
# How requests to this model merge, of tensorflow_model_server --enable_batching
# --enable_per_model_batching_parameters; serving/DEPLOYMENT.md tells what to change and when.
# Rows of a batch, and of one request at most.
max_batch_size { value: 32 }
# No request waits for others while a thread is idle; under load batches fill by themselves.
batch_timeout_micros { value: 0 }
# Batches of a signature that may wait; beyond them requests fail at once with UNAVAILABLE.
max_enqueued_batches { value: 32 }
# Not here: enable_large_batch_splitting joins what the parts of a request gave, and the server
# stops if they are of different lengths, as tokens are; pad_variable_length_inputs fills token
# ids and masks with a row's first element.
"""


def versions(export_dir, hidden=False):
    """Return version numbers in use in a model's folder, sorted; with `hidden` also those that no
    server sees, such as of `.3`."""
    names = [name.removeprefix("." if hidden else "") for name in files.list_folder(export_dir)]
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def write_batching_params(version):
    """Write `batching_params.pbtxt`, `BatchingParameters` in text form, into a version's folder."""
    files.write_text(os.path.join(version, "batching_params.pbtxt"), BATCHING_PARAMS)


def write_configs(saved_models):
    """List every model in `saved_models` for servers: in `serving/`, where that is beside it.

    `models.config` is for containers, which have the models at `/models`, `models.local.config` has
    this machine's paths; what a user wrote under these names is left alone. A model is a folder of
    `saved_models` with at least one version in it. Nothing is written unless `saved_models` is
    `…/saved_models` and the folder `…/serving` exists, as in a checkout.

    Returns: list of the paths written; None without those two folders.
    """
    saved_models = files.absolute(saved_models)
    serving = os.path.join(os.path.dirname(saved_models), "serving")
    if (files.is_remote(saved_models) or os.path.basename(saved_models) != "saved_models"
            or not files.is_folder(serving)):
        return None
    written = []
    # Listing under the lock: of two exports that end together, the later one lists both.
    with locks.held(serving, wait=True):
        files.clean_temporary(serving)
        names = [name for name in files.list_folder(saved_models)
                 if not name.startswith(".") and versions(os.path.join(saved_models, name))]
        for name, folder in ((_CONTAINERS, _IN_CONTAINERS), (_LOCAL, saved_models)):
            path = os.path.join(serving, name)
            if not files.exists(path) or files.read_text(path).startswith(_WRITTEN):
                files.write_text(path, _WRITTEN + _HINT + _render(names, folder))
                written.append(path)
    return written


def _render(names, folder):
    # JSON's quoting of a string is the text format's.
    entries = [_MODEL.format(name=json.dumps(name, ensure_ascii=False),
                             base_path=json.dumps(os.path.join(folder, name), ensure_ascii=False))
               for name in names]
    return "model_config_list {\n" + "".join(entries) + "}\n"

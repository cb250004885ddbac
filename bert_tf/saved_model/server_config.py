"""Files for `tensorflow_model_server`: this machine's models, and how a model's requests merge."""

import json
import os

from bert_tf import files, locks

_MODEL = """\
  config {{
    name: {name}
    base_path: {base_path}
    model_platform: "tensorflow"
    model_version_policy {{ latest {{ num_versions: 1 }} }}
  }}
"""
# What holds for 2 to 64 cores: the threads that run batches are the server's own matter.
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


def versions(export_dir):
    """Version numbers in use in a model's folder, sorted."""
    names = files.list_folder(export_dir)
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def write_batching_params(version):
    """Write `batching_params.pbtxt`, `BatchingParameters` in text form, into a version's folder."""
    files.write_text(os.path.join(version, "batching_params.pbtxt"), BATCHING_PARAMS)


def write_local_config(saved_models):
    """List every model in `saved_models`, with absolute paths, in `serving/models.local.config`.

    Written where `saved_models` is `…/saved_models` and the folder `…/serving` exists, as in a
    checkout; elsewhere nothing is written. A model is a folder of `saved_models` with at least one
    version in it.

    Returns: the path written, or None.
    """
    saved_models = files.absolute(saved_models)
    serving = os.path.join(os.path.dirname(saved_models), "serving")
    if (files.is_remote(saved_models) or os.path.basename(saved_models) != "saved_models"
            or not files.is_folder(serving)):
        return None
    path = os.path.join(serving, "models.local.config")
    # Listing under the lock: of two exports that end together, the later one lists both.
    with locks.held(serving, wait=True):
        files.clean_temporary(serving)
        files.write_text(path, _render(saved_models))
    return path


def _render(saved_models):
    models = [(name, os.path.join(saved_models, name)) for name in files.list_folder(saved_models)]
    # JSON's quoting of a string is the text format's.
    entries = [_MODEL.format(name=json.dumps(name, ensure_ascii=False),
                             base_path=json.dumps(folder, ensure_ascii=False))
               for name, folder in models if not name.startswith(".") and versions(folder)]
    return "model_config_list {\n" + "".join(entries) + "}\n"

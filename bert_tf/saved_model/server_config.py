"""`serving/models.local.config`: this machine's models for `tensorflow_model_server`."""

import json
import os

from bert_tf import files

_MODEL = """\
  config {{
    name: {name}
    base_path: {base_path}
    model_platform: "tensorflow"
    model_version_policy {{ latest {{ num_versions: 1 }} }}
  }}
"""


def versions(export_dir):
    """Version numbers in use in a model's folder, sorted."""
    names = files.list_folder(export_dir)
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def write_local_config(export_dir):
    """List every model beside `export_dir`, with absolute paths, in `serving/models.local.config`.

    Written where `export_dir` is `…/saved_models/NAME` and the folder `…/serving` exists, as in a
    checkout; elsewhere nothing is written. A model is a folder of `saved_models` with at least one
    version in it.

    Returns: the path written, or None.
    """
    saved_models = os.path.dirname(os.path.abspath(export_dir))
    serving = os.path.join(os.path.dirname(saved_models), "serving")
    if os.path.basename(saved_models) != "saved_models" or not os.path.isdir(serving):
        return None
    path = os.path.join(serving, "models.local.config")
    # Listing under the lock: of two exports that end together, the later one lists both.
    with files.locked(serving):
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

"""What an hf folder says to `CrossEncoder` of sentence-transformers, where that is not our score.

Our score of a pair is the logit. `CrossEncoder` gives a function of it, the sigmoid unless the
folder names another, may put a prompt before the query, and may score by modules of its own.
"""

import os

from bert_tf.errors import UsageError, explain
from bert_tf.models.find import ABOUT_MODULES, MODULES
from bert_tf.storage import files

# In a `config.json`; files of sentence-transformers before 4 have the second.
_SECTION, _FORMER = "sentence_transformers", "sbert_ce_default_activation_function"
_KEY = "activation_fn"
# By which it gives the logits of a model that we wrote.
LOGITS = {_SECTION: {_KEY: "torch.nn.modules.linear.Identity"}}


def notes_of(folder, task):
    """Return what to tell about a folder, a tuple of lines.

    Args:
        folder: with a `config.json`.
        task: what is read of it, the content of `task.json`.

    Raises:
        UsageError: its scores are made by further modules.
    """
    path, about = _about(folder)
    notes = _module_notes(folder, task) if about else ()
    if task["task"] == "classifier":
        notes += _prompt_notes(about, path)
        if task.get("problem") == "regression":
            notes += _activation_notes(about, os.path.join(folder, "config.json"))
    return notes


def check_prompt(folder, task):
    """Raise UsageError where a classifier's folder puts a prompt before every query.

    Args:
        folder, task: as of `notes_of`.
    """
    path, about = _about(folder)
    name = about.get("default_prompt_name")
    if task["task"] == "classifier" and name is not None and _prompts(about):
        raise UsageError(explain(
            f"{path}: default_prompt_name={name!r}", "null",
            "null in the file, and the prompt at the beginning of each query"))


def _about(folder):
    """Return the path of what a `CrossEncoder` says of itself, and that, `{}` of others."""
    path = os.path.join(folder, ABOUT_MODULES)
    about = files.read_json_object(path) if files.exists(path) else {}
    return path, about if about.get("model_type") == "CrossEncoder" else {}


def _module_notes(folder, task):
    source = os.path.join(folder, MODULES)
    modules = files.read_json(source) if files.exists(source) else []
    if not isinstance(modules, list) or not all(
            isinstance(module, dict) and isinstance(module.get("type"), str)
            for module in modules):
        raise UsageError(explain(f"{source} names no modules", "a list of type and path"))
    types = [module["type"] for module in modules]
    if not types or (len(types) == 1 and types[0].startswith("sentence_transformers.")
                     and types[0].endswith(".Transformer")):
        return ()
    said = f"{source}: pairs are scored by {', '.join(types)}"
    if task["task"] == "classifier":
        raise UsageError(explain(said, "Transformer of sentence-transformers alone"))
    return (f"{said}; what is read is the {task['task']} alone, which gives no score",)


def _prompts(about):
    """Return what may stand before a query, without what is empty; what is no dict as it is."""
    prompts = about.get("prompts")
    return {name: prompt for name, prompt in prompts.items() if prompt} if isinstance(
        prompts, dict) else prompts


def _prompt_notes(about, path):
    prompts = _prompts(about)
    return (f"{path}: prompts={prompts!r} are left out; a query may begin with one of them",) if (
        prompts) else ()


def _activation_notes(about, source):
    values = files.read_json_object(source)
    section = values.get(_SECTION)
    name = about.get(_KEY) or (section.get(_KEY) if isinstance(section, dict) else None)
    name = str(name or values.get(_FORMER) or "")
    if not name.startswith("torch."):  # it runs no code of a folder
        name = "the sigmoid"
    return () if name.endswith(".Identity") else (
        f"{source}: scores are logits; CrossEncoder of sentence-transformers gives "
        f"{name.rpartition('.')[2]} of them",)

"""What an hf folder says to `CrossEncoder` of sentence-transformers, where that is not our score.

Our score of a pair is the logit. `CrossEncoder` gives a function of it, the sigmoid unless the
folder names another, may put a prompt before the query, and may score by modules of its own, of
which `logit_score` is one that we compute.
"""

import dataclasses
import os

from bert_tf.converters import logit_score
from bert_tf.converters.dense_module import read_checked, read_modules
from bert_tf.converters.hf_reading import OPTIONS
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import ABOUT_MODULES, MODULES, adapted_model
from bert_tf.storage import files

# In a `config.json`; files of sentence-transformers before 4 have the second.
_SECTION, _FORMER = "sentence_transformers", "sbert_ce_default_activation_function"
_KEY = "activation_fn"
# By which it gives the logits of a model that we wrote.
LOGITS = {_SECTION: {_KEY: "torch.nn.modules.linear.Identity"}}


def scoring(checkpoint, folder):
    """Return the `Checkpoint` of what gives the scores of a folder.

    Of a language model that is asked for "yes" or "no" that is a classifier of one number; of
    others it is what was read, with a note where that gives no score.

    Raises:
        UsageError: the scores are made by further modules, or with an option of one, that we do
            not compute; it is named.
    """
    if not about_of(folder)[1]:
        return checkpoint
    source = os.path.join(folder, MODULES)
    modules = read_modules(source) if files.exists(source) else []
    kinds, task = [_kind(module["type"]) for module in modules], checkpoint.task["task"]
    if kinds in ([], logit_score.MODULES[:1]):
        return checkpoint
    if kinds == logit_score.MODULES and task == "language_model":
        if modules[0]["path"]:
            raise UsageError(explain(f"{source}: path {modules[0]['path']!r} of Transformer", "''"))
        read_checked(os.path.join(folder, OPTIONS), {"transformer_task": "text-generation",
                                                     "module_output_name": logit_score.LOGITS})
        return logit_score.as_classifier(checkpoint, files.inside(folder, modules[1]["path"]))
    said = f"{source}: pairs are scored by {', '.join(module['type'] for module in modules)}"
    if task == "classifier":
        raise UsageError(explain(said, "Transformer of sentence-transformers alone"))
    return dataclasses.replace(checkpoint, notes=(
        *checkpoint.notes, f"{said}; what is read is the {task} alone, which gives no score"))


def notes_of(folder, task):
    """Return what to tell about the scores of a folder, a tuple of lines.

    Args:
        folder: with a `config.json`.
        task: what is read of it, the content of `task.json`.
    """
    path, about = about_of(folder)
    if task["task"] != "classifier":
        return ()
    notes = _prompt_notes(about, path)
    if task.get("problem") == "regression":
        described = os.path.join(adapted_model(folder) or folder, "config.json")
        notes += _activation_notes(about, described)
    return notes


def check_prompt(folder, task):
    """Raise UsageError where a classifier's folder puts a prompt before every query.

    Args:
        folder, task: as of `notes_of`.
    """
    path, about = about_of(folder)
    name = about.get("default_prompt_name")
    if task["task"] == "classifier" and name is not None and _prompts(about):
        raise UsageError(explain(
            f"{path}: default_prompt_name={name!r}", "null",
            "null in the file, and the prompt at the beginning of each query"))


def about_of(folder):
    """Return the path of what a `CrossEncoder` says of itself, and that, `{}` of others."""
    path = os.path.join(folder, ABOUT_MODULES)
    about = files.read_json_object(path) if files.exists(path) else {}
    return path, about if about.get("model_type") == "CrossEncoder" else {}


def _kind(stated):
    """Return the last word of a class of sentence-transformers, of another the whole name."""
    return stated.rpartition(".")[2] if stated.startswith("sentence_transformers.") else stated


def _prompts(about):
    """Return what may stand before a query, without what is empty; what is no dict as it is."""
    prompts = about.get("prompts")
    return {name: prompt for name, prompt in prompts.items() if prompt} if isinstance(
        prompts, dict) else prompts


def _prompt_notes(about, path):
    prompts = _prompts(about)
    if isinstance(prompts, dict):  # the one that is used, see `check_prompt`
        prompts = {name: prompt for name, prompt in prompts.items()
                   if name != about.get("default_prompt_name")}
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

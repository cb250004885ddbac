"""What kind of model is at a path (a run, a SavedModel, a checkpoint of others), and its files."""

import hashlib
import itertools
import os
import typing

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.models.pretrained import CONFIG, TASK
from bert_tf.storage import checksums, files, hub, manifest, variables

SAVED_MODEL = "saved_model.pb"
MODULES = "modules.json"
ABOUT_MODULES = "config_sentence_transformers.json"
SPLADE_POOLING = "SpladePooling"  # kind of a module that makes logits weights of tokens
ROUTES = "router_config.json"  # modules for queries and for documents
MULTI_VECTOR_MASK = "MultiVectorMask"  # kind of one that says which tokens have vectors
ADAPTER = "adapter_config.json"  # of PEFT, beside differences to another folder's weights
EXTRA = "assets.extra"  # of a SavedModel: the files about the model
MASKED_LM = "masked_lm"  # folder of a pre-training run's first training, of masked tokens
# Files by which a folder with another format's checkpoint is known.
CHECKPOINT_CONFIGS = ("bert_config.json", "albert_config.json", "electra_config.json")
CONFIGS = ("config.json", CONFIG, *CHECKPOINT_CONFIGS, "discriminator/config.json", MODULES)
# Beside a config.json: of Hugging Face and of keras-hub.
_WEIGHTS = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
            "pytorch_model.bin.index.json", "model.weights.h5"}
OURS = {"bert_tf": f"a model folder (with {CONFIG}) or the folder of a finished run"}
SERVED = {"saved_model": f"a version of a SavedModel (with {SAVED_MODEL})"}
OTHERS = {"google": "a checkpoint of google-research", "tf_models": "one of tf-models-official",
          "keras_hub": "a keras-hub preset", "hf": "a folder of Hugging Face transformers",
          "sentence_transformers": f"a folder of sentence-transformers (with {MODULES})"}
KINDS = {**OURS, **SERVED, **OTHERS}


class Found(typing.NamedTuple):
    """A model, judged by the names of its files."""

    kind: str  # one of KINDS
    path: str  # what was given, or where its copy is of the Hugging Face Hub
    folder: str  # where its files are: of a run `model`, of a SavedModel `assets.extra`
    run: str | None = None  # folder of the run that it is the model of, as the path has it


def find_model(path, kinds=None):
    """Find the model at `path`.

    Args:
        path: a folder, the prefix of a TensorFlow checkpoint, or the name of a repository as of
            `storage.hub`.
        kinds: which of `KINDS` will do; None for all.

    Returns:
        `Found`.

    Raises:
        UsageError: there is none, or one of another kind.
        BertTfError: a file is damaged, or the data of a checkpoint is missing.
    """
    found = _find(hub.local(path))
    if found is None:
        _refuse_half(hub.local(path))
    if found is None or found.kind not in (kinds or KINDS):
        expected = " or ".join(what for kind, what in KINDS.items() if kind in (kinds or KINDS))
        received, attempt = _without_model(path, kinds) if found is None else (
            f"is {KINDS[found.kind]}", "")
        raise UsageError(explain(f"{path} {received}", expected, attempt))
    if found.kind == "bert_tf" and not found.run and files.exists(
            os.path.join(found.folder, "run.json")):
        raise UsageError(explain(f"{path} is a run that has no model yet",
                                 attempt="the command that began it (pretrain: or the same with "
                                         "--finish_now)"))
    return found


def examples_path(run):
    """Return the path of the manifest of the examples that a pre-training run learns from.

    Args:
        run: the run folder, or that of its first training in it, which has no examples of its own.
    """
    above = os.path.dirname(run)
    if os.path.basename(run) != MASKED_LM or not files.exists(os.path.join(above, "run.json")):
        above = run
    return os.path.join(above, "data", "manifest.json")


def gives_token_vectors(folder):
    """Whether a folder of Hugging Face transformers is one of Stanford's ColBERT."""
    config = os.path.join(folder, "config.json")
    return files.exists(config) and files.read_json_object(config).get("architectures") == [
        "HF_ColBERT"]


def holds_adapter(folder):
    """Whether a folder holds an adapter, and no whole model beside it."""
    if not files.exists(os.path.join(folder, ADAPTER)):
        return False
    names = files.list_folder(folder)
    return "config.json" not in names or _WEIGHTS.isdisjoint(names)


def adapted_model(folder, weights=True):
    """Folder of the model that an adapter in a folder adapts; None where there is none.

    Args:
        weights: whether its weights are needed too.

    Raises:
        BertTfError: its file is damaged, or the Hub cannot be reached.
        UsageError: it names no model, or one that is not there.
    """
    if not holds_adapter(folder):
        return None
    source = os.path.join(folder, ADAPTER)
    values = files.read_json_object(source)
    name, revision = values.get("base_model_name_or_path"), values.get("revision")
    if not isinstance(name, str) or not name:
        raise UsageError(explain(f"{source}: base_model_name_or_path={name!r}",
                                 "the folder or the Hub's name of the model that was adapted"))
    base = name
    if files.is_remote(name) or not files.exists(name):
        try:
            base = hub.local(f"{hub.SCHEME}{name}" + (f"@{revision}" if revision else ""), weights)
        except UsageError as error:
            is_path = os.path.isabs(name) or name.startswith((".", "~")) or "\\" in name or (
                files.is_remote(name))
            raise UsageError(explain(
                f"{source} names the model {name!r}, which is neither a folder here nor on the Hub"
                + f": {error}" * (not is_path), attempt="writing into that file where it is"
            )) from error
    if not files.exists(os.path.join(base, "config.json")):
        raise UsageError(explain(f"{source}: base_model_name_or_path={name!r}",
                                 "a folder of transformers with config.json"))
    return base


def model_folder(path):
    """Folder of our model at `path`, of a run its `model`; None where there is none of ours."""
    for folder in (os.path.join(path, "model"), path):
        if files.exists(os.path.join(folder, CONFIG)):
            return folder
    return None


def model_files(path):
    """Return the files of a model folder, those of a checkpoint and what describes it beside it, or
    the path itself."""
    given, path = path, hub.local(path)
    folder = model_folder(path) or path
    parts = [folder, *(os.path.join(folder, half) for half in ("discriminator", "generator"))]
    found = [os.path.join(part, name) for part in parts for name in files.list_folder(part)]
    found = hub.without_others(given, folder, list(filter(files.is_file, found)))
    if found:
        base = None if model_folder(path) else adapted_model(folder)
        return found + (model_files(base) if base else [])
    if files.exists(path + ".index"):
        folder, name = os.path.split(path)
        names = files.list_folder(folder or ".")
        beside = {*CONFIGS, *hub.wanted(names, weights=False)}
        return [os.path.join(folder, other) for other in names
                if other.startswith(name + ".") or other in beside]
    if not files.exists(path):
        raise BertTfError(f"cannot read {path}: no such file or folder")
    return [path]


def deciding_files(path):
    """Return the paths of the files that decide what a model gives, sorted."""
    found = find_model(path)
    if found.kind in SERVED:
        folders = [found.path, os.path.join(found.path, "variables"), found.folder]
    else:
        folders = [found.folder]
    if found.kind == "sentence_transformers":  # a module each, such as its dense layer
        folders += [os.path.join(found.folder, name) for name in files.list_folder(found.folder)
                    if files.is_folder(os.path.join(found.folder, name))]
    paths = [os.path.join(folder, name)
             for folder in folders for name in files.list_folder(folder)]
    paths = hub.without_others(path, found.path, list(filter(files.is_file, paths)))
    adapted = [base for folder in folders if found.kind in ("hf", "sentence_transformers")
               if folder == found.folder or hub.is_part(os.path.basename(folder))
               if (base := adapted_model(folder))]
    return [*paths, *itertools.chain(*map(deciding_files, adapted))] or model_files(path)


def model_digest(path):
    """Return a digest of a model's files and their names, the same wherever its folder is."""
    digest = hashlib.blake2b(digest_size=16)
    for file in deciding_files(path):
        name = os.path.basename(file)
        of_file = checksums.EDITED.get(name) or manifest.digest_file(file)
        digest.update(f"{name} {of_file}\n".encode())
    return digest.hexdigest()


def _find(path):
    folder = model_folder(path)
    if folder:
        return Found("bert_tf", path, folder, path if folder != path else None)
    if files.exists(os.path.join(path, SAVED_MODEL)):
        return Found("saved_model", path, os.path.join(path, EXTRA))
    if files.exists(os.path.join(path, TASK)):
        return None  # a model folder that lost its configuration
    if files.exists(f"{path}.index") or (
            variables.checkpoints_in(path) and not _has_other_weights(path)):
        names = variables.VariableReader(variables.find_checkpoint(path)).shapes
        return Found("tf_models" if variables.OBJECT_GRAPH in names else "google", path, path)
    if files.exists(os.path.join(path, MODULES)) and not _is_cross_encoder(path):
        return Found("sentence_transformers", path, path)
    config = os.path.join(path, "config.json")
    if files.exists(config):
        registered = "registered_name" in files.read_json_object(config)
        return Found("keras_hub" if registered else "hf", path, path)
    if any(files.exists(os.path.join(path, name)) for name in (
            os.path.join("discriminator", "config.json"), ADAPTER)):
        return Found("hf", path, path)
    return None


def _without_model(path, kinds):
    """Return what is wrong with a path that no model is at, and what to try."""
    if str(path).endswith(".keras"):
        return "holds no model", "bert_tf.load_model"
    folder = hub.local(path)
    names = files.list_folder(folder)
    if not names and not files.exists(folder):
        return "does not exist", ""
    versions = [name for name in names if name.isdecimal() and files.exists(
        os.path.join(folder, name, SAVED_MODEL))]
    if versions and "saved_model" in (kinds or KINDS):
        return "holds no model but versions", os.path.join(path, max(versions, key=int))
    return "holds no model", ""


def _refuse_half(path):
    """Raise BertTfError where a checkpoint has no data, no index or no configuration, as after a
    download that was stopped."""
    names = files.list_folder(path)
    of_checkpoint = not set(CHECKPOINT_CONFIGS).isdisjoint(names)
    for name in names:
        prefix, suffix = os.path.splitext(name)
        if name in _WEIGHTS and not of_checkpoint and "config.json" not in names:
            lacks = other = "config.json"
        elif not of_checkpoint:
            continue
        elif suffix == ".index":
            lacks, other = "data", f"{prefix}.data-00000-of-00001"
        elif suffix.startswith(".data-"):
            lacks, other = "index", f"{prefix}.index"
        else:
            continue
        raise BertTfError(explain(f"{path} holds {name} without its {lacks}", f"{other} beside it",
                                  "downloading or copying the checkpoint again"))


def _has_other_weights(path):
    """Whether a folder holds the model in another format too, as repositories do that publish it
    for several libraries."""
    names = files.list_folder(path)
    return MODULES in names or "config.json" in names and not _WEIGHTS.isdisjoint(names)


def _is_cross_encoder(path):
    """Whether it has modules, as those of sentence-transformers 6 do, but makes no vectors."""
    about = os.path.join(path, ABOUT_MODULES)
    return files.exists(about) and files.read_json_object(about).get("model_type") == "CrossEncoder"

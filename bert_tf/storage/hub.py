"""Models of the Hugging Face Hub: `hf://org/name`, or `org/name` where no such path is here.

A revision (branch, tag or commit) follows an `@`: `hf://org/name@v1.0`. The package huggingface_hub
downloads what is read here, and nothing else, into its own cache, and heeds its own variables:
`HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`.
"""

import contextlib
import fnmatch
import glob
import hashlib
import os
import re
import time

import tqdm

from bert_tf.errors import BertTfError, UsageError, explain, needs, print_note
from bert_tf.storage import disk, staging

SCHEME = "hf://"
_FORM = "hf://org/name or hf://org/name@revision"
_PART = r"[A-Za-z0-9_][\w.-]*"
_NAME = re.compile(rf"(?P<repository>(?:{_PART}/)?{_PART})(?:@(?P<revision>{_PART}(?:/{_PART})*))?")
# Folders of a repository that hold parts of a model: modules of sentence-transformers, perhaps of
# a route, the halves of an ELECTRA, a tokenizer of keras-hub.
_FOLDERS = ("", "[0-9]*_*/", "query_[0-9]_*/", "document_[0-9]_*/", "discriminator/", "generator/",
            "assets/tokenizer/")
_DESCRIPTIONS = (
    "config.json", "modules.json", "router_config.json", "config_sentence_transformers.json",
    "sentence_*_config.json", "model_config.json", "task.json", "checksums.json",
    "metadata.json", "artifact.metadata", "adapter_config.json", "preprocessor.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "vocab.txt", "vocab.json", "vocabulary.txt", "vocabulary.json",
    "vocabulary.spm", "merges.txt", "merges.json", "spiece.model", "sentencepiece.bpe.model",
    "spm.model")
_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
_WEIGHTS = (*_SAFETENSORS, "adapter_model.safetensors", "model.weights.h5", "model.index",
            "model.data-*")
# Where a folder has no safetensors.
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin",
            "adapter_model.bin")
# Which are no repositories.
_FILES = (".txt", ".json", ".jsonl", ".model", ".vocab", ".ckpt", ".keras")
_SERVER_ERROR = 500
_DELAY = 2  # seconds until progress is shown
_found = {}  # (name, revision, weights): folder; a process reads one commit of a branch


class _Progress(tqdm.tqdm):
    """A bar that shows itself where a download takes long, whatever it is told in between."""

    def __init__(self, *arguments, **options):
        self._due = time.monotonic() + _DELAY
        super().__init__(*arguments, **options, delay=_DELAY)

    def display(self, *arguments, **options):
        """Draw the bar, unless it is too soon."""
        return time.monotonic() < self._due or super().display(*arguments, **options)

    def close(self):
        """End the bar; nothing is written of one that was not drawn."""
        self.leave = time.monotonic() >= self._due
        super().close()


def repository(path):
    """Return the `org/name` that a path names on the Hub; None of any other path.

    Raises:
        UsageError: it begins with `hf://` and names none.
    """
    found = _parse(path)
    return found and found["repository"]


def local(path, weights=True):
    """Return the folder of a model of the Hub, downloaded unless it is cached; else `path` itself.

    Args:
        path: as a user gives it, str or `os.PathLike`.
        weights: whether its weights are needed too.

    Raises:
        UsageError: no such repository or revision, or huggingface_hub is not installed.
        BertTfError: access is refused, the Hub cannot be reached and nothing is cached, or what
            arrived is damaged; what was downloaded whole is kept.
    """
    found = _parse(path)
    if found is None:
        return path
    text = os.fspath(path)
    named = text.startswith(SCHEME)
    key = found["repository"], found["revision"]
    folder = _found.get((*key, True)) or _found.get((*key, weights))
    if folder is None:
        try:
            folder = _download(*key, weights)
        except BertTfError as error:
            if named:
                raise
            raise type(error)(f"there is no {text} here; taken for {SCHEME}{text}: {error}"
                              ) from error
        _found[*key, weights] = folder
        staging.remember(folder, text if named else SCHEME + text)
    return folder


def _parse(path):
    """Match of `_NAME`, or None."""
    text = os.fspath(path)
    if text.startswith(SCHEME):
        found = _NAME.fullmatch(text.removeprefix(SCHEME))
        if found is None:
            raise UsageError(explain(f"a path that begins with {SCHEME}", _FORM))
        return found
    found = _NAME.fullmatch(text)
    if found is None or "/" not in found["repository"]:
        return None
    # Where there is the folder org, as with runs/NAME, the name is a mistake: no server is asked.
    here = os.path.lexists(text) or os.path.lexists(text.split("/")[0])
    return None if here or text.endswith(_FILES) else found


def _download(repository, revision, weights):
    """Return the folder of a snapshot with what is read of it."""
    with needs("hub", "models of the Hugging Face Hub need the package huggingface_hub"):
        import huggingface_hub
        from huggingface_hub import constants, errors

    def fetch(names, **options):
        return huggingface_hub.snapshot_download(
            repository, revision=revision, allow_patterns=names, tqdm_class=_Progress, **options)

    def cached():
        return fetch([folder + name for folder in _FOLDERS
                      for name in (*_DESCRIPTIONS, *(_WEIGHTS if weights else ()))],
                     local_files_only=True)

    with _explained(repository, revision, constants, errors):
        if constants.HF_HUB_OFFLINE:
            return cached()
        try:
            listed = huggingface_hub.HfApi().model_info(repository, revision=revision)
        except Exception as error:
            if not _is_unreachable(error, errors):
                raise
            with contextlib.suppress(errors.LocalEntryNotFoundError):
                folder = cached()
                print_note(f"{constants.ENDPOINT} cannot be reached; {SCHEME}{repository} is read "
                           f"as it was downloaded last")
                return folder
            raise
        names = wanted([each.rfilename for each in listed.siblings or ()], weights)
        if not names:
            raise UsageError(explain(f"{SCHEME}{repository} holds no model", "a repository with "
                                     "config.json and model.safetensors, or another kind of folder "
                                     "that bert_tf.convert reads"))
        blobs = os.path.join(constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}",
                             "blobs")
        before = set(os.listdir(blobs)) if os.path.isdir(blobs) else set()
        folder = fetch([glob.escape(name) for name in names])
        for name in names:
            _check_content(os.path.join(folder, name), before, f"{SCHEME}{repository}/{name}")
        return folder


def wanted(names, weights=True):
    """Return those files of a repository that a reader of ours may want.

    Args:
        names: all of them, relative to the repository.
        weights: whether the weights are among them: safetensors, or else `pytorch_model.bin`.
    """
    parts = [(folder, name, f"{folder}/" if folder else "")
             for folder, name in map(os.path.split, names)]
    safe = {folder for folder, name, _ in parts if _matches(name, _SAFETENSORS)}

    def is_wanted(folder, name):
        return _matches(name, _DESCRIPTIONS) or (weights and (
            _matches(name, _WEIGHTS) or (_matches(name, _PICKLES) and folder not in safe)))

    return [prefix + name for folder, name, prefix in parts
            if is_wanted(folder, name) and any(
                fnmatch.fnmatchcase(prefix, each) and prefix.count("/") == each.count("/")
                for each in _FOLDERS)]


def is_part(name):
    """Return whether a folder in a repository may hold a part of its model, by its name."""
    return any(fnmatch.fnmatchcase(f"{name}/", each) for each in _FOLDERS)


def without_others(path, folder, paths):
    """Return the paths of files in a model's folder that a reader of ours may want.

    Other programs put further files of a repository into the same cache.

    Args:
        path: of the model, as a user gives it; where it is none of the Hub all are returned.
        folder: its local one.
        paths: of files in that folder and in those inside.
    """
    if not repository(path):
        return paths
    names = {os.path.relpath(each, folder): each for each in paths}
    return [names[name] for name in wanted(list(names))]


def _matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _check_content(path, before, name):
    """Compare a file that was downloaded now with the digest that its blob in the cache is called
    by.

    The library compares sizes. Of large files the name is the SHA-256, of others Git's SHA-1.
    """
    digest = os.path.basename(os.readlink(path)) if os.path.islink(path) else ""
    if digest in before or not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", digest):
        return
    with open(path, "rb") as stream:
        own = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(
            b"blob %d\0" % os.path.getsize(path), usedforsecurity=False)
        while block := stream.read(1 << 20):
            own.update(block)
    if own.hexdigest() != digest:
        blob = os.path.join(os.path.dirname(path), os.readlink(path))
        os.remove(path)
        os.remove(blob)
        raise BertTfError(explain(f"{name} is damaged: what arrived has another digest than the "
                                  "server states", attempt="the same command again"))


def _is_unreachable(error, errors):
    """Whether the Hub does not answer, or answers that it fails itself."""
    if isinstance(error, errors.HfHubHTTPError):
        return getattr(error.response, "status_code", 0) >= _SERVER_ERROR
    return isinstance(error, OSError | errors.OfflineModeIsEnabled) or _library(error).startswith(
        "http")


def _line(error):
    return " ".join(str(error).split()) or type(error).__name__


def _library(error):
    return type(error).__module__.split(".")[0]


@contextlib.contextmanager
def _explained(repository, revision, constants, errors):
    """Turn what the library raises into a line that says what to do."""
    path = f"{SCHEME}{repository}" + (f"@{revision}" if revision else "")
    hub, token = constants.ENDPOINT, "HF_TOKEN with the token of an account that may read it"

    def refused(why, attempt):
        return BertTfError(explain(f"cannot read {path}: {why}", attempt=attempt))

    try:
        yield
    except errors.GatedRepoError as error:
        raise refused("its owners grant access one by one",
                      f"asking them at {hub}/{repository}, and {token}") from error
    except errors.RevisionNotFoundError as error:
        raise UsageError(explain(f"{repository} has no revision {revision}",
                                 "a branch, tag or commit of it")) from error
    except errors.RepositoryNotFoundError as error:
        raise UsageError(explain(f"{hub} has no {repository}, or it is private",
                                 attempt=f"another name, or {token}")) from error
    except errors.HFValidationError as error:
        raise UsageError(explain(f"{path} names no repository", _FORM)) from error
    except errors.LocalEntryNotFoundError as error:
        why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else (
            f"{hub} stopped answering ({_line(error.__cause__ or error)})")
        raise refused(f"{why}, and {constants.HF_HUB_CACHE} has no whole copy of it",
                      "the same command with a network") from error
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "with an error")
        raise refused(f"{hub} answers {status}",
                      token if status in (401, 403) else "the same command later") from error
    except Exception as error:
        if isinstance(error, OSError) and error.filename:  # of the local disk
            with disk.explained("write", error.filename):
                raise
        if not isinstance(error, OSError) and not _library(error).startswith("http"):
            raise
        raise refused(f"no whole answer of {hub} ({_line(error)})",
                      "the same command with a network: what is finished is kept") from error

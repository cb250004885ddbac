"""Tiny exports of every task behind one server, and the same in-process."""

import dataclasses
import os

from server_harness import BINARY, Server
from tensorflow_serving.config import model_server_config_pb2
from tiny_model import (
    SEQ_LENGTH,
    TAGS,
    WORDS,
    Caller,
    config_of,
    export_once,
)

from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

NAMES = ("bert", "classifier", "several", "ranker", "span", "sparse", "multi_vector", "morphemes")


class _Callers(dict):
    def __init__(self, versions):
        super().__init__()
        self._versions = versions

    def __missing__(self, name):
        self[name] = Caller(self._versions[name])
        return self[name]


@dataclasses.dataclass
class TaskModels:
    """Models of `tiny_model.MODELS`, and `morphemes`, a tagger of analysed text.

    Attributes:
        server: `Server` that serves them.
        call: by name a `Caller` of the same SavedModel, which is loaded when it is asked for.
    """

    server: Server
    call: _Callers


def _save_morphemes(folder, _):
    """A tagger of text that is cut into morphemes."""
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *WORDS.split(), *"영화를재밌게봤다"])
    tokenizer = Tokenizer(vocabulary, lower_case=True, pretokenize="morphemes")
    preprocessor = WordPreprocessor(tokenizer, SEQ_LENGTH, stride=9)
    TokenClassifier(config_of(tokenizer), TAGS, seed=7,
                    preprocessor=preprocessor).save_pretrained(folder, tokenizer)
    return folder


def _version(made_once, name):
    """The path of the version of a model."""
    if name == "morphemes":
        return export_once(os.path.join(made_once, name), "tagger", save=_save_morphemes)[1]
    return export_once(str(made_once), name)[1]


def serve_tasks(made_once, folder, names=NAMES):
    """Start a server of models, which are in the folder `made_once`: `TaskModels`.

    Args:
        folder: for the server's configuration.
    """
    config = model_server_config_pb2.ModelServerConfig()
    versions = {name: _version(made_once, name) for name in names}
    for name, version in versions.items():
        config.model_config_list.config.add(
            name=name, base_path=os.path.dirname(version), model_platform="tensorflow")
    path = folder / "models.config"
    path.write_text(str(config))
    own = [] if BINARY else ["--api=openai,tei"]
    return TaskModels(Server(f"--model_config_file={path}", "--enable_batching=true",
                             "--enable_model_warmup=false", *own), _Callers(versions))

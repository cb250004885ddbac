"""The start of a fine-tuning: a model folder, a checkpoint of another format, or nothing."""

import dataclasses
import os

import tqdm

from bert_tf.config import ModelConfig
from bert_tf.converters.formats import read_model
from bert_tf.converters.own_folder import own_folder
from bert_tf.converters.tokenizer_files import tokenizer_folder
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.finetune.config import SCRATCH
from bert_tf.models.find import model_files, model_folder
from bert_tf.models.pretrained import CONFIG, TASK
from bert_tf.presets import preset
from bert_tf.storage import checksums, files
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.registry import model_classes
from bert_tf.tokenization.learn_wordpiece import learn_pieces
from bert_tf.tokenization.load import TokenizerSource, load_tokenizer, tokenizer_files
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.tokenization.word_counts import WordPieceWords

_TEXTS_AT_ONCE = 10_000
_TOKENIZER_FLAGS = ("lower_case", "strip_accents", "pretokenize")


@dataclasses.dataclass(frozen=True)
class Start:
    """A model without its task: configuration, tokenizer and, unless from scratch, weights."""

    config: ModelConfig
    tokenizer: object  # as `load_tokenizer` gives it
    folder: str | None  # model folder of the weights

    def build(self, task, changes, **options):
        """Build a model of one of `registry.model_classes()` with new heads.

        Args:
            task: its name.
            changes: dict of `ModelConfig` fields to change.
            options: of its class.
        """
        if self.folder is None:
            return model_classes()[task](self.config.replace(**changes), **options)
        return from_pretrained(self.folder, task, config=changes, **options)

    def within_template(self, task, options):
        """Return the options of a task's class; a ranker reads pairs as what it begins as did.

        Args:
            task, options: as of `TaskType.model_options`.
        """
        path = os.path.join(self.folder or "", TASK)
        saved = files.read_json_object(path) if self.folder and files.exists(path) else {}
        template = (saved.get("reading") or {}).get("template")
        if task != "ranker" or template is None:
            return options
        own = options["preprocessor"]
        return {**options, "preprocessor": type(own)(own.tokenizer, **own.reading(),
                                                     template=template)}


def find_start(options, folder, texts):
    """Find the `Start` that the flags `--init`, `--config` and `--vocab` name.

    Args:
        options: `FinetuneConfig`.
        folder: run folder; a checkpoint of another format becomes its subfolder `init`, and a
            tokenizer that is made its `tokenizer`.
        texts: called for the training text, list of str, where a vocabulary is to be learned.

    Raises:
        BertTfError: a file is missing or damaged, or there is no tokenizer that reads text.
        UsageError: the files contradict each other or a flag.
    """
    if options.init != SCRATCH:
        model_folder = own_folder(options.init, os.path.join(folder, "init"), reads_text=True)
        config = ModelConfig.load(os.path.join(model_folder, CONFIG))
        tokenizer = load_tokenizer(model_folder)
        _check_given(options, ("pretokenize",), tokenizer, model_folder)
        return Start(config, tokenizer, model_folder)
    config, beside = _configuration(options.config)
    own = os.path.join(folder, "tokenizer")
    if tokenizer_files(own):
        tokenizer = load_tokenizer(own)
    else:
        tokenizer = _find_tokenizer(options, beside) or _learn(options, config.vocab_size, texts())
        with checksums.new_folder(own) as temporary:
            tokenizer.save(temporary)
    vocabulary = tokenizer.vocabulary
    return Start(config.replace(vocab_size=len(vocabulary), padding_id=vocabulary.pad_id),
                 tokenizer, None)


def _configuration(path):
    """Return the `ModelConfig` that `--config` names, and the folder that may hold a vocabulary
    too."""
    if path is None:
        return preset("bert", "tiny"), None
    if not files.is_folder(path):
        return ModelConfig.load_any(path), os.path.dirname(path)
    folder = model_folder(path) or path
    for name in (CONFIG, "bert_config.json"):
        config = os.path.join(folder, name)
        if files.exists(config):
            return ModelConfig.load_any(config), folder
    return read_model(path).config, path


def _find_tokenizer(options, beside):
    """Find the tokenizer of `--vocab` or of the folder of `--config`; None where neither has
    one."""
    if options.vocab:
        return load_tokenizer(options.vocab, **{
            name: getattr(options, name) for name in _TOKENIZER_FLAGS})
    if beside is None or tokenizer_folder(beside) is None:
        return None
    tokenizer = load_tokenizer(beside)
    _check_given(options, _TOKENIZER_FLAGS, tokenizer, beside)
    return tokenizer


def _check_given(options, names, tokenizer, folder):
    """Refuse flags that the tokenizer of `folder` contradicts."""
    for name in names:
        value, stated = getattr(options, name), getattr(tokenizer, name, None)
        if value not in (None, stated):
            raise UsageError(explain(
                f"--{name} {value} with the tokenizer in {folder}, whose {name} is {stated}",
                attempt=f"omitting --{name}"))


def _learn(options, vocab_size, texts):
    """Learn a WordPiece tokenizer from the training text, with at most `vocab_size` entries."""
    casing = {"lower_case": bool(options.lower_case), "strip_accents": bool(options.strip_accents),
              "pretokenize": options.pretokenize}
    counter = WordPieceWords(**casing)
    for start in tqdm.tqdm(range(0, len(texts), _TEXTS_AT_ONCE), desc="counting words", delay=2):
        counter.add(texts[start:start + _TEXTS_AT_ONCE])
    entries = learn_pieces(counter.counts, vocab_size)
    if len(entries) == len(SPECIAL_TOKENS):
        raise BertTfError(explain("the training text has too few words to learn a vocabulary from",
                                  attempt="--vocab"))
    print(f"vocabulary: {len(entries):,} entries, learned from the training text")
    return Tokenizer(Vocabulary(entries), **casing)


def start_files(options):
    """Return the paths of the files that the start is read from: what a run depends on."""
    given = (None if options.init == SCRATCH else options.init, options.config,
             options.teacher)
    paths = [path for each in given if each is not None for path in model_files(each)]
    if options.vocab is not None:
        paths += TokenizerSource(options.vocab).files() or model_files(options.vocab)
    return paths

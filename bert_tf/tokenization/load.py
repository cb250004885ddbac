"""The tokenizer of a folder, whichever kind its files are."""

import dataclasses
import os

from bert_tf.errors import NoTextError, UsageError, explain
from bert_tf.storage import checksums, files, hub
from bert_tf.tokenization import (
    byte_pair,
    character_pair,
    classic_models,
    hf_options,
    library,
    pair_files,
    sentence_piece,
    tokenizer,
    tokenizer_config,
    tokenizer_json,
)

# The files that a kind needs, beside which tokenizer_config.json may stand -> the kind.
TOKENIZERS = {
    (tokenizer.VOCABULARY_NAME,): tokenizer.Tokenizer,
    (sentence_piece.MODEL_NAME,): sentence_piece.SentencePieceTokenizer,
    (pair_files.VOCABULARY_NAME, pair_files.MERGES_NAME): byte_pair.BytePairTokenizer,
    (pair_files.VOCABULARY_NAME,
     pair_files.JSON_MERGES_NAME): character_pair.CharacterPairTokenizer,
    (tokenizer_json.NAME,): library.LibraryTokenizer,
}
# The classes of transformers whose rules without a `tokenizer.json` a kind has.
_CLASSES = {
    tokenizer.Tokenizer: ("Bert", "DistilBert", "Electra", "MPNet"),
    sentence_piece.SentencePieceTokenizer: ("Albert", "Camembert", "DebertaV2", "T5", "XLMRoberta"),
    byte_pair.BytePairTokenizer: ("Deberta", "GPT2", "Roberta")}
_ADDED = "added_tokens.json"  # older than the `added_tokens_decoder` of the configuration
_NAMES = {*(name for names in TOKENIZERS for name in names), *classic_models.MODEL_NAMES}
# Keys of a `tokenizer_config.json` that only ours have.
_OURS = {"lower_case", "normalization", "normalize_nfc", "python_only", "special_tokens"}


def tokenizer_files(folder):
    """Names of the files of the tokenizer in a model folder of ours; `()` where there is none."""
    return next((names for names in TOKENIZERS
                 if all(files.exists(os.path.join(folder, name)) for name in names)), ())


def holds_tokenizer(folder):
    """Whether `load_tokenizer` finds files in a folder.

    Raises:
        BertTfError: one is a link that leads out of the folder.
        UsageError: more than one SentencePiece model is there.
    """
    names = tokenizer_files(folder)
    for name in names:
        files.inside(folder, name)
    return bool(names or classic_models.model_path(folder))


def load_tokenizer(path, lower_case=None, strip_accents=None, pretokenize=None):
    """Read the tokenizer of a folder: ours, or one as published checkpoints have it.

    A `tokenizer.json` decides where there is one, unless the folder is ours; what transformers
    takes from the `tokenizer_config.json` beside it is taken from there (`hf_options.as_built`).

    Args:
        path: folder with `tokenizer.json`; or `vocab.txt` (WordPiece); or `spiece.model`,
            `sentencepiece.bpe.model` or `spm.model` (SentencePiece); or `vocab.json` and
            `merges.txt` (byte-level BPE) or `merges.json` (BPE of characters). Or such a file
            itself; or the folder of a finished run; or the name of a repository of the Hugging
            Face Hub, of which only these files are downloaded.
        lower_case, strip_accents, pretokenize: of a WordPiece vocabulary, a file of any name,
            beside which nothing states them (None: false). Elsewhere they may but agree.

    Returns:
        Tokenizer, SentencePieceTokenizer, BytePairTokenizer, CharacterPairTokenizer, or a
        LibraryTokenizer, which no graph can hold.

    Raises:
        BertTfError: a file is damaged.
        NoTextError: none of these files is there, or they are of rules that we do not run.
        UsageError: they contradict themselves or what is given.
    """
    path = _of_run(os.fspath(hub.local(path, weights=False)))
    casing = {"lower_case": lower_case, "strip_accents": strip_accents, "pretokenize": pretokenize}
    if files.is_file(path):
        folder, name = os.path.split(path)
        config = tokenizer_config.read_config(os.path.join(folder, tokenizer_config.NAME))
        if name not in _NAMES or (name == tokenizer.VOCABULARY_NAME and (
                _is_ours(config) or not _has_json(folder))):
            _check_class(tokenizer.Tokenizer, config, folder)
            return _check_added(tokenizer.Tokenizer.of_vocabulary(path, **casing), config, folder)
        path = folder
    found = _load_folder(path)
    for name, value in casing.items():
        stated = getattr(found, name, None)
        if value not in (None, stated):
            raise UsageError(explain(
                f"{name}={value} with the tokenizer in {path}, whose {name} is {stated}",
                attempt=f"leaving {name} out"))
    return found


@dataclasses.dataclass(frozen=True)
class TokenizerSource:
    """What `load_tokenizer` is called with: a plain value, which travels to other processes."""

    path: str
    lower_case: bool | None = None
    strip_accents: bool | None = None
    pretokenize: str | None = None

    def load(self):
        """The tokenizer."""
        return load_tokenizer(**dataclasses.asdict(self))

    def files(self):
        """Paths of the files that the tokenizer depends on."""
        path = _of_run(hub.local(self.path, weights=False))
        if files.is_file(path):
            return [path]
        names = {*tokenizer_files(path), tokenizer_config.NAME, tokenizer_config.MAP,
                 tokenizer_json.NAME, _ADDED}
        model = classic_models.model_path(path)
        return sorted({*(os.path.join(path, name) for name in names
                         if files.exists(os.path.join(path, name))),
                       *([model] if model else [])})


def stated_options(tokenizer):
    """What manifests have of a tokenizer, dict.

    Its class and further options stand there for others than WordPiece as learned here.
    """
    options = dict(tokenizer.options)
    stated = {name: options.pop(name, False) for name in ("lower_case", "strip_accents")}
    if options.get("pretokenize"):
        stated["pretokenize"] = options.pop("pretokenize")
    if options.get("normalization") == "nfc":
        del options["normalization"]
    if options or type(tokenizer).__name__ != "Tokenizer":
        stated["tokenizer"] = {"class": type(tokenizer).__name__, **options}
    return stated


def _of_run(path):
    """Return the folder `model` of a run that keeps its tokenizer there, else the path itself."""
    model = os.path.join(path, "model")
    return path if holds_tokenizer(path) or not holds_tokenizer(model) else model


def _load_folder(path):
    names = tokenizer_files(path)
    checksums.refuse_links(path)
    model = classic_models.model_path(path)
    if not names and not model:
        raise NoTextError(explain(f"{path} has no tokenizer",
                                  "; or ".join(" and ".join(names) for names in TOKENIZERS)))
    checksums.check(path, (*names, tokenizer_config.NAME, tokenizer_json.NAME))
    config = tokenizer_config.read_config(os.path.join(path, tokenizer_config.NAME))
    json_path = os.path.join(path, tokenizer_json.NAME)
    _refuse_jieba(config, path)
    if "python_only" in config:
        return library.LibraryTokenizer.load(path)
    values = None if _is_ours(config) else tokenizer_json.read_values(json_path)
    if values is not None:
        with tokenizer_json.damage_named(json_path):
            built = hf_options.as_built(values, config, json_path)
        try:
            return tokenizer_json.read_tokenizer(json_path, config, built)
        except tokenizer_json.UnknownRules as error:
            return library.LibraryTokenizer.of_json(json_path, config, str(error),
                                                    None if built is values else built)
    kind = TOKENIZERS[names] if names else sentence_piece.SentencePieceTokenizer
    _check_class(kind, config, path)
    if model and not _is_ours(config):
        if kind is not sentence_piece.SentencePieceTokenizer:
            raise UsageError(explain(f"{path} holds {' and '.join(names)} and {model}",
                                     f"the files of one tokenizer, or {tokenizer_json.NAME}"))
        return _check_added(classic_models.load_model(model, config), config, path)
    return _check_added(kind.load(path), config, path)


def _refuse_jieba(config, folder):
    """Refuse RoFormer's, whose class splits text by jieba whatever its `tokenizer.json` says."""
    name = hf_options.model_name(os.path.join(folder, tokenizer_config.NAME), config)
    if hf_options.plain_name(name) == "roformer" and not _is_ours(config):
        raise NoTextError(explain(
            f"{folder}: the tokenizer of {name}, which splits text into the words of jieba",
            "another class's", "token ids made by that class"))


def _check_class(kind, config, folder):
    """Refuse files of the usual names that a class with rules of its own reads."""
    if kind not in _CLASSES or _is_ours(config):
        return
    stated, key = hf_options.class_that_reads(os.path.join(folder, tokenizer_config.NAME), config)
    known = [f"{name}Tokenizer" for name in _CLASSES[kind]]
    if stated and stated.removesuffix("Fast") not in known:
        raise NoTextError(explain(
            f"{key}={stated!r}, whose rules we do not run without a {tokenizer_json.NAME}",
            f"one of {', '.join(known)}", "token ids made by that class"))


def _check_added(found, config, folder):
    """Return a tokenizer, unless tokens were added to it that its files do not have."""
    path, vocabulary = os.path.join(folder, _ADDED), found.vocabulary
    stated = files.read_json_object(path) if files.exists(path) else {}
    decoder = config.get("added_tokens_decoder")
    for number, entry in decoder.items() if isinstance(decoder, dict) else ():
        stated[str(entry.get("content") if isinstance(entry, dict) else entry)] = number
    missing = [token for token, number in stated.items()
               if token not in vocabulary.tokens or str(vocabulary.id(token)) != str(number)]
    if missing:
        raise UsageError(explain(
            f"{folder}: the added tokens {', '.join(map(repr, missing[:4]))} are not in the "
            f"vocabulary at their ids", f"a {tokenizer_json.NAME}",
            "transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"))
    return found


def _has_json(folder):
    return tokenizer_json.is_tokenizer_json(os.path.join(folder, tokenizer_json.NAME))


def _is_ours(config):
    return bool(_OURS & config.keys()) and "tokenizer_class" not in config

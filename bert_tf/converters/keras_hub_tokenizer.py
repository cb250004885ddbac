"""The tokenizer of a keras-hub preset folder: its files under the names that we know, and back."""

import atexit
import os
import shutil
import tempfile

import keras_hub

from bert_tf.converters.tokenizer_files import VOCABULARY, word_piece_notes
from bert_tf.errors import UsageError, explain
from bert_tf.storage import files
from bert_tf.tokenization import pair_files, sentence_piece
from bert_tf.tokenization.byte_pair import BytePairTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.tokenizer_config import NAME as CASING

CONFIG = "tokenizer.json"
_ASSETS = os.path.join("assets", "tokenizer")
_KINDS = {"bert": Tokenizer, "electra": Tokenizer, "roberta": BytePairTokenizer,
          "gpt2": BytePairTokenizer, "albert": SentencePieceTokenizer}  # family -> ours
# Their file -> our name for it, by family.
_WORD_PIECE = {"vocabulary.txt": VOCABULARY}
_BYTE_PAIR = {"vocabulary.json": pair_files.VOCABULARY_NAME, "merges.txt": pair_files.MERGES_NAME}
_FILES = {"bert": _WORD_PIECE, "electra": _WORD_PIECE, "roberta": _BYTE_PAIR, "gpt2": _BYTE_PAIR,
          "albert": {"vocabulary.spm": sentence_piece.MODEL_NAME}}
_PAIR_RULES = ("normalize_nfc", "pattern", "ignore_merges")  # of ours alone
# Options of their WordPiece tokenizer that ours knows one value of.
_ONLY = {"split": True, "split_on_cjk": True, "suffix_indicator": "##", "oov_token": "[UNK]"}


def read_tokenizer(preset, family):
    """The tokenizer's files of a preset folder.

    Returns: a temporary folder, which goes when the process ends, or None where the preset has no
        tokenizer; and a tuple of what to tell the user.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: a tokenizer of another kind, or with options that ours has not.
    """
    path = os.path.join(preset, CONFIG)
    if not files.exists(path):
        return None, ()
    options = _read_options(path, family)
    folder = tempfile.mkdtemp(prefix="bert_tf-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for theirs, ours in _FILES[family].items():
        files.copy(files.inside(preset, os.path.join(_ASSETS, theirs)),
                   os.path.join(folder, ours))
    stated = files.inside(preset, os.path.join(_ASSETS, CASING))
    if files.exists(stated):
        files.copy(stated, os.path.join(folder, CASING))
        return folder, ()
    if family == "albert":
        return folder, _judge_casing(preset, folder)
    files.write_json(os.path.join(folder, CASING), options)
    return folder, ()


def write_tokenizer(folder, family, preset):
    """Add the tokenizer in `folder` to a preset folder.

    Returns: what their tokenizer cannot do, a list of one line each.
    """
    ours = load_tokenizer(folder)
    if not isinstance(ours, _KINDS[family]):
        return [f"the tokenizer (a preset of {family} has a {_KINDS[family].__name__})"]
    build = {Tokenizer: _word_piece, BytePairTokenizer: _byte_pair,
             SentencePieceTokenizer: _sentence_piece}[_KINDS[family]]
    theirs = getattr(keras_hub.models, _class_name(family))
    try:
        made = build(theirs, ours)
    except ValueError as error:  # it has names of its own for special tokens
        return [f"the tokenizer ({str(error).splitlines()[0]})"]
    made.save_to_preset(preset)
    # What their class has no place for stands in a file that it does not look at.
    files.write_json(os.path.join(preset, _ASSETS, CASING), ours.options)
    if isinstance(ours, Tokenizer):
        return word_piece_notes(ours, ours.strip_accents)
    done = [name for name, value in ours.options.items() if value != (name == "keep_accents")
            ] if family == "albert" else [name for name in _PAIR_RULES if name in ours.options]
    return [f"the tokenizer's {name}={ours.options[name]} ({theirs.__name__} has no such option)"
            for name in done]


def _class_name(family):
    return f"{'GPT2' if family == 'gpt2' else family.capitalize()}Tokenizer"


def _word_piece(theirs, ours):
    return theirs(vocabulary=ours.vocabulary.tokens, lowercase=ours.lower_case,
                  strip_accents=ours.strip_accents)


def _byte_pair(theirs, ours):
    ids = {token: index for index, token in enumerate(ours.vocabulary.tokens)}
    return theirs(vocabulary=ids, merges=[" ".join(pair) for pair in ours.merges],
                  add_prefix_space=ours.add_prefix_space)


def _sentence_piece(theirs, ours):
    return theirs(proto=ours.model)


def _read_options(path, family):
    """The options in a `tokenizer.json`, as our `tokenizer_config.json` has them."""
    values = files.read_json(path)
    config = values.get("config") if isinstance(values, dict) else None
    expected = _class_name(family)
    if not isinstance(config, dict) or values.get("class_name") != expected:
        found = values.get("class_name") if isinstance(values, dict) else values
        raise UsageError(explain(f"{path}: class_name={found!r}", expected))
    for name, value in _ONLY.items() if _FILES[family] is _WORD_PIECE else ():
        if config.get(name, value) != value:
            raise UsageError(explain(f"{path}: {name}={config[name]!r}", repr(value)))
    names = ({"lower_case": "lowercase", "strip_accents": "strip_accents"}
             if _FILES[family] is _WORD_PIECE else {"add_prefix_space": "add_prefix_space"})
    options = {ours: config.get(theirs, False) for ours, theirs in names.items()}
    if _FILES[family] is _WORD_PIECE and not options["lower_case"]:
        options["normalization"] = "google"  # only folding case puts what was taken apart together
    for name, theirs in names.items():
        if not isinstance(options[name], bool):
            raise UsageError(explain(f"{path}: {theirs}={options[name]!r}", "true or false"))
    if family == "gpt2":  # by which special tokens are known
        options["tokenizer_class"] = expected
    return options


def _judge_casing(preset, folder):
    """What ALBERT does to text before SentencePiece, which a preset does not say."""
    tokens = SentencePieceTokenizer.load(folder).vocabulary
    lower_case = all(token == token.lower() for token in tokens.tokens
                     if token not in tokens.special_tokens)
    files.write_json(os.path.join(folder, CASING),
                     {**sentence_piece.OPTIONS, "do_lower_case": lower_case})
    return (f"{preset} does not say how text is prepared: its pieces have "
            f"{'no' if lower_case else 'some'} capital letters, so do_lower_case={lower_case}",)

"""The tokenizer that travels with a checkpoint: found, copied, and what to say about it."""

import os

from bert_tf.errors import NoTextError, UsageError, explain
from bert_tf.storage import checksums, files
from bert_tf.tokenization import tokenizer_config
from bert_tf.tokenization.classic_models import MODEL_NAMES, class_to_state

VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
# Of vocabularies whose rules we do not run: copied as they are.
_FILES = (VOCABULARY, CONFIG, "vocab.json", "merges.txt", *MODEL_NAMES)
# Keys of `config.json` and tokens of a `Vocabulary`.
_ENDS = {"bos_token_id": "cls_id", "eos_token_id": "sep_id"}
_TOKEN_IDS = {"modernbert": {**_ENDS, "cls_token_id": "cls_id", "sep_token_id": "sep_id"},
              "eurobert": {**_ENDS, "mask_token_id": "mask_id"}}


def tokenizer_folder(folder):
    """`folder` if it holds a tokenizer, else None.

    Raises:
        BertTfError: a file is a link that leads out of the folder.
        UsageError: more than one SentencePiece model is there.
    """
    from bert_tf.tokenization.load import holds_tokenizer

    return folder if holds_tokenizer(folder) else None


def copy_tokenizer(source, target):
    """Write the tokenizer in a folder as `save_pretrained` does.

    Args:
        source: a folder, or None, which writes nothing.
        target: a folder that exists.
    """
    from bert_tf.tokenization.load import load_tokenizer

    if source is None:
        return
    try:
        load_tokenizer(source).save(target)
    except NoTextError:
        names = files.list_folder(source)
        for name in _FILES:
            if name in names:
                files.copy(files.inside(source, name), os.path.join(target, name))
        path = os.path.join(source, CONFIG)
        config = tokenizer_config.read_config(path)
        # `config.json` alone may tell it, which stays behind; a BigBird would be read as ALBERT.
        if name := class_to_state(path, config):
            files.write_json(os.path.join(target, CONFIG), {**config, "tokenizer_class": name})


def token_ids(folder, config):
    """The keys of a `config.json` that say which tokens are special, a dict; `{}` where there is
    no tokenizer that runs.

    Those of left-to-right models are for generation in transformers: where there is no text, it
    begins by them, and it ends as ours does. Of ModernBERT and EuroBERT their classes have numbers
    otherwise, which a small vocabulary lacks.
    """
    from bert_tf.tokenization.load import load_tokenizer

    keys = _TOKEN_IDS.get(config.family, _ENDS if config.attention == "causal" else {})
    try:
        if folder is None or not keys:
            return {}
        vocabulary = load_tokenizer(folder).vocabulary
        return {key: getattr(vocabulary, name) for key, name in keys.items()}
    except NoTextError:  # of rules that we do not run, such as GPT's
        return {}


def vocabulary_notes(folder, vocab_size):
    """What to tell the user about a vocabulary beside a model: a tuple of lines.

    Raises:
        BertTfError: a file is damaged or contradicts itself.
        UsageError: it has more pieces than the `vocab_size` rows of the model's table.
    """
    from bert_tf.tokenization.load import load_tokenizer

    if folder is None:
        return ()
    try:
        tokenizer = load_tokenizer(folder)
    except NoTextError as error:  # of rules that we do not run, such as GPT's
        return (str(error),)
    pieces, notes = len(tokenizer.vocabulary), ()
    if tokenizer.python_only:
        notes = (f"no graph can run the tokenizer: {tokenizer.python_only}",)
    if tokenizer.vocabulary.num_rows > vocab_size:
        raise UsageError(explain(f"the vocabulary in {folder} has {pieces} pieces",
                                 f"at most vocab_size={vocab_size}"))
    if pieces > vocab_size:
        unused = ", ".join(tokenizer.vocabulary.tokens[vocab_size:])
        notes += (f"the vocabulary in {folder} has {pieces} pieces, vocab_size={vocab_size}: no "
                  f"text gives {unused}, for which the model has no row",)
    if pieces < vocab_size:
        notes += (f"the vocabulary in {folder} has {pieces} pieces, vocab_size={vocab_size}: the "
                  "model's further rows are never used",)
    return notes


def casing_notes(folder):
    """What to tell the user about casing that was judged: a tuple of at most one line."""
    from bert_tf.tokenization.load import load_tokenizer
    from bert_tf.tokenization.tokenizer import read_options
    from bert_tf.tokenization.tokenizer_json import NAME, is_tokenizer_json

    if (folder is None or not files.exists(os.path.join(folder, VOCABULARY))
            or is_tokenizer_json(os.path.join(folder, NAME))):
        return ()
    checksums.check(folder, (CONFIG,))
    if "lower_case" in read_options(os.path.join(folder, CONFIG)):
        return ()
    try:
        lower_case = load_tokenizer(folder).lower_case
    except NoTextError:  # as `vocabulary_notes` says
        return ()
    if lower_case:
        return (f"{folder}/{VOCABULARY} has no capital letters: taken for lower case without "
                f"accents (do_lower_case in a {CONFIG} beside it would say)",)
    return (f"{folder}/{VOCABULARY} has capital letters: case and accents are kept "
            f"(do_lower_case in a {CONFIG} beside it would say)",)


def plain_bert_notes(folder):
    """What the original BERT's tokenizer, with `do_lower_case` alone, does otherwise.

    Args:
        folder: of the tokenizer, or None.

    Returns: list of lines for the user.
    """
    from bert_tf.tokenization.load import load_tokenizer
    from bert_tf.tokenization.tokenizer import Tokenizer

    try:
        tokenizer = None if folder is None else load_tokenizer(folder)
    except NoTextError:  # as `vocabulary_notes` says
        return []
    if not isinstance(tokenizer, Tokenizer):
        return []
    return word_piece_notes(tokenizer, tokenizer.lower_case)


def word_piece_notes(tokenizer, strips_accents):
    """What another program's WordPiece tokenizer does otherwise.

    Args:
        tokenizer: `Tokenizer`.
        strips_accents: whether theirs does.

    Returns: list of lines for the user.
    """
    notes = []
    if strips_accents and tokenizer.normalization == "nfc" and has_hangul(tokenizer.vocabulary):
        notes.append("the tokenizer's normalization='nfc' (theirs takes Hangul apart into jamo, "
                     "which this vocabulary does not have: Korean words are [UNK] there)")
    if strips_accents != tokenizer.strip_accents:
        notes.append(f"the tokenizer's strip_accents={tokenizer.strip_accents} (theirs goes with "
                     f"lower_case={tokenizer.lower_case})")
    if not tokenizer.tokenize_chinese_chars:
        notes.append("the tokenizer's tokenize_chinese_chars=False (theirs splits Chinese)")
    return notes + _morpheme_notes(tokenizer)


def morpheme_notes(folder):
    """That a program which runs all other rules of a tokenizer splits no text into morphemes.

    Args:
        folder: of the tokenizer, or None.

    Returns: list of at most one line for the user.
    """
    from bert_tf.tokenization.load import load_tokenizer

    try:
        return [] if folder is None else _morpheme_notes(load_tokenizer(folder))
    except NoTextError:
        return []


def _morpheme_notes(tokenizer):
    return [f"the tokenizer's pretokenize={tokenizer.pretokenize!r} (theirs takes text as it is)"
            ] if tokenizer.pretokenize else []


def has_hangul(vocabulary):
    """Whether a token has a whole Hangul syllable."""
    return any("\uac00" <= character <= "\ud7a3"
               for token in vocabulary.tokens for character in token)

"""The tokenizer of a folder, whichever kind its files are."""

import os

from bert_tf.errors import NoTextError, explain
from bert_tf.storage import checksums, files
from bert_tf.tokenization import byte_pair, sentence_piece, tokenizer

# The files that a kind needs, beside which tokenizer_config.json may stand -> the kind.
TOKENIZERS = {
    (tokenizer.VOCABULARY_NAME,): tokenizer.Tokenizer,
    (sentence_piece.MODEL_NAME,): sentence_piece.SentencePieceTokenizer,
    (byte_pair.VOCABULARY_NAME, byte_pair.MERGES_NAME): byte_pair.BytePairTokenizer,
}


def tokenizer_files(folder):
    """Names of the files of the tokenizer in `folder`; `()` where there is none."""
    return next((names for names in TOKENIZERS
                 if all(files.exists(os.path.join(folder, name)) for name in names)), ())


def load_tokenizer(folder):
    """Read the tokenizer of a model folder.

    Args:
        folder: with `vocab.txt` (WordPiece), `spiece.model` (SentencePiece) or `vocab.json` and
            `merges.txt` (byte-level BPE).

    Returns:
        Tokenizer, SentencePieceTokenizer or BytePairTokenizer.

    Raises:
        BertTfError: a file is damaged.
        NoTextError: none of these files is there, or they are of rules that no graph can run.
        UsageError: they contradict themselves.
    """
    names = tokenizer_files(folder)
    if not names:
        raise NoTextError(explain(f"{folder} has no tokenizer",
                                  "; or ".join(" and ".join(names) for names in TOKENIZERS)))
    checksums.check(folder, (*names, tokenizer.CONFIG_NAME))
    return TOKENIZERS[names].load(folder)

"""The tokenizer of a folder, whichever kind its files are."""

import os

from bert_tf import files
from bert_tf.errors import UsageError, explain
from bert_tf.tokenization import byte_pair, sentence_piece, tokenizer

# The files that a kind needs, beside which tokenizer_config.json may stand -> the kind.
TOKENIZERS = {
    (tokenizer.VOCABULARY_NAME,): tokenizer.Tokenizer,
    (sentence_piece.MODEL_NAME,): sentence_piece.SentencePieceTokenizer,
    (byte_pair.VOCABULARY_NAME, byte_pair.MERGES_NAME): byte_pair.BytePairTokenizer,
}


def load_tokenizer(folder):
    """Read the tokenizer of a model folder.

    Args:
        folder: with `vocab.txt` (WordPiece), `spiece.model` (SentencePiece) or `vocab.json` and
            `merges.txt` (byte-level BPE).

    Returns:
        Tokenizer, SentencePieceTokenizer or BytePairTokenizer.

    Raises:
        BertTfError: a file is damaged.
        UsageError: none of these files is there, or they contradict themselves.
    """
    for names, kind in TOKENIZERS.items():
        if all(files.exists(os.path.join(folder, name)) for name in names):
            return kind.load(folder)
    raise UsageError(explain(f"{folder} has no tokenizer",
                             "; or ".join(" and ".join(names) for names in TOKENIZERS)))

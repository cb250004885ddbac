"""Texts of mixed lengths, in an order in which they might arrive."""

import os
import random

import numpy as np

from bert_tf.data.documents import read_documents
from bert_tf.tasks.registry import read_task

SENTENCES = 5  # of a passage, at most


def sentences(shared, count):
    """So many of CoLA's sentences."""
    examples = read_task("cola", os.path.join(shared, "data", "cola", "in_domain_train.tsv"))
    return random.Random(1).sample([example.text_a for example in examples], count)


def passages(shared, count):
    """Passages of English: one to five sentences that stand side by side in a document."""
    path = os.path.join(shared, "data", "corpus", "en_mixed.txt.gz")
    documents = [piece.sentences for piece in read_documents([path])]
    draw, found = random.Random(1), []
    for _ in range(count):
        document = draw.choice(documents)
        length = min(draw.randint(1, SENTENCES), len(document))
        start = draw.randint(0, len(document) - length)
        found.append(" ".join(document[start:start + length]))
    return found


def write_tokens(texts, vocabulary_folder, window, path):
    """Write the token ids of texts as the .npz file that `worker.text_batches` reads.

    Returns: their lengths, special tokens counted, int64 `[texts]`.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from bert_tf.tokenization.load import load_tokenizer
    from bert_tf.tokenization.packing import pack

    tokenizer = load_tokenizer(vocabulary_folder)
    packed = pack(tokenizer.vocabulary, [tokenizer.tokenize(texts)], window, fixed=False)
    ids, mask = packed["input_word_ids"].numpy(), packed["input_mask"].numpy()
    lengths = mask.sum(axis=1)
    np.savez(path, ids=ids[mask > 0], lengths=lengths)
    return lengths

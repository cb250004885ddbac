"""Which vector of a sentence tells paraphrases: poolings, layers and weights compared on MRPC.

    python benchmarks/embeddings.py --model MODEL --pairs msr_paraphrase_train.txt

Every vector comes from one run of the encoder. Prints the area under the ROC curve of the cosine
and its mean over paraphrases and over other pairs, a row a vector, as a table for RESULTS.md.
"""

import argparse

import numpy as np
import tensorflow as tf
from sklearn.metrics import roc_auc_score

import bert_tf
from bert_tf.models.families import INPUTS
from bert_tf.tasks.embedding.model import make_pooling, pool_outputs, special_ids_of
from bert_tf.tasks.registry import read_task
from bert_tf.tokenization.load import load_tokenizer

FOUR = (-4, -3, -2, -1)
LAYERS = {"last": {"layers": (-1,)}, "second to last": {"layers": (-2,)},
          "last four, side by side": {"layers": FOUR},
          "last four, summed": {"layers": FOUR, "combine": "sum"}, "embeddings": {"layers": (0,)}}
WAYS = {"mean": {}, "mean without specials": {"mask_specials": True},
        "mean by IDF": {"weighting": "idf"}, "mean by BM25": {"weighting": "bm25"},
        "max": {"pooling": "max"}, "mean and max": {"pooling": "mean_max"},
        "[CLS]": {"pooling": "cls"}, "[SEP]": {"pooling": "sep"}}


def make_poolings(config, tokenizer, weights):
    """`{(way, layers): VectorPooling}`."""
    poolings = {}
    for way, options in WAYS.items():
        for layers, of in LAYERS.items():
            pooling = make_pooling(config, special_ids=special_ids_of(tokenizer), **options, **of)
            if pooling.term_weights is not None:
                pooling.term_weights.assign(weights.idf, weights.average_length)
            poolings[way, layers] = pooling
    return poolings


def embed(encoder, tokenizer, poolings, texts, seq_length=128, batch_size=64):
    """`{name: float32 [texts, width]}`."""
    @tf.function(reduce_retracing=True)
    def run(inputs):
        outputs = encoder.backbone({name: inputs[name] for name in INPUTS}, encoder_outputs=True)
        return [pool_outputs(pooling, inputs, outputs) for pooling in poolings.values()]

    vectors = {name: [None] * len(texts) for name in poolings}
    order = np.argsort([len(text) for text in texts])
    for start in range(0, len(order), batch_size):
        rows = order[start:start + batch_size]
        pieces = tokenizer.tokenize([texts[row] for row in rows])
        inputs = bert_tf.pack(tokenizer.vocabulary, [pieces], seq_length, fixed=False)
        for name, batch in zip(poolings, run(inputs), strict=True):
            for row, vector in zip(rows, batch.numpy(), strict=True):
                vectors[name][row] = vector
    return {name: np.stack(rows) for name, rows in vectors.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--pairs", required=True, help="MRPC's original file")
    parser.add_argument("--first", type=int, help="so many pairs only")
    arguments = parser.parse_args()
    encoder = bert_tf.from_pretrained(arguments.model, "encoder", dtype="float32")
    tokenizer = load_tokenizer(arguments.model)
    examples = read_task("mrpc", arguments.pairs)[:arguments.first]
    alike = np.array([example.label == "1" for example in examples])
    texts = [*(each.text_a for each in examples), *(each.text_b for each in examples)]
    weights = bert_tf.learn_term_weights(texts, tokenizer)
    poolings = make_poolings(encoder.config, tokenizer, weights)
    print(f"{len(examples):,} pairs, {alike.mean():.1%} paraphrases")
    print("| vector | layers | AUC | cosine of paraphrases | of others |\n|---|---|---|---|---|")
    for (way, layers), vectors in embed(encoder, tokenizer, poolings, texts).items():
        left, right = np.split(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), 2)
        cosine = np.sum(left * right, axis=1)
        print(f"| {way} | {layers} | {roc_auc_score(alike, cosine):.3f} "
              f"| {cosine[alike].mean():.3f} | {cosine[~alike].mean():.3f} |")


if __name__ == "__main__":
    main()

"""A tiny encoder and what its layers give for one sentence at a time, by hand."""

import functools

import numpy as np

from bert_tf.config import ModelConfig
from bert_tf.models.families import build_encoder
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

PIECES = ["the", "river", "bank", "money", "rate", "tree", "walk", "##s", "##ing", "은행", "##에서",
          "돈", "나무", "한강", ",", "."]
NAMES = [*SPECIAL_TOKENS, *PIECES]
CONFIG = ModelConfig(
    vocab_size=len(NAMES), hidden_size=16, num_hidden_layers=2,
    num_attention_heads=2, intermediate_size=32, max_position_embeddings=12,
    initializer_range=0.4)
SENTENCES = ["The river bank.", "Bank rates", "the tree, the river, the walk", "money money bank",
             "은행에서 돈", "walking"]


@functools.cache
def tokenizer():
    return Tokenizer(Vocabulary(NAMES), lower_case=True)


@functools.cache
def encoder():
    """Seeded; the same variables as of the folder that `save` writes."""
    return build_encoder(CONFIG, encoder_outputs=True, seed=4)


def save(folder):
    """Write a model folder and return its path as str."""
    encoder().save_pretrained(str(folder), tokenizer())
    return str(folder)


def tokens_of(text):
    """Pieces as the vocabulary writes them, `[CLS]` and `[SEP]` around them."""
    (row,) = tokenizer().tokenize([text])
    return ["[CLS]", *(NAMES[number] for number in row.numpy()), "[SEP]"]


def states_of(text):
    """float32 `[layers + 1, tokens, hidden]` and the pooled output, of one sentence alone."""
    ids = np.array([[NAMES.index(token) for token in tokens_of(text)]], "int32")
    outputs = encoder()({"input_word_ids": ids, "input_mask": np.ones_like(ids),
                         "input_type_ids": np.zeros_like(ids)})
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    return np.concatenate(states), outputs["pooled_output"].numpy()[0]


def rarity(texts):
    """`{weighting: [weights of the tokens of each text]}`, by the formulas."""
    tokens = [tokens_of(text) for text in texts]
    average = np.mean([len(row) for row in tokens])

    def idf(token):
        count = sum(token in row for row in tokens)
        return np.log(1 + (len(texts) - count + 0.5) / (count + 0.5))

    def bm25(token, row):
        return idf(token) / (row.count(token) + 1.2 * (0.25 + 0.75 * len(row) / average))

    return {"idf": [np.array([idf(token) for token in row]) for row in tokens],
            "bm25": [np.array([bm25(token, row) for token in row]) for row in tokens]}


def sentence_vectors(texts):
    """`{(pooling, layer): float [n, width]}` of all poolings, one sentence at a time."""
    rare = rarity(texts)
    vectors = {}
    for number, text in enumerate(texts):
        states, pooled = states_of(text)
        for layer, state in enumerate(states):
            ways = {"mean": state.mean(0), "max": state.max(0), "cls": state[0], "sep": state[-1],
                    "mean_max": np.concatenate([state.mean(0), state.max(0)]),
                    **{f"mean_{name}": np.average(state, axis=0, weights=of_texts[number])
                       for name, of_texts in rare.items()}}
            if layer == len(states) - 1:
                ways["cls_pooled"] = pooled
            for name, vector in ways.items():
                vectors.setdefault((name, layer), []).append(vector)
    return {choice: np.stack(rows) for choice, rows in vectors.items()}


def cosine(left, right):
    """Of two vectors, by hand."""
    return float(np.dot(left, right) / np.sqrt(np.dot(left, left) * np.dot(right, right)))

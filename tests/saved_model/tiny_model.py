"""A tiny model with random weights and a small vocabulary, and how to call its export."""

import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.models.pretrained import save_pretrained
from bert_tf.tasks.pretraining import Pretrainer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXTS = ["The quick brown fox [MASK] over the lazy dog.", "", "안녕하세요, [MASK] ㅋㅋ 😀 [MASK]!",
         "Café CAFÉ", "a [MASK] " * 40]
SEQ_LENGTH = 24
TOP_K = 3
WORDS = """
    the quick brown fox jumps over lazy dog . , ! a café cafe The Caf ##é ##C
    안녕 ##하세요 ㅋ ##ㅋ 😀 C ##A ##F ##É t h e ##h ##e
"""


def save_model(folder, next_sentence=True, lower_case=True):
    """A model folder with random weights, wide enough that answers differ."""
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS.split()]), lower_case=lower_case)
    config = ModelConfig(
        vocab_size=len(tokenizer.vocabulary), hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=SEQ_LENGTH,
        initializer_range=0.5)
    save_pretrained(folder, Pretrainer(config, "next_sentence" if next_sentence else None, seed=7),
                    tokenizer)
    return folder


class Caller:
    """Calls a SavedModel's signatures with lists; string outputs are arrays of bytes."""

    def __init__(self, version):
        self.signatures = tf.saved_model.load(version).signatures

    def __call__(self, signature, **inputs):
        function = self.signatures[signature]
        specs = function.structured_input_signature[1]
        tensors = {name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()}
        return {name: value.numpy() for name, value in function(**tensors).items()}

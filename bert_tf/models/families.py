"""The encoder families, and a functional model of any of them."""

import keras

from bert_tf.errors import check_choice
from bert_tf.models.bert import Bert

FAMILIES = {"bert": Bert}
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


def build_encoder(config, encoder_outputs=False, attention_probs=False, dtype=None, seed=None):
    """A functional Keras model of `config.family`, with the family's name.

    Inputs: a dict of `input_word_ids`, `input_mask` (1 = real token), `input_type_ids`, int32
    `[batch, seq_length]`, both axes free. Outputs: a dict, all float32:
    `sequence_output [batch, seq_length, hidden]` and `pooled_output [batch, hidden]`; on
    request `embedding_output` and the list `encoder_outputs`, each
    `[batch, seq_length, hidden]`, and the list `attention_probs`, each
    `[batch, heads, from, to]`. Its one layer, of the same name, holds the parts:
    `model.get_layer("bert").embeddings`, `.encoder`, `.pooler`, `.config`.

    Args:
        config: a `ModelConfig`.
        encoder_outputs: also return what every block gives, and the embeddings.
        attention_probs: also return the attention probabilities of every block.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer: equal seeds give equal initial weights, whatever is built before. None
            draws from Keras' own random state (`keras.utils.set_random_seed`).
    """
    family = FAMILIES[check_choice("family", config.family, FAMILIES)]
    layer = family(config, encoder_outputs, attention_probs, seed, name=config.family,
                   dtype=dtype)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}
    return keras.Model(inputs, layer(inputs), name=config.family)

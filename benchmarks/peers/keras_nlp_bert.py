"""keras-nlp (keras-hub) as a side of the benchmarks of speed, see `speed/worker.py`.

XLA is left off in training, which Keras would turn on: on CPUs it takes longer.
"""

import keras
import keras_nlp
import tensorflow as tf
from graphs import encoder_of

PACKAGES = ("keras-nlp", "keras-hub", "keras", "tensorflow")
NAMES = {"token_ids": "input_word_ids", "padding_mask": "input_mask",
         "segment_ids": "input_type_ids"}


def _backbone(config, policy):
    return keras_nlp.models.BertBackbone(
        vocabulary_size=config["vocab_size"], num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"], hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"], dropout=config["hidden_dropout_prob"],
        max_sequence_length=config["max_position_embeddings"],
        num_segments=config["type_vocab_size"],
        dtype=policy)


def encoder(config, dtype):
    """Compute in the type that the weights have."""
    return encoder_of(_backbone(config, dtype), NAMES)


def train_step(config, dtype, batches):
    """Keras' own step: weights float32, AdamW, gradients clipped, biases and LayerNorm not
    decayed."""
    model = keras_nlp.models.BertMaskedLM(_backbone(
        config, dtype if dtype == "float32" else f"mixed_{dtype}"))
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "layer_norm", "gamma", "beta"])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  jit_compile=False)
    prepared = [({**{name: tf.constant(batch[ours]) for name, ours in NAMES.items()},
                  "mask_positions": tf.constant(batch["masked_lm_positions"])},
                 tf.constant(batch["masked_lm_ids"]), tf.constant(batch["masked_lm_weights"]))
                for batch in batches]
    done = 0

    def step():
        nonlocal done
        inputs, labels, weights = prepared[done % len(prepared)]
        done += 1
        # Keras gives the mean over all batches so far unless the metrics begin anew.
        model.reset_metrics()
        return float(model.train_on_batch(inputs, labels, weights, return_dict=True)["loss"])

    return step

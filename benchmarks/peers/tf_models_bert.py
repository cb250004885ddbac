"""tf-models-official as a side of the benchmarks of speed, see `speed/worker.py`."""

import tensorflow as tf
import tf_keras
from graphs import encoder_of
from official.nlp import optimization
from official.nlp.modeling import models, networks

PACKAGES = ("tf-models-official", "tf_keras", "tensorflow")
NAMES = {name: name for name in ("input_word_ids", "input_mask", "input_type_ids")}


def _network(config, policy):
    tf_keras.mixed_precision.set_global_policy(policy)
    return networks.BertEncoderV2(
        vocab_size=config["vocab_size"], hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        max_sequence_length=config["max_position_embeddings"],
        type_vocab_size=config["type_vocab_size"], inner_dim=config["intermediate_size"],
        output_dropout=config["hidden_dropout_prob"],
        attention_dropout=config["attention_probs_dropout_prob"])


def encoder(config, dtype):
    """Compute in the type that the weights have."""
    return encoder_of(_network(config, dtype), NAMES)


def train_step(config, dtype, batches):
    """As its `MaskedLMTask` does it, weights float32; its AdamW clips the gradients."""
    policy = dtype if dtype == "float32" else f"mixed_{dtype}"
    model = models.BertPretrainerV2(_network(config, policy),
                                    mlm_activation=tf_keras.activations.gelu)
    optimizer = optimization.create_optimizer(1e-4, 1000, 0)

    @tf.function
    def train(batch):
        with tf.GradientTape() as tape:
            logits = tf.cast(model(batch, training=True)["mlm_logits"], tf.float32)
            losses = tf_keras.losses.sparse_categorical_crossentropy(
                batch["masked_lm_ids"], logits, from_logits=True)
            weights = batch["masked_lm_weights"]
            loss = tf.math.divide_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))
        # The pooler, for one, is not reached.
        variables = model.trainable_variables
        pairs = [pair for pair in zip(tape.gradient(loss, variables), variables, strict=True)
                 if pair[0] is not None]
        optimizer.apply_gradients(pairs)
        return loss

    prepared = [{name: tf.constant(array) for name, array in batch.items()} for batch in batches]
    done = 0

    def step():
        nonlocal done
        done += 1
        return float(train(prepared[done % len(prepared)]))

    return step

"""Updates of replaced token detection against the arithmetic of the ELECTRA paper, in NumPy.

Forward passes in float64 by the formulas of the papers; gradients by central differences, so that
nothing is shared with what is tested; clipping and AdamW as google-research/electra has them, which
corrects no bias of the moments: ours does, by a factor of the rate and of epsilon.
"""

import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored
from scipy import special
from scipy.special import erf

from bert_tf.config import ModelConfig
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens
from bert_tf.training.config import TrainConfig
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.step import make_train_step

CONFIG = ModelConfig.from_dict({
    "family": "electra", "vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 5,
    "embedding_size": 4, "initializer_range": 0.4, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0})
GENERATOR = CONFIG.replace(hidden_size=6, intermediate_size=8)
ORIGINALS = np.array([[2, 6, 7, 8, 3], [2, 9, 10, 3, 0], [2, 11, 5, 6, 3]])
MASKED_AT = np.array([[1, 3], [2, 0], [1, 2]])
USED = np.array([[1, 1], [1, 0], [1, 1]])
DRAWN = np.array([[9, 8], [5, 7], [6, 10]])  # one is right by chance
RATE = 0.01


def batch():
    rows, slots = np.nonzero(USED)
    words = ORIGINALS.copy()
    words[rows, MASKED_AT[rows, slots]] = 4
    values = {"input_word_ids": words, "input_mask": ORIGINALS > 0,
              "input_type_ids": np.zeros_like(words), "masked_lm_positions": MASKED_AT,
              "masked_lm_ids": USED * np.take_along_axis(ORIGINALS, MASKED_AT, 1)}
    return {**{name: value.astype("int32") for name, value in values.items()},
            "masked_lm_weights": USED.astype("float32"), "first_example": np.int64(0)}


def norm(x, weights, name):
    x = x - x.mean(-1, keepdims=True)
    scaled = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def dense(x, weights, name):
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def gelu(x):
    return x * (1 + erf(x / np.sqrt(2))) / 2


def encode(weights, ids, name, heads=2):
    """BERT's encoder of one layer over the embeddings that both models share."""
    at = "electra/embeddings"
    x = (weights[f"{at}/word_embeddings"][ids] + weights[f"{at}/token_type_embeddings"][0]
         + weights[f"{at}/position_embeddings"])
    x = dense(norm(x, weights, f"{at}/LayerNorm"), weights, f"{name}/embeddings_project")
    layer = f"{name}/encoder/layer_0"

    def split(part):
        y = dense(x, weights, f"{layer}/attention/self/{part}")
        return y.reshape(*y.shape[:2], heads, -1).swapaxes(1, 2)

    query, key, value = map(split, ("query", "key", "value"))
    scores = query @ key.swapaxes(2, 3) / np.sqrt(query.shape[-1])
    scores = scores - 1e4 * (ORIGINALS == 0)[:, None, None]
    mixed = (special.softmax(scores, -1) @ value).swapaxes(1, 2).reshape(x.shape)
    x = norm(x + dense(mixed, weights, f"{layer}/attention/output/dense"), weights,
             f"{layer}/attention/output/LayerNorm")
    inner = gelu(dense(x, weights, f"{layer}/intermediate/dense"))
    return norm(x + dense(inner, weights, f"{layer}/output/dense"), weights,
                f"{layer}/output/LayerNorm")


def total_loss(weights):
    """The generator's mean over predicted tokens + 50 times the discriminator's over real ones."""
    rows, slots = np.nonzero(USED)
    places = MASKED_AT[rows, slots]
    words, corrupted = ORIGINALS.copy(), ORIGINALS.copy()
    words[rows, places] = 4
    corrupted[rows, places] = DRAWN[rows, slots]
    hidden = gelu(dense(encode(weights, words, "generator")[rows, places], weights,
                        "generator_predictions/transform/dense"))
    hidden = norm(hidden, weights, "generator_predictions/transform/LayerNorm")
    logits = (hidden @ weights["electra/embeddings/word_embeddings"].T
              + weights["generator_predictions/output_bias"])
    generator = -special.log_softmax(logits, -1)[
        np.arange(len(rows)), ORIGINALS[rows, places]].mean()
    hidden = gelu(dense(encode(weights, corrupted, "electra"), weights,
                        "discriminator_predictions/dense"))
    logit = dense(hidden, weights, "discriminator_predictions/dense_1")[..., 0]
    losses = np.logaddexp(0, np.where(corrupted != ORIGINALS, -logit, logit))
    return generator + 50 * losses[ORIGINALS > 0].mean()


def differences(weights, step=1e-5):
    """Central differences of the loss by every number."""
    gradients = {name: np.zeros_like(value) for name, value in weights.items()}
    for name, value in weights.items():
        for place in np.ndindex(value.shape):
            before, ends = value[place], []
            for end in (before + step, before - step):
                value[place] = end
                ends.append(total_loss(weights))
            value[place] = before
            gradients[name][place] = (ends[0] - ends[1]) / (2 * step)
    return gradients


def official_update(weights, moments, number, rate, epsilon):
    """One update in place; returns the global norm before clipping."""
    gradients = differences(weights)
    size = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
    corrected = np.sqrt(1 - 0.999**number) / (1 - 0.9**number)  # not in the original
    for name, gradient in gradients.items():
        clipped = gradient / max(size, 1.0)
        first, second = moments.get(name, (0.0, 0.0))
        first, second = 0.9 * first + 0.1 * clipped, 0.999 * second + 0.001 * clipped**2
        moments[name] = first, second
        update = first / (np.sqrt(second) + epsilon * np.sqrt(1 - 0.999**number)) * corrected
        if not any(part in name for part in ("LayerNorm", "bias")):
            update = update + 0.01 * weights[name]
        weights[name] -= rate * update
    return size


def test_two_updates_are_those_of_the_paper(eager):
    class Given(ReplacedTokens):
        def sample(self, logits):
            return tf.constant(DRAWN, tf.int32)

    # A large epsilon: where a gradient is 0, as that of a key's bias, rounding would decide.
    config = TrainConfig(train_steps=10, warmup_steps=2, learning_rate=RATE, batch_size=3,
                         epsilon=1e-3, strategy="one_device")
    strategy = mirrored(1)
    with strategy.scope():
        model = Given(CONFIG, GENERATOR, seed=2)
        optimizer = build_optimizer(config)
        optimizer.build(model.trainable_variables)
    step = make_train_step(model, optimizer, strategy, config)
    weights = {v.path: v.numpy().astype("float64") for v in model.trainable_variables}
    moments, start = {}, {name: value.copy() for name, value in weights.items()}
    iterator = iter(tf.data.Dataset.from_tensors(batch()).repeat())
    for number, rate in ((1, RATE / 2), (2, RATE)):
        loss = total_loss(weights)
        size = official_update(weights, moments, number, rate, config.epsilon)
        results, _ = step(iterator, tf.constant(number - 1, tf.int64), tf.constant(False), {})
        assert float(results["loss"]) == pytest.approx(loss, rel=1e-5)
        assert float(results["gradient_norm"]) == pytest.approx(size, rel=1e-4) and size > 2
        for variable in model.trainable_variables:
            np.testing.assert_allclose(variable.numpy(), weights[variable.path], atol=2e-5,
                                       err_msg=f"{variable.path} after {number}")
    moved = [np.abs(weights[name] - before).max() for name, before in start.items()]
    assert np.median(moved) > 100 * 2e-5

"""Our side of the benchmarks of speed, see `speed/worker.py`."""

import numpy as np
import tensorflow as tf

from bert_tf import cores, side_by_side
from bert_tf.config import ModelConfig
from bert_tf.layers.inference import for_inference
from bert_tf.layers.substitutes import computed_with
from bert_tf.models.families import INPUTS, build_encoder
from bert_tf.saved_model.constant_kernels import with_constant_kernels
from bert_tf.saved_model.int8_weights import Int8Weights
from bert_tf.saved_model.quantize import layer_inputs
from bert_tf.saved_model.served_layer_norm import served_layer_norm

PACKAGES = ("tensorflow", "keras", "tensorflow-text")


def encoder(config, dtype):
    """Weights of the type that is computed in; padding is left out; any shape of batch.

    In bfloat16 kernels do not change, as in the embedded server. In int8 the layers' inputs
    have the ranges of drawn tokens.
    """
    whole = dtype == "int8"
    model = build_encoder(ModelConfig.from_dict(config), dtype="float32" if whole else dtype,
                          seed=1)
    model.backbone.padding_free = True
    signature = {name: tf.TensorSpec([None, None], tf.int32, name) for name in INPUTS}
    weights = _int8_weights(model, config) if whole else None

    @tf.function
    def traced(inputs):
        with computed_with(weights), for_inference(served_layer_norm):
            return model(inputs, training=False)["sequence_output"]

    forward = with_constant_kernels(traced.get_concrete_function(signature))

    def prepare(batch, fixed):
        return {name: tf.constant(array) for name, array in batch.items()}

    return prepare, lambda inputs: forward(inputs).numpy()


def _int8_weights(model, config):
    ids = np.random.default_rng(1).integers(config["vocab_size"], size=[8, 128], dtype=np.int32)
    inputs = dict(zip(INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
    return Int8Weights(model, layer_inputs(model, lambda: model(inputs, training=False)))


def train_step(config, dtype, batches, gradient_checkpointing=False):
    """As `bert_tf.pretrain` does it."""
    from bert_tf.data.made_ahead import made_ahead
    from bert_tf.tasks.pretraining.masked_lm import Pretrainer
    from bert_tf.training.config import TrainConfig
    from bert_tf.training.optimizers import build_optimizer
    from bert_tf.training.step import initial_loss_scale, make_train_step
    from bert_tf.training.strategy import HALVES, make_batches, make_strategy

    if not gradient_checkpointing:
        side_by_side.set_threads(cores.usable(), HALVES)
    settings = TrainConfig(batch_size=len(batches[0]["input_mask"]), dtype=dtype,
                           gradient_checkpointing=gradient_checkpointing)
    strategy = make_strategy(settings.strategy)
    with strategy.scope():
        model = Pretrainer(ModelConfig.from_dict(config), sentence_task=None,
                           dtype=settings.policy, seed=1)
        model.backbone.gradient_checkpointing = gradient_checkpointing
        optimizer = build_optimizer(settings)
        optimizer.build(model.trainable_variables)

    def dataset(num_replicas, replicas):
        stacked = {name: [batch[name] for batch in batches] for name in batches[0]}
        first = [number * settings.batch_size for number in range(len(batches))]
        return made_ahead(tf.data.Dataset.from_tensor_slices(
            {**stacked, "first_example": tf.constant(first, tf.int64)}).repeat(),
            lambda each: each, 2)

    iterator = iter(make_batches(strategy, dataset))
    train = make_train_step(model, optimizer, strategy, settings)
    state = {"done": 0, "scale": initial_loss_scale(settings)}

    def step():
        results, state["scale"] = train(iterator, tf.constant(state["done"], tf.int64),
                                        tf.constant(False), state["scale"])
        state["done"] += 1
        return float(results["loss"])

    return step


def embedder(model, dtype):
    """A `Predictor` of the SavedModel in the folder `model`, exported with that type.

    It makes batches of texts of like length by their characters, whatever the batch size, and
    computes as many side by side as there are threads, each on a core, as `bert_tf.predict` does.
    """
    import bert_tf

    num_threads = side_by_side.set_threads(cores.usable())
    predictor = bert_tf.Predictor(model, "embed", num_threads=num_threads)
    return lambda texts, batch_size: predictor(texts)[predictor.vector]

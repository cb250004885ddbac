"""One training step and one evaluation step over all replicas.

A model is trained through its accounting methods (see `bert_tf/tasks/base/objective.py`):
`loss_weights(batch)`, `loss_sums(outputs, batch)`, `metric_sums(outputs, batch)`, `loss_scales` and
`whole_batch_loss`.
"""

import contextlib

import tensorflow as tf

from bert_tf import side_by_side
from bert_tf.randomness import draw_at
from bert_tf.training.strategy import HALVES, next_batches

INITIAL_LOSS_SCALE = 2.0**15
GROWTH_INTERVAL = 2000


def initial_loss_scale(config):
    """Return the state of dynamic loss scaling: `{}` unless the layers compute in float16.

    `loss_scale` is float32, `good_steps` int32: the steps since it changed.
    """
    if config.dtype != "float16":
        return {}
    return {"loss_scale": tf.constant(INITIAL_LOSS_SCALE), "good_steps": tf.constant(0)}


def _next_loss_scale(state, finite):
    """Halve after a step that was skipped, double after enough good ones."""
    good_steps = tf.where(finite, state["good_steps"] + 1, 0)
    grow = good_steps >= GROWTH_INTERVAL
    scale = state["loss_scale"] * tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
    return {"loss_scale": scale, "good_steps": tf.where(grow, 0, good_steps)}


def _clipped(gradients, norm, limit):
    """Clip gradients to the global norm `limit`; those of a smaller one are not gone through
    again."""
    return tf.cond(norm <= limit, lambda: gradients,
                   lambda: tf.clip_by_global_norm(gradients, limit, use_norm=norm)[0])


def _sum_over_replicas(values):
    """Sum a structure of scalars over all replicas, in one reduction."""
    flat = [tf.cast(value, tf.float32) for value in tf.nest.flatten(values)]
    context = tf.distribute.get_replica_context()
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.stack(flat))
    return tf.nest.pack_sequence_as(values, tf.unstack(total))


def means(loss_sums, weights, metric_sums, scales):
    """Return `{"loss": …, "<name>_loss": …, <metrics>}` from sums over all replicas.

    `loss` is the sum of the means, each times its factor in `scales`, 1 where that has none.
    """
    losses = {f"{name}_loss": tf.math.divide_no_nan(value, weights[name])
              for name, value in loss_sums.items()}
    metrics = {name: tf.math.divide_no_nan(value, weight)
               for name, (value, weight) in metric_sums.items()}
    loss = tf.add_n([scales.get(name, 1.0) * losses[f"{name}_loss"] for name in loss_sums])
    return {"loss": loss, **losses, **metrics}


def _part_of(batch, index, size):
    """Return the `index`-th part of `size` examples of a replica's batch, at its own draw
    position."""
    part = {name: value[index * size:(index + 1) * size] if value.shape.rank else value
            for name, value in batch.items()}
    part["first_example"] += tf.cast(index * size, part["first_example"].dtype)
    return part


def _of_each_part(batch, parts, compute, *arguments):
    """Return the list of `compute(part, *arguments)` over parts of a replica's batch."""
    if parts == 1:
        return [compute(batch, *arguments)]
    size = -(-batch["input_mask"].shape[0] // parts)
    compute = tf.function(compute, autograph=False)  # of which parts of one size share a trace
    return [compute(_part_of(batch, index, size), *arguments) for index in range(parts)]


def _added(found):
    return tf.nest.map_structure(lambda *values: tf.add_n(values), *found)


def _joined(found):
    return tf.nest.map_structure(lambda *values: tf.concat(values, 0), *found)


def _inputs(batch):
    return {name: value for name, value in batch.items() if name != "first_example"}


def make_train_step(model, optimizer, strategy, config, average=None, rows=None):
    """Make the step as a `tf.function`, which updates the `WeightAverage`, too, if there is one,
    and with `TrainedRows` these instead of the table.

    Loss and gradients are those of the whole batch, whatever the number of replicas and of
    micro-batches: weights (numbers of predicted tokens, of examples) are summed over all replicas
    first, each replica divides its sums by them, and gradients are summed over the replicas, then
    clipped by their global norm, then applied once. On a processor the halves of a batch are
    computed side by side, see `halves_of_step`.

    Returns:
        `train_step(iterator, step, stop, loss_scale)`: the distributed iterator, the number of
        finished steps (int64), whether this process was asked to stop (bool) and the state of
        `initial_loss_scale`; gives `(results, loss_scale)`. `results` are float32 scalars, the
        same in every process: `loss`, each loss and metric, `learning_rate`, `gradient_norm`
        (before clipping), `tokens` (real ones) and `stop` (above 0 where any process was asked).
    """
    variables = model.trainable_variables
    if rows:
        variables = rows.trained(variables)
    count = config.accumulate_steps
    per_replica = config.batch_size // strategy.num_replicas_in_sync
    size = per_replica // count
    halves = halves_of_step(strategy, config)

    def outputs_of(part, step):
        in_place = rows.in_place() if rows else contextlib.nullcontext()
        with draw_at(config.seed, step, part["first_example"]), in_place:
            return model(_inputs(part), training=True)

    def loss_sums(outputs, inputs, step):
        progress = tf.cast(step, tf.float32) / config.train_steps
        return model.loss_sums(outputs, {**inputs, "progress": progress})

    def scaled_loss(sums, weights, scale):
        return scale * tf.add_n([
            model.loss_scales.get(name, 1.0) * tf.math.divide_no_nan(value, weights[name])
            for name, value in sums.items()])

    def gradients_of(loss, tape):
        gradients = tape.gradient(loss, [variable.value for variable in variables],
                                  unconnected_gradients=tf.UnconnectedGradients.ZERO)
        # A variable that the loss does not reach has 0; slices of a table add up and are reduced
        # in a fixed order once they are dense.
        return [tf.convert_to_tensor(gradient) for gradient in gradients]

    def part_gradients(part, weights, step, scale):
        inputs = _inputs(part)
        with tf.GradientTape() as tape:
            outputs = _joined(_of_each_part(part, halves, outputs_of, step)) if (
                model.whole_batch_loss) else outputs_of(part, step)
            sums = loss_sums(outputs, inputs, step)
            loss = scaled_loss(sums, weights, scale)
        return gradients_of(loss, tape), (sums, model.metric_sums(outputs, inputs))

    def sum_over_parts(batch, compute):
        """Sum `compute(index, part)` over the micro-batches, one's activations at a time."""
        def add_part(index, totals):
            found = compute(index, _part_of(batch, index, size))
            return index + 1, tf.nest.map_structure(tf.add, totals, found)

        # A loop, not `count` copies of the graph.
        first = compute(0, _part_of(batch, 0, size))
        return tf.while_loop(lambda index, totals: index < count, add_part, (1, first),
                             parallel_iterations=1)[1]

    def cached_gradients(batch, weights, step, scale):
        """Compute the gradients of a loss of all outputs together by gradient caching.

        Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
        section 3.2: outputs first, without keeping activations; the loss and its gradient by the
        outputs; then each micro-batch again, with the same dropout, for the gradient by weights.
        """
        outputs = tf.map_fn(
            lambda index: outputs_of(_part_of(batch, index, size), step), tf.range(count),
            fn_output_signature=tf.float32, parallel_iterations=1)
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            whole = tf.ensure_shape(
                tf.reshape(outputs, tf.concat([[per_replica], tf.shape(outputs)[2:]], 0)),
                [per_replica, *outputs.shape[2:]])
            sums = loss_sums(whole, _inputs(batch), step)
            loss = scaled_loss(sums, weights, scale)
        upstream = tape.gradient(loss, outputs)

        def compute(index, part):
            with tf.GradientTape() as tape:
                product = tf.reduce_sum(outputs_of(part, step) * upstream[index])
            return gradients_of(product, tape)

        return sum_over_parts(batch, compute), (sums, model.metric_sums(whole, _inputs(batch)))

    def batch_gradients(batch, *arguments):
        if count == 1:
            parts = 1 if model.whole_batch_loss else halves
            return _added(_of_each_part(batch, parts, part_gradients, *arguments))
        if model.whole_batch_loss:
            return cached_gradients(batch, *arguments)
        return sum_over_parts(batch, lambda _, part: part_gradients(part, *arguments))

    def replica_step(batch, step, stop, scale):
        weights, tokens, stop = _sum_over_replicas(
            (model.loss_weights(batch), tf.reduce_sum(batch["input_mask"]), stop))
        gradients, sums = batch_gradients(batch, weights, step, scale)
        loss_sums, metric_sums = _sum_over_replicas(sums)
        gradients = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, gradients)
        if config.dtype == "float16":
            gradients = [gradient / scale for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        gradients = _clipped(gradients, norm, config.clip_norm)
        results = {**means(loss_sums, weights, metric_sums, model.loss_scales),
                   "gradient_norm": norm, "tokens": tokens, "stop": stop}
        return gradients, results

    def apply(gradients):
        optimizer.apply_reduced(strategy, gradients, variables)
        if average is not None:
            average.update(strategy, optimizer.iterations)

    @tf.function(autograph=False)
    def train_step(iterator, step, stop, loss_scale):
        scale = loss_scale.get("loss_scale", tf.constant(1.0))
        learning_rate = tf.cast(optimizer.learning_rate, tf.float32)
        gradients, results = strategy.run(replica_step, args=(
            next_batches(strategy, iterator), step, stop, scale))
        results = _of_first_replica(strategy, results)
        if loss_scale:
            finite = tf.math.is_finite(results["gradient_norm"])
            tf.cond(finite, lambda: apply(gradients), lambda: None)
            loss_scale = _next_loss_scale(loss_scale, finite)
        else:
            apply(gradients)
        return {**results, "learning_rate": learning_rate, **loss_scale}, loss_scale

    return train_step


def make_eval_step(model, strategy, seed):
    """Make the evaluation step as a `tf.function`; what a model draws is fixed by `seed`.

    Returns:
        `eval_step(iterator)`: gives `(loss_sums, weights, metric_sums)` of one step's batches
        over all replicas, float32 scalars, to be added up.
    """
    def outputs_of(batch):
        with draw_at(seed, 0, batch["first_example"]):
            return model(_inputs(batch), training=False)

    def sums_of(batch, outputs):
        return (model.loss_sums(outputs, _inputs(batch)), model.loss_weights(_inputs(batch)),
                model.metric_sums(outputs, _inputs(batch)))

    def replica_step(batch):
        halves = halves_of(strategy, batch["input_mask"].shape[0])
        return _sum_over_replicas(
            sums_of(batch, _joined(_of_each_part(batch, halves, outputs_of)))
            if model.whole_batch_loss else
            _added(_of_each_part(batch, halves, lambda part: sums_of(part, outputs_of(part)))))

    @tf.function(autograph=False)
    def eval_step(iterator):
        return _of_first_replica(strategy, strategy.run(
            replica_step, args=(next_batches(strategy, iterator),)))

    return eval_step


def halves_of_step(strategy, config):
    """Return into how many parts, computed side by side, a step divides a replica's batch: see
    `halves_of`; 1 beside micro-batches or recomputed activations, which are for less memory."""
    if config.accumulate_steps > 1 or config.gradient_checkpointing:
        return 1
    return halves_of(strategy, config.batch_size // strategy.num_replicas_in_sync)


def halves_of(strategy, rows):
    """Return into how many parts, computed side by side, a replica's batch of so many rows is
    divided: `HALVES` where `set_threads` has set this process to it, else 1."""
    divides = side_by_side.at_once() > 1 and strategy.num_replicas_in_sync == 1
    return HALVES if divides and (rows or 0) >= HALVES else 1


def _of_first_replica(strategy, values):
    """Return values that are the same on every replica, as plain tensors."""
    return tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0],
                                 values)

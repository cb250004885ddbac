"""Teacher and student as one model that `training.loop.train` trains."""

import keras
import tensorflow as tf

from bert_tf.distill import objectives
from bert_tf.distill.config import OF_OUTPUT, OF_VECTORS, DistillConfig
from bert_tf.errors import UsageError, explain
from bert_tf.layers.dense import Dense
from bert_tf.models.families import INPUTS
from bert_tf.models.states import hidden_states, states_of
from bert_tf.tasks.embedding.gather import gather_batch

_OUTPUT_LOSSES = {"single_label": objectives.probabilities,
                  "multi_label": objectives.independent_probabilities}


class Distiller(keras.Model):
    """A student that learns what a teacher says, by the accounting methods of `training/step.py`.

    Batches are dicts of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]`,
    float32 `teacher_output [b, width]` and `example_weights [b]`.

    Args:
        student: an embedder or a classifier.
        teacher: the same; runs with every batch where states or relations are learned.
        config: `DistillConfig`, complete.
        layers: for each of the student's layers the teacher's that it corresponds to.

    Raises:
        UsageError: no heads divide both widths; the teacher of an objective of vectors predicts
            labels; a temperature is given where no logits are divided by it.
    """

    def __init__(self, student, teacher, config, layers, **kwargs):
        super().__init__(**kwargs)
        self.student = student
        self.objectives = config.objectives
        self.whole_batch_loss = "similarities" in config.objectives  # see `Objective`
        self.temperature = config.temperature
        self.problem = getattr(student, "problem", None)
        of_vectors = [name for name in config.objectives if name in OF_VECTORS]
        if of_vectors and self.problem is not None:
            raise UsageError(explain(f"--objectives {of_vectors[0]} with a teacher that predicts "
                                     "labels", "an embedder", "--objectives output"))
        if config.temperature != DistillConfig.temperature and (
                self.problem not in _OUTPUT_LOSSES):
            raise UsageError(f"--temperature {config.temperature:g} with a teacher that predicts "
                             "no labels; omit it")
        self.layer_map = layers
        self.needs_states = not set(config.objectives) <= set(OF_OUTPUT)
        # In a function, so that Keras takes the teacher for no part of this model.
        self._teacher = lambda: teacher.encoder
        self.relation_heads = None
        if "relations" in config.objectives:
            self.relation_heads = _relation_heads(teacher.config, student.config,
                                                  config.relation_heads)
        self.projections = []
        if "hidden" in config.objectives and (
                teacher.config.hidden_size != student.config.hidden_size):
            for number in range(len(layers) + 1):
                projection = Dense(teacher.config.hidden_size, seed=config.seed, dtype="float32",
                                   use_bias=False, name=f"projection_{number}")
                with keras.name_scope("distill"):
                    projection.build((None, None, student.config.hidden_size))
                self.projections.append(projection)
        self.built = True

    loss_scales = {}

    def call(self, batch, training=False):
        """Compute what the losses need: `output`, and where states are learned `states`, lists of
        the teacher's and the student's."""
        inputs = {name: batch[name] for name in INPUTS}
        if not self.needs_states:
            return {"output": tf.cast(self.student(inputs, training=training), tf.float32)}
        found = self.student.encoder.backbone(inputs, training=training, encoder_outputs=True)
        output = self.student.result_of(inputs, found, training)
        return {"output": tf.cast(output, tf.float32), "states": (
            hidden_states(self._teacher(), inputs), states_of(found))}

    def loss_weights(self, batch):
        """Return `{objective: float32 scalar}`: texts, or tokens, of a batch."""
        tokens = tf.reduce_sum(self._token_weights(batch))
        texts = tf.reduce_sum(batch["example_weights"])
        return {name: texts if name in OF_OUTPUT else tokens for name in self.objectives}

    def loss_sums(self, outputs, batch):
        """Return `{objective: float32 scalar}`, summed over texts or tokens."""
        losses = {"output": self._output_loss, "directions": self._directions_loss,
                  "similarities": self._similarities_loss, "hidden": self._hidden_loss,
                  "relations": self._relations_loss}
        return {name: losses[name](outputs, batch) for name in self.objectives}

    def metric_sums(self, outputs, batch):
        """Return how near the student's answers are: `cosine` of vectors, `agreement` of labels,
        `error` of numbers, each `(sum, weight)`."""
        taught, learned, weights = (batch["teacher_output"], outputs["output"],
                                    batch["example_weights"])
        if self.problem is None:
            name, near = "cosine", 1.0 - objectives.directions(taught, learned)
        elif self.problem == "regression":
            name, near = "error", tf.abs(taught - learned)[:, 0]
        elif self.problem == "multi_label":
            name, near = "agreement", tf.reduce_mean(
                tf.cast((taught > 0) == (learned > 0), tf.float32), -1)
        else:
            name, near = "agreement", tf.cast(
                tf.argmax(taught, -1) == tf.argmax(learned, -1), tf.float32)
        return {name: (tf.reduce_sum(weights * near), tf.reduce_sum(weights))}

    def _token_weights(self, batch):
        return tf.cast(batch["input_mask"], tf.float32) * batch["example_weights"][:, tf.newaxis]

    def _output_loss(self, outputs, batch):
        taught, learned = batch["teacher_output"], outputs["output"]
        if self.problem in _OUTPUT_LOSSES:
            losses = _OUTPUT_LOSSES[self.problem](taught, learned, self.temperature)
        else:
            losses = objectives.vectors(taught, learned)
        return tf.reduce_sum(batch["example_weights"] * losses)

    def _directions_loss(self, outputs, batch):
        return tf.reduce_sum(batch["example_weights"] * objectives.directions(
            batch["teacher_output"], outputs["output"]))

    def _similarities_loss(self, outputs, batch):
        taught, weights = batch["teacher_output"], batch["example_weights"]
        return tf.reduce_sum(weights * objectives.similarities(
            taught, outputs["output"], gather_batch(taught), gather_batch(weights)))

    def _hidden_loss(self, outputs, batch):
        mask, (taught, learned) = batch["input_mask"] > 0, outputs["states"]
        losses = []
        for number, layer in enumerate((-1, *self.layer_map)):
            state = learned[number]
            if self.projections:
                state = self.projections[number](state)
            losses.append(objectives.states(taught[layer + 1], state, mask))
        return tf.reduce_sum(self._token_weights(batch) * tf.add_n(losses) / len(losses))

    def _relations_loss(self, outputs, batch):
        mask, (taught, learned) = batch["input_mask"] > 0, outputs["states"]
        losses = [objectives.relations(tf.stop_gradient(old), new, mask, self.relation_heads)
                  for old, new in zip(_last_relations(self._teacher(), taught),
                                      _last_relations(self.student.encoder, learned), strict=True)]
        return tf.reduce_sum(self._token_weights(batch) * tf.add_n(losses) / len(losses))


def _last_relations(encoder, states):
    """Return the last layer's queries, keys and values, float32 `[b, seq_length, …]`."""
    block = encoder.backbone.encoder.blocks[-1]
    own = block.attention.self_attention
    attending, values = (tf.cast(each, own.compute_dtype) for each in block.entering(states[-2]))
    return [tf.cast(projected, tf.float32)
            for projected in (own.queries(attending), own.keys(attending), own.value(values))]


def _relation_heads(teacher, student, asked):
    """Return how many heads relations are computed in.

    Raises:
        UsageError: they do not divide the widths of either's queries, keys and values.
    """
    widths = [width for config in (teacher, student)
              for width in (config.query_size, config.key_value_size)]
    if asked is None:
        return max(heads for heads in range(1, teacher.num_attention_heads + 1)
                   if not any(width % heads for width in widths))
    if any(width % asked for width in widths):
        raise UsageError(explain(f"--relation_heads {asked} with widths of "
                                 f"{' and '.join(map(str, dict.fromkeys(widths)))}",
                                 "a number that divides them"))
    return asked

"""A model with another vocabulary: of its tables, rows that stay and rows made of those before."""

import copy

import numpy as np

from bert_tf.config import ModelConfig
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.errors import UsageError, explain

_NOISE = 0.1  # of the deviation of each column: what keeps rows of unknown pieces apart


def with_vocabulary(checkpoint, kept, made, tokenizer, seed=0):
    """Give a model other rows for its pieces, and leave all else as it is.

    Tables of a row for each piece are the word embeddings, the output bias of a masked-LM head, of
    a generator too, and term weights. A new row is the mean of others (Hong et al. 2021, "AVocaDo:
    Strategy for Adapting Vocabulary to Downstream Domain"); where a piece is made of nothing known,
    the mean of all that are kept, in tables of vectors with a tenth of each column's deviation as
    noise.

    Args:
        checkpoint: a `Checkpoint`.
        kept: ids of the pieces that stay, ascending; they come first.
        made: for each new piece the ids of those it is made of, before this change; perhaps none.
        tokenizer: folder of the new tokenizer.
        seed: of the noise.

    Returns:
        `Checkpoint`.

    Raises:
        UsageError: the model has not as many rows, no place for them, or counts positions from a
            padding id that would be another.
    """
    config, task = checkpoint.config, checkpoint.task
    place = {int(number): index for index, number in enumerate(kept)}
    most = max(max(place, default=0), *(max(ids, default=0) for ids in made), 0)
    if most >= config.vocab_size:
        raise UsageError(explain(f"piece {most} of a model with vocab_size={config.vocab_size}",
                                 "the vocabulary of this model"))
    padding = place.get(config.padding_id)
    if padding is None or (config.positions_from_padding and padding != config.padding_id):
        raise UsageError(explain(f"padding_id={config.padding_id} would be {padding}",
                                 "all pieces up to that one among those that are kept"))
    tables = _tables(config, task)
    new_config, new_task = _resized(config, task, len(place) + len(made), padding)
    for options in options_with_ids(new_task):
        options["special_ids"] = [place[number] for number in options["special_ids"]]

    def load(name):
        values = checkpoint.tensors[name]
        return _rows(values, list(place), made, seed) if name in tables else values

    return Checkpoint(new_config, new_task, Tensors(parameter_shapes(new_config, new_task), load),
                      tokenizer)


def options_with_ids(task):
    """Return the dicts of a task, of itself and of parts of it, that name pieces: `special_ids`."""
    return [options for options in (task, task.get("query_table") or {})
            if options.get("special_ids")]


def _tables(config, task):
    """Names of the variables that have a row for each piece: those that grow with it."""
    shapes = parameter_shapes(config, task)
    larger = parameter_shapes(*_resized(config, task, config.vocab_size + 1, config.padding_id))
    return {name for name, shape in shapes.items() if larger[name] != shape}


def _resized(config, task, vocab_size, padding_id):
    changes = {"vocab_size": vocab_size, "padding_id": padding_id}
    if task.get("generator"):
        generator = ModelConfig.from_dict(task["generator"]).replace(**changes)
        task = {**task, "generator": generator.to_dict()}
    return config.replace(**changes), copy.deepcopy(task)


def _rows(table, kept, made, seed):
    """The rows of a table: float32 `[len(kept) + len(made), …]`."""
    rows = np.empty((len(kept) + len(made), *table.shape[1:]), table.dtype)
    rows[:len(kept)] = table[kept]
    mean, deviation = rows[:len(kept)].mean(0), rows[:len(kept)].std(0)
    draws = np.random.default_rng(seed)
    for index, ids in enumerate(made, len(kept)):
        if ids:
            rows[index] = table[list(ids)].mean(0)
        else:
            noise = draws.standard_normal(table.shape[1:]) if table.ndim > 1 else 0
            rows[index] = mean + _NOISE * deviation * noise
    return rows

"""Exported graphs, given tensors of any shape, bytes and ids, as nothing in TF Serving hinders.

What a signature states is answered with as many rows, all else is INVALID_ARGUMENT; the process
lives. TensorFlow's function calls compare no shapes either, so that the graph is on its own here.
"""

import importlib
import math
import pathlib
import sys

from fuzzing.target import Bytes, Target, folder

EXPORTS = ("several", "gpt", "albert", "span", "tagger")  # every tokenizer, every kind of input
_SHAPES = ((), (0,), (1,), (2,), (3,), (1, 0), (0, 2), (2, 2), (2, 3), (3, 2), (1, 1, 1), (2, 1, 0))
_NUMBERS = (0, 1, 2, 5, 29, -1, 60, 300, 2**31 - 1, -2**31)
_SEEDS = tuple(bytes([export, signature, *shapes, *b"\0\1\1\0"]) + text
               for export in range(len(EXPORTS)) for signature in range(9)
               for shapes in ((3, 3, 3), (8, 8, 8)) for text in (b"the quick\0fox [MASK]", b"\xff"))


def _made():
    """The exports' signatures, and the configurations of the models."""
    import tensorflow as tf

    path = str(pathlib.Path(__file__).parents[2] / "saved_model")
    if path not in sys.path:
        sys.path.append(path)
    tiny = importlib.import_module("tiny_model")
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    from bert_tf.config import ModelConfig
    from bert_tf.models.pretrained import CONFIG

    for name in EXPORTS:
        model, version = tiny.export_once(folder(), name)
        loaded = tf.saved_model.load(version)
        yield loaded, loaded.signatures, ModelConfig.load(str(pathlib.Path(model, CONFIG)))


def _tensor(data, text):
    """A tensor of a shape and of values that bytes choose."""
    import tensorflow as tf

    shape = data.pick(_SHAPES)
    size = math.prod(shape)
    if not text:
        usual = data.byte() % 4  # mostly numbers that are in range somewhere
        return tf.constant([data.pick(_NUMBERS[:2] if usual else _NUMBERS)
                            for _ in range(size)], tf.int32, shape)
    parts = data.rest.split(b"\0") if data.rest else [b""]
    return tf.constant([parts[place % len(parts)] for place in range(size)], tf.string, shape)


def _is_right(inputs, specs, config):
    limits = {"input_word_ids": config.vocab_size, "input_mask": 2,
              "input_type_ids": max(1, config.type_vocab_size)}
    ranked = all(value.shape.rank == specs[name].shape.rank for name, value in inputs.items())
    same = ranked and all(
        len({tuple(value.shape)[:rank] for value in inputs.values()
             if value.shape.rank >= rank}) <= 1 for rank in (1, 2))
    return same and all(0 <= number < limits[name] for name, value in inputs.items()
                        if name in limits for number in value.numpy().ravel().tolist())


def _graphs():
    import tensorflow as tf

    made = [*_made()]

    def check(data):
        data = Bytes(data)
        _, signatures, config = data.pick(made)
        function = signatures[data.pick(sorted(signatures))]
        specs = function.structured_input_signature[1]
        inputs = {name: _tensor(data, spec.dtype == tf.string)
                  for name, spec in sorted(specs.items())}
        right = _is_right(inputs, specs, config)
        try:
            outputs = function(**inputs)
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            # Examples are to be parsed, too; of those an error quotes bytes that may be no text.
            assert "inputs" in inputs or not (right or isinstance(error, ValueError)), inputs
            return
        assert right, inputs
        rows = next(iter(inputs.values())).shape[0]
        assert all(output.shape[0] == rows for output in outputs.values()), (inputs, outputs)

    return check


TARGETS = (Target("graphs", _graphs, _SEEDS, 400_000, 256),)

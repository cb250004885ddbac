"""A model folder: configuration, what the model is, tokenizer files, a checkpoint by paths."""

import os

from bert_tf.errors import UsageError, explain
from bert_tf.storage import checksums, files, variables

CONFIG = "model_config.json"
TASK = "task.json"
CHECKPOINT = "model"


class Saved:
    """Mixin of Keras models that can be written as a model folder.

    The class has `config`, a `ModelConfig`, and `task_config()`, what `task.json` says of it.
    """

    def save_pretrained(self, folder, tokenizer=None):
        """Write a model folder, which `bert_tf.from_pretrained` reads; see `save_pretrained`."""
        save_pretrained(folder, self, tokenizer)


def save_pretrained(folder, model, tokenizer=None):
    """Write `model_config.json`, `task.json`, the checkpoint `model` and the tokenizer's files.

    Args:
        folder: a new folder; it appears whole or not at all.
        model: a `Saved` Keras model; every variable is stored under its path, which for BERT is
            its name in the official checkpoint.
        tokenizer: anything with `save(folder)`; None is that of the model's `reader`, if any.

    Adapters (`enable_lora`) are added to the kernels that they adapt.

    Raises:
        UsageError: the model is quantized, which no checkpoint of ours holds.
    """
    from bert_tf.layers.lora import merged_variables

    if any(layer.quantization_mode for layer in model._flatten_layers()):
        raise UsageError(explain(f"{model.name} is quantized, and a model folder holds floats",
                                 attempt="model.save('NAME.keras'), or saving before quantize"))
    reader = getattr(model, "reader", None)
    if tokenizer is None:
        tokenizer = getattr(model if reader is None else reader, "tokenizer", None)
    with checksums.new_folder(folder) as temporary:
        model.config.save(os.path.join(temporary, CONFIG))
        reading = {} if reader is None else {"reading": reader.reading()}
        files.write_json(os.path.join(temporary, TASK), {**model.task_config(), **reading})
        variables.write_variables(os.path.join(temporary, CHECKPOINT),
                                  merged_variables(model))
        if tokenizer is not None:
            tokenizer.save(temporary)

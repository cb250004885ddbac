"""A model folder: configuration, what the model is, tokenizer files, a checkpoint by paths."""

import os

from bert_tf.errors import UsageError, explain
from bert_tf.storage import checksums, files, variables

CONFIG = "model_config.json"
TASK = "task.json"
CHECKPOINT = "model"
READ_OTHERWISE = "text was read otherwise where the model comes from, as its conversion said"


class Saved:
    """Mixin of Keras models that can be written as a model folder.

    A class sets `saved_as`, its name in `task.json`, and what else that file holds of it:
    `required_options`, and `further_options`, which have defaults. Its instances have `config`, a
    `ModelConfig`, a `seed`, and `options()`, the values of those options; the first argument of
    its constructor is the `ModelConfig`.
    """

    saved_as = None
    required_options = ()
    further_options = ()
    needed_head = None  # beginning of the paths of what `from_pretrained` never makes anew
    further_inputs = ()  # names of what a call may have beside ids, mask and types of tokens
    preprocessor_class = None  # from text to its inputs; None where the model takes ids alone
    text_read_otherwise = False  # set by `from_pretrained`; see `says_read_otherwise`

    def options(self):
        """Return the options of this model beside its `ModelConfig`, a dict of plain values."""
        return {}

    def task_config(self):
        """Return what `task.json` says of this model."""
        return {"task": self.saved_as, **self.options()}

    def save_pretrained(self, folder, tokenizer=None):
        """Write a model folder, which `bert_tf.from_pretrained` reads; see `save_pretrained`."""
        save_pretrained(folder, self, tokenizer)


def save_pretrained(folder, model, tokenizer=None):
    """Write `model_config.json`, `task.json`, the checkpoint `model` and the tokenizer's files.

    Args:
        folder: a new folder; it appears whole or not at all.
        model: a `Saved` Keras model; every variable is stored under its path, which for BERT is
            its name in the official checkpoint.
        tokenizer: anything with `save(folder)`; None is that of the model or of its `preprocessor`,
            if any.

    Adapters (`enable_lora`) are added to the kernels that they adapt.

    Raises:
        UsageError: the model is none of ours, or quantized, which no checkpoint of ours holds.
    """
    if not isinstance(model, Saved):
        raise UsageError(explain(f"a {type(model).__name__}", "a model of this package",
                                 "model.save('NAME.keras')"))
    values = float_variables(model, "a model folder",
                             "model.save('NAME.keras'), or saving before quantize")
    preprocessor = getattr(model, "preprocessor", None)
    if tokenizer is None:
        tokenizer = getattr(model if preprocessor is None else preprocessor, "tokenizer", None)
    with checksums.new_folder(folder) as temporary:
        model.config.save(os.path.join(temporary, CONFIG))
        reading = {}
        if preprocessor is not None or model.text_read_otherwise:
            reading["reading"] = preprocessor and preprocessor.reading()
        files.write_json(os.path.join(temporary, TASK), {**model.task_config(), **reading})
        variables.write_variables(os.path.join(temporary, CHECKPOINT), values)
        if tokenizer is not None:
            tokenizer.save(temporary)


def says_read_otherwise(task):
    """Return whether text was read otherwise than we read it where a model comes from.

    Its labels of text would be others here, so that it takes token ids alone.

    Args:
        task: the content of its `task.json`, where `"reading": null` says so.
    """
    return task.get("reading", {}) is None


def takes_no_text(name, otherwise):
    """Return the message about a model, called `name`, where one that takes text is wanted.

    Args:
        name: a path, perhaps with its flag.
        otherwise: what `says_read_otherwise` gives of it.
    """
    if otherwise:
        return f"{name} takes no text, token ids alone: {READ_OTHERWISE}"
    return explain(f"{name} takes no text", "a model with a tokenizer that reads text")


def float_variables(model, target, attempt):
    """Return `{path: value}` of all weights, adapters being added to their kernels.

    Those of an encoder are under its family's name, whatever its own.

    Args:
        model: a `Saved` Keras model.
        target: what they are for, and `attempt` what to do instead, for the message.

    Raises:
        UsageError: the model is quantized.
    """
    from bert_tf.layers.lora import merged_variables

    if any(layer.quantization_mode for layer in model._flatten_layers()):
        raise UsageError(explain(f"{model.name} is quantized, and {target} holds floats",
                                 attempt=attempt))
    values = merged_variables(model)
    if model.saved_as == "encoder" and model.name != model.config.family:
        own, family = f"{model.name}/", f"{model.config.family}/"
        values = {family + path.removeprefix(own) if path.startswith(own) else path: value
                  for path, value in values.items()}
    return values

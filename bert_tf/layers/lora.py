"""Low-rank adapters of a model's dense layers (Hu et al. 2021, "LoRA")."""

import os

import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.dense import Dense
from bert_tf.storage import checksums, variables

_CHECKPOINT = "lora"
_QUERY_AND_VALUE = ("query", "value")  # what the paper adapts, section 4.2


class Adaptable:
    """Mixin of Keras layers and models whose dense layers can be adapted."""

    def enable_lora(self, rank, target_layer_names=_QUERY_AND_VALUE):
        """Freeze all weights and add trainable adapters to the dense layers of these names.

        Args:
            rank: of the adapters, at least 1.
            target_layer_names: names of `Dense` layers inside this one.

        Raises:
            UsageError: there is no such layer, or there are adapters already.
        """
        if not isinstance(rank, int) or rank < 1:
            raise UsageError(explain(f"rank={rank!r}", "an integer, at least 1"))
        if adapted(self):
            raise UsageError(f"{self.name} has adapters already; enable_lora works once")
        found = [layer for layer in self._flatten_layers()
                 if isinstance(layer, Dense) and layer.name in target_layer_names]
        if not found:
            raise UsageError(explain(f"target_layer_names={target_layer_names!r}, which no dense "
                                     f"layer of {self.name} has", "such as ['query', 'value']"))
        self.trainable = True
        for variable in self.weights:
            variable.trainable = False
        for layer in found:
            layer.enable_lora(rank)

    def save_lora_weights(self, folder):
        """Write the adapters, and nothing else, to a new folder.

        After `load_weights`, which adds them to the kernels, these are what was learned since.

        Raises:
            UsageError: there are none, or `load_weights` has added them to the kernels.
        """
        values = {variable.path: variable.value for variable in _adapter_variables(self)}
        if not values:
            raise UsageError(f"{self.name} has no adapters; call enable_lora(rank) first")
        layers = adapted(self)
        if any(layer.lora_merged for layer in layers) and not any(
                layer.lora_kernel_b.numpy().any() for layer in layers):
            raise UsageError(explain(
                "adapters that change nothing: load_weights adds them to the kernels",
                attempt="save_pretrained, or saving adapters before load_weights"))
        with checksums.new_folder(folder) as temporary:
            variables.write_variables(os.path.join(temporary, _CHECKPOINT), values)

    def load_lora_weights(self, folder):
        """Read what `save_lora_weights` wrote, after `enable_lora` where there are no adapters yet.

        Raises:
            BertTfError: the folder is missing or damaged.
            UsageError: the adapters are of another model, of another rank or of other layers.
        """
        prefix = os.path.join(checksums.opened(folder), _CHECKPOINT)
        tensors = variables.read_variables(prefix)
        if not adapted(self):
            ranks = {value.shape[-1] for path, value in tensors.items()
                     if path.endswith("/lora_kernel_a")}
            if len(ranks) != 1:
                raise UsageError(explain(f"{prefix}: adapters of ranks {sorted(ranks)}",
                                         "one rank, as save_lora_weights writes them"))
            self.enable_lora(*ranks, sorted({path.split("/")[-2] for path in tensors}))
        own = _adapter_variables(self)
        if {variable.path for variable in own} < tensors.keys():
            names = sorted({path.split("/")[-2] for path in tensors})
            raise UsageError(explain(
                f"{prefix} holds adapters of {', '.join(names)}, of which {self.name} has "
                f"{len(own) // 2} of {len(tensors) // 2}",
                attempt="load_lora_weights without enable_lora, or target_layer_names="
                        f"{names!r} there"))
        variables.assign_variables(own, tensors, prefix)


def adapted(layer):
    """The dense layers in `layer`, itself among them, that have adapters."""
    return [part for part in layer._flatten_layers()
            if isinstance(part, Dense) and part.lora_enabled]


def merged_variables(layer):
    """`{path: value}` of all weights of `layer`, adapters being added to their kernels."""
    values = {variable.path: variable.value for variable in layer.weights}
    for part in adapted(layer):
        change = tf.matmul(*(values.pop(variable.path) for variable in (
            part.lora_kernel_a, part.lora_kernel_b)))
        kernel = values[part._kernel.path]
        values[part._kernel.path] = kernel + part.lora_alpha / part.lora_rank * change
    return values


def _adapter_variables(layer):
    return [variable for part in adapted(layer)
            for variable in (part.lora_kernel_a, part.lora_kernel_b)]

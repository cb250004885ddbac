"""Models some of whose layers are quantized."""

import warnings

import keras


class Quantizes:
    """Mixin of Keras models: `quantize` without a warning for every layer that has no matrix."""

    def quantize(self, mode=None, config=None, filters=None, **kwargs):
        """Quantize the dense layers, as of Keras; embeddings and what else there is stay."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
            super().quantize(mode, config, filters, **kwargs)


@keras.saving.register_keras_serializable("bert_tf")
class QuantizedParts(keras.dtype_policies.DTypePolicyMap):
    """The dtype policies of quantized parts, by their paths, and how these were quantized.

    Args:
        default_policy, policy_map: as of Keras.
        configs: `{path: keras.quantizers.QuantizationConfig}`.
    """

    def __init__(self, default_policy=None, policy_map=None, configs=None):
        super().__init__(default_policy, policy_map)
        self.configs = configs or {}

    def get_config(self):
        """Return the constructor's arguments."""
        return {**super().get_config(),
                "configs": keras.saving.serialize_keras_object(self.configs)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """See `get_config`."""
        configs = keras.saving.deserialize_keras_object(config["configs"], custom_objects)
        return super().from_config({**config, "configs": configs}, custom_objects)


def in_float32(policy):
    """Return `float32`, but for the quantized parts that a policy of `policy_of` tells apart."""
    if not isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return "float32"
    return QuantizedParts("float32", dict(policy), config_by_path(policy))


def config_by_path(policy):
    """Return how the parts that a policy tells apart were quantized, by their paths."""
    return getattr(policy, "configs", {})  # files of earlier versions do not say


def policy_of(layer):
    """Return the dtype policy that rebuilds `layer`: its own, or a map of its quantized parts.

    A layer is rebuilt from its configuration and hands its policy on to its parts, so that one
    whose parts were quantized needs a policy that tells them apart, by their paths.
    """
    policy = layer.dtype_policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        policy = policy.default_policy
    quantized = {part.path: part for part in layer._flatten_layers(include_self=False)
                 if part.quantization_mode is not None}
    if not quantized:
        return policy
    return QuantizedParts(
        policy.name, {path: part.dtype_policy for path, part in quantized.items()},
        {path: part.quantization_config for path, part in quantized.items()})

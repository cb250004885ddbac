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


def in_float32(policy):
    """Return `float32`, but for the quantized parts that a policy of `policy_of` tells apart."""
    kind = keras.dtype_policies.DTypePolicyMap
    return kind("float32", dict(policy)) if isinstance(policy, kind) else "float32"


def policy_of(layer):
    """The dtype policy that rebuilds `layer`: its own, or a map with those of quantized parts.

    A layer is rebuilt from its configuration and hands its policy on to its parts, so that one
    whose parts were quantized needs a policy that tells them apart, by their paths.
    """
    policy = layer.dtype_policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        policy = policy.default_policy
    quantized = {part.path: part.dtype_policy for part in layer._flatten_layers(include_self=False)
                 if part.quantization_mode is not None}
    return keras.dtype_policies.DTypePolicyMap(policy.name, quantized) if quantized else policy

"""A position-wise linear map."""

import keras
import tensorflow as tf

from bert_tf.layers.inference import own_gradient
from bert_tf.layers.initializers import path_seed, truncated_normal
from bert_tf.layers.quantized import config_by_path
from bert_tf.layers.substitutes import substitutes


@keras.saving.register_keras_serializable("bert_tf")
class Dense(keras.layers.Dense):
    """`x kernel + bias` over the last axis, as one 2-D matrix product.

    Quantization (`quantize("int8")`) and low-rank adapters (`enable_lora`, Hu et al. 2021) are
    those of Keras' own layer.

    Call: `[…, in]` -> `[…, units]` in the compute type.

    Args:
        units: width of the output.
        initializer_range: standard deviation of the truncated normal of `kernel [in, units]`.
        seed: seed of the initial kernel, see `initializers.truncated_normal`.
        use_bias, lora_rank, lora_alpha, quantization_config, name, dtype, trainable: see
            `keras.layers.Dense`, whose further arguments there are not.
    """

    lora_merged = False  # whether the kernel may hold what adapters had learned

    def __init__(self, units, initializer_range=0.02, seed=None, use_bias=True, lora_rank=None,
                 lora_alpha=None, quantization_config=None, *, name=None, dtype=None,
                 trainable=True):
        super().__init__(units, use_bias=use_bias, lora_rank=lora_rank, lora_alpha=lora_alpha,
                         quantization_config=quantization_config, name=name, dtype=dtype,
                         trainable=trainable)
        self.initializer_range = initializer_range
        self.seed = seed

    def build(self, input_shape):
        """Create `kernel` and `bias` for inputs of width `input_shape[-1]`."""
        self.kernel_initializer = truncated_normal(self.initializer_range, self.seed,
                                                   f"{self.path}/kernel")
        if isinstance(self.dtype_policy, keras.dtype_policies.DTypePolicyMap):
            self.quantization_config = config_by_path(self.dtype_policy).get(self.path)
            # Keras' layer asks the map itself whether the kernel that it saves is quantized.
            self._dtype_policy = self.dtype_policy[self.path]
        super().build(input_shape)

    def call(self, inputs, training=None):
        """Map `[…, in]` to `[…, units]`."""
        outputs = self._substituted(inputs)
        return (self._mapped(inputs, tf.convert_to_tensor(self.kernel)) if outputs is None
                else outputs)

    def activated(self, inputs, activation, training=False):
        """What `activation`, a function of `activations`, makes of the layer's output."""
        outputs = self._substituted(inputs, activation)
        return activation(self(inputs), training) if outputs is None else outputs

    def of_activated(self, inputs, activate):
        """Map what `activate`, a function, makes of `inputs`.

        `[…, any]` becomes `[…, in]` and that `[…, units]`, all of the compute type.
        The gradient makes it once more, so that the inputs alone are kept for it.
        """
        @tf.custom_gradient
        def product(inputs, kernel):
            def gradients(upstream):
                with tf.control_dependencies([upstream]):
                    kept = tf.identity(inputs)
                with tf.GradientTape() as tape:
                    tape.watch(kept)
                    again = activate(kept)
                of_again = tf.matmul(upstream, kernel, transpose_b=True)
                return (tape.gradient(again, kept, of_again),
                        tf.matmul(again, upstream, transpose_a=True))

            return tf.matmul(activate(inputs), kernel), gradients

        return self._mapped(inputs, tf.convert_to_tensor(self.kernel), product)

    def _substituted(self, inputs, activation=None):
        outputs = substitutes().product(self, inputs, activation)
        return None if outputs is None else unflatten(outputs, inputs)

    def _mapped(self, inputs, kernel, product=tf.matmul):
        outputs = product(flatten(inputs, inputs.shape[-1]), kernel)
        if self.use_bias:
            outputs = add_bias(outputs, tf.convert_to_tensor(self.bias))
        return unflatten(outputs, inputs)

    def _int8_call(self, inputs, training=None):
        """The product of inputs and kernel, both rounded to int8, as Keras has it.

        Not as a product of integers, which takes several times as long in TensorFlow on a CPU.
        """
        dtype, rounded = self.compute_dtype, inputs
        if self.inputs_quantizer and 0 not in inputs.shape:  # of no rows Keras finds no maximum
            whole, scale = self.inputs_quantizer(inputs, axis=-1)
            # Rounding has no gradient: it is that of the inputs.
            rounded += tf.stop_gradient(tf.cast(whole, dtype) / tf.cast(scale, dtype) - inputs)
        scale = tf.convert_to_tensor(self.kernel_scale)
        outputs = self._mapped(rounded, tf.cast(self._kernel, dtype) / tf.cast(scale, dtype))
        if self.lora_enabled:
            down, up = (tf.cast(each, dtype) for each in (self.lora_kernel_a, self.lora_kernel_b))
            outputs += self.lora_alpha / self.lora_rank * (inputs @ down @ up)
        return outputs

    def load_own_variables(self, store):
        """See Keras, which merges adapters into the kernel and leaves both at 0, where neither
        learns: one stays as it was drawn."""
        drawn = self.lora_kernel_a.numpy() if self.lora_enabled else None
        super().load_own_variables(store)
        if drawn is not None:
            self.lora_kernel_a.assign(drawn)
            self.lora_merged = True

    def quantize(self, mode=None, type_check=True, config=None):
        """Replace the kernel by a quantized one, as `keras.layers.Dense` does."""
        super().quantize(mode, type_check=False, config=config)

    def enable_lora(self, rank, lora_alpha=None, a_initializer=None, b_initializer="zeros"):
        """Freeze the kernel and train a low-rank addition to it, as `keras.layers.Dense` does."""
        seed = path_seed(self.seed, f"{self.path}/lora_kernel_a")
        super().enable_lora(rank, lora_alpha, a_initializer or keras.initializers.HeUniform(seed),
                            b_initializer)

    def get_config(self):
        """The constructor's arguments."""
        kept = {"units", "use_bias", "lora_rank", "lora_alpha", "quantization_config"}
        config = super().get_config()
        for name in set(config) - set(keras.Layer.get_config(self)) - kept:
            del config[name]
        return {**config, "initializer_range": self.initializer_range, "seed": self.seed}


def add_bias(outputs, bias):
    """Add `bias [D]` to `outputs [K, D]`."""
    add = _add_bfloat16 if outputs.dtype == tf.bfloat16 else tf.nn.bias_add
    return add(outputs, bias)


@own_gradient
def _add_bfloat16(outputs, bias):
    """Add a bias whose gradient adds up in float32.

    That of TensorFlow's operation adds up in bfloat16 on a CPU: of 4,096 tokens it is off by 6 %,
    of 16,384 by 41 %.
    """
    return tf.nn.bias_add(outputs, bias), lambda upstream: (upstream, tf.reduce_sum(upstream, 0))


def flatten(inputs, width):
    """Give `inputs […, width]` one axis before the last."""
    return inputs if inputs.shape.rank == 2 else tf.reshape(inputs, [-1, width])


def unflatten(tokens, like):
    """Give `tokens [K, D]` the leading axes of `like […, any]`."""
    if like.shape.rank == 2:
        return tokens
    shape = tf.concat([tf.shape(like)[:-1], [tokens.shape[-1]]], 0)
    outputs = tf.reshape(tokens, shape)
    outputs.set_shape([*like.shape[:-1], tokens.shape[-1]])
    return outputs

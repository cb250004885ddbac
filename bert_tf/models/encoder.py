"""The stack of transformer blocks that every family shares."""

import keras

from bert_tf.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(keras.Layer):
    """`num_hidden_layers` transformer blocks, one after the other.

    Call: `hidden [batch, seq_length, hidden]`, `adder` float `[batch, 1, from or 1, to]` ->
    `(encoder_outputs, attention_probs)`: for each block its output `[batch, seq_length, hidden]`
    and its probabilities `[batch, heads, from, to]`, in the compute type.

    Args:
        num_hidden_layers: number of blocks.
        block: further arguments of `TransformerBlock`.
    """

    def __init__(self, num_hidden_layers, block, **kwargs):
        super().__init__(**kwargs)
        self.num_hidden_layers = num_hidden_layers
        self.block = dict(block)
        self.blocks = [TransformerBlock(**block, name=f"layer_{i}", dtype=self.dtype_policy)
                       for i in range(num_hidden_layers)]

    def build(self, hidden_shape, adder_shape=None):
        """Create the blocks."""
        for block in self.blocks:
            block.build(hidden_shape)

    def call(self, hidden, adder, training=False):
        """Outputs and attention probabilities of every block."""
        encoder_outputs, attention_probs = [], []
        for block in self.blocks:
            hidden, probs = block(hidden, adder, training=training, return_attention_probs=True)
            encoder_outputs.append(hidden)
            attention_probs.append(probs)
        return encoder_outputs, attention_probs

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "num_hidden_layers": self.num_hidden_layers,
                "block": dict(self.block)}

"""The stack of transformer blocks that every family shares."""

import keras

from bert_tf.layers.layer import Layer
from bert_tf.layers.layout import as_called, as_tokens
from bert_tf.layers.transformer_block import TransformerBlock
from bert_tf.randomness import draw_scope


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(Layer):
    """`num_hidden_layers` transformer blocks, one after the other.

    Call: `hidden [batch, seq_length, hidden]`, `adder` float `[batch, 1, from or 1, to]` ->
    `(encoder_outputs, attention_probs)`: for each layer its output `[batch, seq_length, hidden]`
    and its probabilities `[batch, heads, from, to]`, in the compute type. Or
    `hidden [tokens, hidden]` and a `layout`: outputs are of that shape, probabilities lists with
    an item for each rectangle. With `first_only=True` the last layer computes only the first token
    of every row, see `SelfAttention`.

    Args:
        num_hidden_layers: number of layers L.
        num_hidden_groups: number of blocks G that the layers share, layer `i` using block
            `i G // L` (ALBERT paper, section 3.1); 0 gives each layer a block of its own.
        block: further arguments of `TransformerBlock`.
    """

    def __init__(self, num_hidden_layers, num_hidden_groups, block, **kwargs):
        super().__init__(**kwargs)
        self.num_hidden_layers = num_hidden_layers
        self.num_hidden_groups = num_hidden_groups
        self.block = dict(block)
        kind = "group" if num_hidden_groups else "layer"
        self.blocks = [TransformerBlock(**block, name=f"{kind}_{i}", dtype=self.dtype_policy)
                       for i in range(num_hidden_groups or num_hidden_layers)]

    def build(self, hidden_shape, adder_shape=None):
        """Create the blocks."""
        for block in self.blocks:
            block.build(hidden_shape)

    def call(self, hidden, adder=None, training=False, first_only=False, layout=None):
        """Outputs and attention probabilities of every layer."""
        tokens, own = as_tokens(hidden, adder, layout)
        encoder_outputs, attention_probs = [], []
        for i in range(self.num_hidden_layers):
            block = self.blocks[i * len(self.blocks) // self.num_hidden_layers]
            of_first = first_only and i == self.num_hidden_layers - 1
            # Layers of one block drop different elements.
            with draw_scope(f"layer_{i}" if self.num_hidden_groups else ""):
                tokens, probs = block(tokens, training=training, return_attention_probs=True,
                                      first_only=of_first, layout=own)
            output, probs = as_called(tokens, probs, own, layout, of_first)
            encoder_outputs.append(output)
            attention_probs.append(probs)
        return encoder_outputs, attention_probs

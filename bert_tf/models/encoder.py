"""The stack of transformer blocks that every family shares."""

import keras
import tensorflow as tf

from bert_tf.layers.bottleneck_block import BottleneckBlock
from bert_tf.layers.disentangled import RelativeEmbeddings
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.layer import Layer
from bert_tf.layers.layout import as_called, as_tokens
from bert_tf.layers.neighbours import Neighbours
from bert_tf.layers.norm import norm_layer
from bert_tf.layers.relative_bias import RelativeBias
from bert_tf.layers.transformer_block import TransformerBlock
from bert_tf.randomness import draw_scope, repeated_draws

# What layers share to know distances by, and its name in the variables' paths.
RELATIVE = {"bias": (RelativeBias, "relative_attention_bias"),
            "disentangled": (RelativeEmbeddings, "relative_embeddings")}


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(Layer):
    """`num_hidden_layers` transformer blocks, one after the other.

    Call: `hidden [batch, seq_length, hidden]`, `adder` float `[batch, 1, from or 1, to]` ->
    `(encoder_outputs, attention_probs)`: for each layer its output `[batch, seq_length, hidden]`
    and its probabilities `[batch, heads, from, to]`, in the compute type; without
    `return_attention_probs` none are computed apart, and each layer has None. Or
    `hidden [tokens, hidden]` and a `layout`: outputs are of that shape, probabilities lists with
    an item for each rectangle. With `first_only=True` the last layer computes only the first token
    of every row, see `SelfAttention`.

    Args:
        num_hidden_layers: number of layers L.
        num_hidden_groups: number of blocks G that the layers share, layer `i` using block
            `i G // L` (ALBERT paper, section 3.1); 0 gives each layer a block of its own.
        block: further arguments of `TransformerBlock`, or of `BottleneckBlock`.
        layers: those of each layer that differ, a list of dicts; None where all are alike.
        relative: `(kind, arguments)` of what layers share to know distances by, see `RELATIVE`.
        norm: arguments of `norm_layer`, for the last output; None for no such.
        neighbours: arguments of `Neighbours`, beside the first layer; None for no such.
    """

    def __init__(self, num_hidden_layers, num_hidden_groups, block, layers=None, relative=None,
                 norm=None, neighbours=None, **kwargs):
        super().__init__(**kwargs)
        self.num_hidden_layers = num_hidden_layers
        self.num_hidden_groups = num_hidden_groups
        kind = "group" if num_hidden_groups else "layer"
        make = BottleneckBlock if "num_feedforward_networks" in block else TransformerBlock
        self.blocks = [
            make(**{**block, **(layers[i] if layers else {})}, name=f"{kind}_{i}",
                 dtype=self.dtype_policy)
            for i in range(num_hidden_groups or num_hidden_layers)]
        self.gradient_checkpointing = False  # see `Backbone`
        self.relative = self.layer_norm = self.neighbours = None
        if relative is not None:
            shared, name = RELATIVE[relative[0]]
            self.relative = shared(**relative[1], name=name, dtype=self.dtype_policy)
        if norm is not None:
            self.layer_norm = norm_layer(**norm, dtype=self.dtype_policy)
        if neighbours is not None:
            self.neighbours = Neighbours(**neighbours, name="conv", dtype=self.dtype_policy)

    def build(self, hidden_shape, adder_shape=None):
        """Create the blocks and what they share."""
        for block in self.blocks:
            block.build(hidden_shape)
        if self.relative is not None:
            self.relative.build()
        for layer in (self.layer_norm, self.neighbours):
            if layer is not None:
                layer.build(hidden_shape)

    def call(self, hidden, adder=None, training=False, first_only=False, layout=None,
             return_attention_probs=True):
        """Outputs and attention probabilities of every layer."""
        tokens, own = as_tokens(hidden, adder, layout)
        recompute = self.gradient_checkpointing and training and not return_attention_probs
        relative = None if self.relative is None or recompute else self.relative.of_layout(own)
        for block in self.blocks:
            # Made for all layers here, outside of what is recomputed.
            block.attention.self_attention.rotation(own)
        embedded, encoder_outputs, attention_probs = tokens, [], []
        for i in range(self.num_hidden_layers):
            block = self.blocks[i * len(self.blocks) // self.num_hidden_layers]
            last = i == self.num_hidden_layers - 1
            of_first = first_only and last
            # Layers of one block drop different elements.
            with draw_scope(f"layer_{i}" if self.num_hidden_groups else ""):
                if recompute:
                    tokens = self._recomputed(block, of_first, own)(tokens)
                else:
                    tokens = block(tokens, training=training, first_only=of_first, layout=own,
                                   return_attention_probs=return_attention_probs,
                                   relative=relative)
            tokens, probs = tokens if return_attention_probs else (tokens, [None])
            if i == 0 and self.neighbours is not None:
                tokens = self.neighbours(embedded, tokens, training=training, layout=own)
            if last and self.layer_norm is not None:
                tokens = self.layer_norm(tokens)
            output, probs = as_called(tokens, probs, own, layout, of_first)
            encoder_outputs.append(output)
            attention_probs.append(probs)
        return encoder_outputs, attention_probs

    def _recomputed(self, block, first_only, layout):
        """A function of tokens: `block` in training, recomputed in the backward pass."""
        drawn = repeated_draws(next((layer.seed_generator for layer in block._flatten_layers()
                                     if isinstance(layer, Dropout) and layer.rate), None))

        def compute(tokens):
            # No gradient reaches what is made outside of a function that is recomputed.
            relative = None if self.relative is None else self.relative.of_layout(layout)
            with drawn():
                return block(tokens, training=True, first_only=first_only, layout=layout,
                             relative=relative)

        return tf.recompute_grad(compute)

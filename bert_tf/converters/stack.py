"""A deeper model made of a trained one by repeating its layers."""

import dataclasses
import re

import numpy as np

from bert_tf.converters.checkpoint import Tensors, parameter_shapes


def stacked(checkpoint, times):
    """Repeat the layers of a model: layer i is a copy of layer i modulo their number.

    Gong et al. 2019, "Efficient Training of BERT by Progressively Stacking", section 3.2.
    Embeddings and heads stay. The LayerNorm that the first block of a pre-LN model does without
    begins as one that scales nothing.

    Args:
        checkpoint: a `Checkpoint`.
        times: 2 for twice as many layers.

    Returns: `Checkpoint` of the deeper model; where layers share their weights it has the same.
    """
    config = checkpoint.config
    count = config.num_hidden_layers
    deeper = config.replace(num_hidden_layers=count * times)
    layer = re.compile(rf"^({re.escape(config.family)}/encoder/layer_)(\d+)/")
    shapes = parameter_shapes(deeper, checkpoint.task)

    def load(name):
        source = layer.sub(lambda match: f"{match[1]}{int(match[2]) % count}/", name)
        if source not in checkpoint.tensors:
            ones = name.endswith("/gamma") and config.norm != "rms_norm_plus_one"
            return np.full(shapes[name], ones, np.float32)
        return checkpoint.tensors[source]

    return dataclasses.replace(checkpoint, config=deeper, tensors=Tensors(shapes, load))

"""Parts of a model that are not trained, told apart by their paths."""


def frozen_parts(layer):
    """Return the sorted paths of the layers with weights inside `layer` that are not trainable."""
    return sorted({part.path for part in layer._flatten_layers(include_self=False)
                   if part.weights and not part.trainable})


def freeze_parts(layer, paths):
    """Make the layers of these paths inside `layer` not trainable."""
    # Outer layers come before inner ones, and hand down what they are set to.
    for part, trainable in [(part, part.trainable)
                            for part in layer._flatten_layers(include_self=False)]:
        wanted = trainable and part.path not in paths
        if part.trainable != wanted:
            part.trainable = wanted

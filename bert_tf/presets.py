"""Named sizes per family (google-research/bert, "Well-Read Students Learn Better")."""

from bert_tf.config import ModelConfig
from bert_tf.errors import check_choice

# layers, hidden; heads are hidden / 64 and the intermediate layer is four times hidden.
_BERT = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
PRESETS = {"bert": _BERT}


def preset(family, name, vocab_size=30522, **changes):
    """The `ModelConfig` of a published size.

    Args:
        family: `bert`.
        name: one of the family's sizes.
        vocab_size: entries of the vocabulary; 30,522 is the published English one.
        changes: further fields of `ModelConfig`.

    Raises:
        UsageError: the family or the size is unknown.
    """
    sizes = PRESETS[check_choice("family", family, PRESETS)]
    layers, hidden = sizes[check_choice("preset", name, sizes)]
    values = {"family": family, "vocab_size": vocab_size, "num_hidden_layers": layers,
              "hidden_size": hidden, "num_attention_heads": hidden // 64,
              "intermediate_size": 4 * hidden}
    return ModelConfig(**{**values, **changes})

# Peak learning rate and batch size: the paper's for base and large (A.2), larger steps where the
# model is small enough to bear them.
_TRAINING = {
    "tiny": (1e-3, 32),
    "mini": (5e-4, 32),
    "small": (5e-4, 64),
    "medium": (2e-4, 128),
    "base": (1e-4, 256),
    "large": (1e-4, 256),
}


def training_defaults(name=None):
    """`learning_rate` and `batch_size` that suit a preset; the paper's for other sizes."""
    learning_rate, batch_size = _TRAINING.get(name, (1e-4, 256))
    return {"learning_rate": learning_rate, "batch_size": batch_size}

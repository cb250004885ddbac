"""The optimizers by their names, and the one that a run asks for."""

from bert_tf.training.adamw import AdamW
from bert_tf.training.lamb import Lamb
from bert_tf.training.lion import Lion
from bert_tf.training.muon import Muon
from bert_tf.training.schedules import build_schedule

OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb, "lion": Lion, "muon": Muon}


def build_optimizer(config, rates=()):
    """Build the optimizer and schedule that a `TrainConfig` names; call it in the strategy's scope.

    Args:
        config: the `TrainConfig`.
        rates: factors of the learning rate by variable, as of `AdamW`.
    """
    kind = OPTIMIZERS[config.optimizer]
    options = {name: getattr(config, name) for name in kind.OPTIONS}
    return kind(build_schedule(config), weight_decay=config.weight_decay, rates=rates, **options)

"""A span of the text as the answer to a question (Devlin et al. 2019, section 4.2)."""

import keras

from bert_tf.tasks.labelled import Labelled


@keras.saving.register_keras_serializable("bert_tf")
class Span(Labelled):
    """An encoder that gives each token a logit of being the answer's first and its last.

    Call: a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]` -> a
    dict of float32 `start_logits` and `end_logits` `[b, seq_length]`. To learn from: int32
    `start_positions` and `end_positions` `[b]` or `[b, 1]`. The loss is the mean of both, each
    over all positions, padding included (google-research/bert `run_squad.py`).

    Args:
        config: a `ModelConfig`.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
    """

    label_keys = {"start": "start_positions", "end": "end_positions"}
    loss_scales = {"start": 0.5, "end": 0.5}

    def __init__(self, config, dtype=None, seed=None, name="span", **kwargs):
        super().__init__(config, "span", 2, 0.0, dtype, seed, name=name, **kwargs)

    def task_config(self):
        """What `task.json` says of this model."""
        return {"task": "span"}

    def call(self, batch, training=False):
        """Logits of the first and of the last token, each float32 `[b, seq_length]`."""
        logits = self._logits(self.read(batch), "sequence_output", training)
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

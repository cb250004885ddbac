"""What an encoder has for every token, layer by layer."""

import tensorflow as tf


def hidden_states(encoder, inputs):
    """The states of an encoder that learns nothing: dropout off, no gradient.

    Args:
        encoder: as of `build_encoder`.
        inputs: dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]`.

    Returns: list of float32 `[b, seq_length, hidden]`: what enters the first layer, then what each
        gives; of an encoder with a BiLSTM on top the last one is what that gives.
    """
    outputs = encoder.backbone(inputs, training=False, encoder_outputs=True)
    return [tf.stop_gradient(state) for state in states_of(outputs)]


def states_of(outputs):
    """The same of what a backbone gave with `encoder_outputs=True`."""
    # The top may be a BiLSTM, which stands in `sequence_output` alone.
    return [outputs["embedding_output"], *outputs["encoder_outputs"][:-1],
            outputs["sequence_output"]]

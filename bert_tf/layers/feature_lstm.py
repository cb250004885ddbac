"""A BiLSTM that reads the layers of a frozen encoder (Devlin et al. 2019, section 5.3)."""

import keras

from bert_tf.errors import UsageError, explain
from bert_tf.layers.bilstm import BiLstmStack
from bert_tf.layers.feature_mix import FeatureMix
from bert_tf.layers.vector_pooling import check_layers


@keras.saving.register_keras_serializable("bert_tf")
class FeatureLstm(keras.Layer):
    """`FeatureMix` of some of the encoder's layers, then two `BiLstm`.

    Call: every hidden state of an encoder, a list of `[batch, seq_length, hidden]` that begins
    with the embeddings, and `input_mask` int `[batch, seq_length]` ->
    `[batch, seq_length, lstm_size]`, 0 at padding.

    Args:
        hidden_size, num_hidden_layers: of the encoder.
        layers: which layers: 0 the embeddings, 1 the lowest layer, -1 the topmost one.
        combine: several layers side by side, `concat`, or `weighted_sum`.
        lstm_size: width of each BiLSTM's output, even, half of it from each direction.
        seed: see `BiLstm`.

    Raises:
        UsageError: the encoder has no such layers, or another option is out of range.
    """

    def __init__(self, hidden_size, num_hidden_layers, layers, combine="concat", lstm_size=768,
                 seed=None, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.layer_numbers = check_layers(layers, num_hidden_layers)
        if not isinstance(lstm_size, int) or lstm_size < 2 or lstm_size % 2:
            raise UsageError(explain(f"lstm_size={lstm_size!r}",
                                     "an even number, half for each direction"))
        self.lstm_size = lstm_size
        self.seed = seed
        self.mix = FeatureMix(len(self.layer_numbers), combine, name="mix",
                              dtype=self.dtype_policy)
        self.bilstm = BiLstmStack(lstm_size, 2, seed, name="bilstm", dtype=self.dtype_policy)

    def build(self, states_shape=None, input_mask_shape=None):
        """Create the weights."""
        layers = len(self.layer_numbers) if self.mix.combine == "concat" else 1
        self.mix.build()
        self.bilstm.build((None, None, layers * self.hidden_size))

    def compute_output_shape(self, states_shape, input_mask_shape=None):
        """`[batch, seq_length, lstm_size]`."""
        state = states_shape[0] if isinstance(states_shape[0], (list, tuple)) else states_shape
        return (*state[:2], self.lstm_size)

    def options(self):
        """What is read and how, as plain values."""
        return {"layers": list(self.layer_numbers), "combine": self.mix.combine,
                "lstm_size": self.lstm_size}

    def call(self, states, input_mask):
        """Read a batch."""
        return self.bilstm(self.mix([states[number] for number in self.layer_numbers]),
                           input_mask)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "hidden_size": self.hidden_size,
                "num_hidden_layers": self.num_hidden_layers, **self.options(), "seed": self.seed}


def feature_lstm(config, features, seed, dtype):
    """The `FeatureLstm` for encoders of `config`, `features` being a dict of its options."""
    names = {"layers", "combine", "lstm_size"}
    if not isinstance(features, dict) or "layers" not in features or set(features) - names:
        raise UsageError(explain(f"features={features!r}",
                                 "a dict of layers and, if wanted, combine and lstm_size"))
    return FeatureLstm(config.hidden_size, config.num_hidden_layers, **features, seed=seed,
                       name="features", dtype=dtype)

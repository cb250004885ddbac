"""Logits of a few labels: next sentence, sentence order, classes, spans, tags."""

import keras
import tensorflow as tf

from bert_tf.layers.dense import unflatten
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.initializers import truncated_normal
from bert_tf.layers.layer import Layer
from bert_tf.layers.mlm_head import Transform
from bert_tf.layers.pooling import mean_of_tokens


@keras.saving.register_keras_serializable("bert_tf")
class LabelHead(Layer):
    """A linear map to one logit a label (google-research/bert `run_classifier.py`).

    With a `transform` there is a dense layer before it, as in the heads of RoBERTa, ELECTRA,
    DistilBERT, MPNet, DeBERTa, ModernBERT and EuroBERT.

    Call: `[…, hidden]` -> float32 `[…, num_labels]`. With an `input_mask` int32 `[batch,
    seq_length]` `[batch, seq_length, hidden]` -> `[batch, num_labels]`, the mean of the logits of
    real tokens.

    Args:
        num_labels: width of the output.
        initializer_range, seed: see `Dense`.
        transform: options of a `Transform` of the hidden size, or None.
        dropout: rate after it.
        use_bias: whether the linear map has one.
    """

    def __init__(self, num_labels, initializer_range=0.02, seed=None, transform=None, dropout=0.0,
                 use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.transform_options = transform
        self.transform = self.dropout = None
        if transform is not None:
            self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)
        self.use_bias = use_bias
        self.num_labels = num_labels
        self.initializer_range = initializer_range
        self.seed = seed

    def build(self, input_shape):
        """Create `output_weights [num_labels, hidden]` (the official layout) and `output_bias`."""
        if self.transform_options is not None:
            self.transform = Transform(input_shape[-1], initializer_range=self.initializer_range,
                                       seed=self.seed, **self.transform_options, name="transform",
                                       dtype=self.dtype_policy)
            self.transform.build(input_shape)
            self.dropout.build(input_shape)
        self.output_weights = self.add_weight(
            name="output_weights", shape=(self.num_labels, input_shape[-1]),
            initializer=truncated_normal(self.initializer_range, self.seed,
                                         f"{self.path}/output_weights"))
        self.output_bias = None
        if self.use_bias:
            self.output_bias = self.add_weight(name="output_bias", shape=(self.num_labels,),
                                               initializer="zeros", autocast=False,
                                               dtype="float32")

    def call(self, inputs, training=False, input_mask=None):
        """`[…, hidden]` -> float32 `[…, num_labels]`."""
        if self.transform is not None:
            inputs = self.dropout(self.transform(inputs, training=training), training=training)
        if input_mask is not None:  # the mean of what a linear map makes is that of the mean
            # In float32: a sum of thousands may be more than half precision has.
            inputs = tf.cast(mean_of_tokens(tf.cast(inputs, tf.float32), input_mask), inputs.dtype)
        weights = tf.convert_to_tensor(self.output_weights)
        tokens = tf.reshape(inputs, [-1, weights.shape[1]])
        logits = tf.cast(tf.matmul(tokens, weights, transpose_b=True), tf.float32)
        if self.use_bias:
            logits += tf.convert_to_tensor(self.output_bias)
        return unflatten(logits, inputs)

    def compute_output_shape(self, input_shape):
        """`[…, num_labels]`."""
        return (*input_shape[:-1], self.num_labels)

    def compute_output_spec(self, inputs, training=False, input_mask=None):
        """Logits are float32 whatever the compute type."""
        shape = inputs.shape if input_mask is None else inputs.shape[::2]
        return keras.KerasTensor(self.compute_output_shape(shape), "float32")

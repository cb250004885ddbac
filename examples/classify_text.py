"""Classify texts with plain Keras: `compile`, `fit` on (text, label), `predict`, on two replicas.

    python examples/classify_text.py

Everything is made up here, so that the program needs no files. To begin with a trained encoder,
build the model with

    model = bert_tf.from_pretrained("runs/NAME", "classifier", labels=LABELS)
    preprocessor = model.preprocessor  # of the encoder's own vocabulary
"""

import keras
import tensorflow as tf

import bert_tf

LABELS = ["bad", "good"]
REVIEWS = [
    ("a warm and funny film with a wonderful cast", 1), ("dull from the first minute", 0),
    ("the best film of the year", 1), ("a waste of two hours and of good actors", 0),
    ("clever, moving and beautifully shot", 1), ("the plot makes no sense at all", 0),
    ("i laughed all the way through", 1), ("i left before the end", 0),
    ("great music and a great story", 1), ("the worst film of the year", 0),
    ("every scene is a joy", 1), ("loud, long and empty", 0)]


def make_preprocessor():
    """A tokenizer of the words above; `bert_tf.learn_vocab` learns one from any text."""
    words = {word for text, _ in REVIEWS for word in text.replace(",", " ,").split()}
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = bert_tf.Vocabulary([*special, *sorted(words)])
    return bert_tf.TextPreprocessor(bert_tf.Tokenizer(vocabulary, lower_case=True), seq_length=32)


def main():
    # Two replicas on one CPU. On GPUs `tf.distribute.MirroredStrategy()` takes all there are.
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    preprocessor = make_preprocessor()
    texts, labels = zip(*REVIEWS, strict=True)
    # Batches of texts of about the same length; `tf.data.Dataset.from_tensor_slices(...).batch(4)`
    # would do too.
    data = bert_tf.text_batches(texts, labels, preprocessor, batch_size=4, seed=1, epochs=12)

    config = bert_tf.preset("bert", "tiny", vocab_size=len(preprocessor.tokenizer.vocabulary))
    with strategy.scope():
        model = bert_tf.Classifier(config, LABELS, preprocessor=preprocessor, seed=1)
        model.compile(bert_tf.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(
            from_logits=True), metrics=["accuracy"])
    model.fit(data, verbose=2)

    new = ["a wonderful story", "dull and empty"]
    for text, scores in zip(new, model.probabilities(model.predict(new, verbose=0)), strict=True):
        print(f"{text}: {LABELS[int(tf.argmax(scores))]} ({float(tf.reduce_max(scores)):.2f})")
    results = model.evaluate(list(texts), list(labels), verbose=0, return_dict=True)
    print(f"accuracy on {len(texts)} reviews: {results['accuracy']:.2f}")


if __name__ == "__main__":
    main()

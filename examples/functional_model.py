"""An encoder as a layer of your own functional model, with another input beside the text.

    python examples/functional_model.py

The model tells from a customer's letter and the days since the purchase whether to send the money
back. It is saved as a `.keras` file with the tokenizer inside, for `bert_tf.load_model`.
"""

import os
import tempfile

import keras
import numpy as np
import tensorflow as tf

import bert_tf

LETTERS = ["the screen is broken", "it stopped working", "it works very well", "i like the colour",
           "the battery is dead", "a very good purchase"]
DAYS = [3, 10, 29, 31, 60, 400]


def make_data():
    """Money goes back for what is broken (letters 0, 1 and 4) within 30 days."""
    rows = [(letter, days, number in (0, 1, 4) and days <= 30)
            for number, letter in enumerate(LETTERS) for days in DAYS]
    texts, days, labels = zip(*rows, strict=True)
    inputs = {"letter": tf.constant(texts), "days": tf.constant(days, tf.float32)[:, tf.newaxis]}
    return inputs, np.array(labels, "float32")


def build_model():
    """Text -> ids -> encoder -> one vector, beside it a number; a dense layer on both."""
    words = {word for letter in LETTERS for word in letter.split()}
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = bert_tf.Vocabulary([*special, *sorted(words)])
    preprocessor = bert_tf.TextPreprocessor(bert_tf.Tokenizer(vocabulary), seq_length=16)
    # A trained one: bert_tf.from_pretrained("runs/NAME", "encoder").
    encoder = bert_tf.build_encoder(bert_tf.preset("bert", "tiny", len(vocabulary)), seed=1)

    letter = keras.Input((), dtype="string", name="letter")
    days = keras.Input((1,), name="days")
    vector = encoder(preprocessor(letter))["pooled_output"]
    within = keras.layers.Dense(8, "relu")(keras.layers.Rescaling(1 / 30, -1.0)(days))
    both = keras.layers.Concatenate()([vector, keras.ops.tanh(within)])
    back = keras.layers.Dense(1, "sigmoid")(keras.layers.Dense(16, "relu")(both))
    return keras.Model({"letter": letter, "days": days}, back)


def main():
    keras.utils.set_random_seed(1)
    inputs, labels = make_data()
    model = build_model()
    model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
    model.fit(inputs, labels, batch_size=9, epochs=40, verbose=0)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        loaded = bert_tf.load_model(path)
    difference = np.abs(loaded.predict(inputs, verbose=0) - model.predict(inputs, verbose=0)).max()
    print(f"largest difference after loading: {difference:.1g}")
    results = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    print(f"accuracy on {len(labels)} letters: {results['accuracy']:.2f}")


if __name__ == "__main__":
    main()

"""Bring a `BertBackbone` of keras-nlp with its vocabulary, and fine-tune it here.

    python examples/from_keras_nlp.py

With a downloaded preset the first two objects would be

    backbone = keras_nlp.models.BertBackbone.from_preset("bert_base_en_uncased")
    tokenizer = keras_nlp.models.BertTokenizer.from_preset("bert_base_en_uncased")
"""

import keras
import keras_nlp
import numpy as np

import bert_tf

LABELS = ["statement", "question"]
SENTENCES = ["where is the station", "the station is here", "when does the train leave",
             "the train leaves at noon", "who has my ticket", "i have your ticket",
             "how long is the way", "the way is long", "what is that", "that is a bridge",
             "why is the bridge closed", "the bridge is closed"]


def make_theirs():
    """A small backbone with random weights, and its tokenizer."""
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = keras_nlp.models.BertTokenizer([*special, *words], lowercase=True)
    backbone = keras_nlp.models.BertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(), num_layers=2, num_heads=2, hidden_dim=64,
        intermediate_dim=128, max_sequence_length=32)
    return backbone, tokenizer


def main():
    keras.utils.set_random_seed(1)
    backbone, tokenizer = make_theirs()

    encoder = bert_tf.from_live(backbone)
    vocabulary = bert_tf.Vocabulary(tokenizer.get_vocabulary())
    preprocessor = bert_tf.TextPreprocessor(bert_tf.Tokenizer(vocabulary, tokenizer.lowercase),
                                            seq_length=16)

    # The same numbers from text to vector.
    preprocess = keras_nlp.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=16)
    theirs = backbone.predict(preprocess(SENTENCES), verbose=0)["pooled_output"]
    ours = encoder.predict(preprocessor(keras.ops.convert_to_tensor(SENTENCES)), verbose=0)
    print(f"largest difference from keras-nlp: {np.abs(ours['pooled_output'] - theirs).max():.0e}")

    model = bert_tf.Classifier(encoder, LABELS, preprocessor=preprocessor, seed=1)
    model.compile(bert_tf.AdamW(3e-3))
    labels = [1, 0] * (len(SENTENCES) // 2)
    model.fit(SENTENCES, labels, batch_size=4, epochs=15, verbose=2)
    results = model.evaluate(SENTENCES, labels, verbose=0, return_dict=True)
    print(f"accuracy on {len(SENTENCES)} sentences: {results['classifier_accuracy']:.2f}")


if __name__ == "__main__":
    main()

"""Teach a model which texts belong together with plain Keras, then find texts by their vectors.

    python examples/train_embedder.py

The texts are made up here: German phrases are the queries, the same in English what they find. To
begin with a trained encoder, build the model with

    model = bert_tf.from_pretrained("runs/NAME", "embedder")

which reads texts by the encoder's own vocabulary.
"""

import keras

import bert_tf
from bert_tf.tasks.base.query_examples import QueryExample

NUMBERS = {"two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs",
           "seven": "sieben"}
THINGS = {"dogs": "hunde", "birds": "vögel", "houses": "häuser", "books": "bücher",
          "trees": "bäume", "boats": "boote"}
PHRASES = [(f"{german} {dinge}", f"{english} {things}") for english, german in NUMBERS.items()
           for things, dinge in THINGS.items()]
HELD_OUT = PHRASES[::7]  # each number and each thing once


def make_preprocessor():
    """A tokenizer of the words above; `bert_tf.learn_vocab` learns one from any text."""
    words = {word for phrases in PHRASES for phrase in phrases for word in phrase.split()}
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = bert_tf.Vocabulary([*special, *sorted(words)])
    return bert_tf.TextPreprocessor(bert_tf.Tokenizer(vocabulary), seq_length=8)


def main():
    preprocessor = make_preprocessor()
    config = bert_tf.preset("bert", "tiny", vocab_size=len(preprocessor.tokenizer.vocabulary))
    model = bert_tf.SentenceEmbedder(config, normalize=True, preprocessor=preprocessor, seed=1)
    examples = [QueryExample(german, german, (english,)) for german, english in PHRASES
                if (german, english) not in HELD_OUT]
    model.compile(keras.optimizers.Adam(1e-3), bert_tf.EmbeddingLoss(two_sided=True))
    model.fit(bert_tf.query_batches(examples, model, batch_size=15, seed=1, epochs=40), verbose=2)

    texts = [english for _, english in PHRASES]
    right = [model.rank(german, texts)[0]["text"] == english for german, english in HELD_OUT]
    print(f"found of {len(right)} phrases held out: {sum(right) / len(right):.2f}")
    best = model.rank("zwei hunde", texts)[0]
    print(f"zwei hunde: {best['text']} ({best['score']:.3f})")


if __name__ == "__main__":
    main()

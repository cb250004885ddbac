"""Save a model that takes text, load it in another process, export it for TF Serving.

    python examples/save_and_export.py [FOLDER]

FOLDER, a temporary one by default, gets

| what | for |
|---|---|
| `model.keras` | `bert_tf.load_model`: weights, optimizer and tokenizer in one file |
| `model/` | `bert_tf.from_pretrained`, `python -m bert_tf.evaluate`, `python -m bert_tf.export` |
| `saved_models/languages/1/` | tensorflow_model_server, or `tf.saved_model.load` without bert_tf |

Keras' own `model.export(folder, input_signature=[tf.TensorSpec([None], tf.string)])` works too; it
has one signature, which gives logits.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

import bert_tf

LABELS = ["english", "german"]
SENTENCES = ["the bread is fresh", "das brot ist frisch", "we drink cold water",
             "wir trinken kaltes wasser", "the house is old", "das haus ist alt",
             "a dog sleeps here", "ein hund schläft hier", "the street is long",
             "die straße ist lang", "my sister sings", "meine schwester singt"]
NEW = ["the bread is old", "das brot ist alt", "a long street"]


def make_model():
    """A small classifier with a tokenizer of the letters of these sentences."""
    letters = sorted(set("".join(SENTENCES)) - {" "})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = bert_tf.Vocabulary([*special, *letters, *(f"##{letter}" for letter in letters)])
    preprocessor = bert_tf.TextPreprocessor(bert_tf.Tokenizer(vocabulary, lower_case=True),
                                            seq_length=64)
    config = bert_tf.preset("bert", "tiny", len(vocabulary))
    return bert_tf.Classifier(config, LABELS, preprocessor=preprocessor, seed=1)


def load_and_predict(path, output):
    """What the other process does: the file is all it has."""
    model = bert_tf.load_model(path)
    np.save(output, model.predict(NEW, verbose=0))


def main(folder):
    model = make_model()
    # 12 sentences in batches of 4, 20 times: 60 updates.
    model.compile(bert_tf.AdamW(bert_tf.WarmupLinearDecay(1e-3, warmup_steps=6, train_steps=60)))
    model.fit(SENTENCES, [0, 1] * 6, batch_size=4, epochs=20, verbose=2)
    logits = model.predict(NEW, verbose=0)

    path, output = os.path.join(folder, "model.keras"), os.path.join(folder, "logits.npy")
    model.save(path)
    subprocess.run([sys.executable, __file__, path, output], check=True)
    print(f"largest difference in a fresh process: {np.abs(np.load(output) - logits).max():.0e}")

    model_folder = os.path.join(folder, "model")
    model.save_pretrained(model_folder)
    version = bert_tf.export(model=model_folder,
                             export_dir=os.path.join(folder, "saved_models", "languages"))
    served = tf.saved_model.load(version).signatures["predict"](text=tf.constant(NEW))
    scores = model.probabilities(logits)
    print(f"largest difference as served: {np.abs(served['probabilities'] - scores).max():.0e}")
    for text, label, score in zip(NEW, served["label"].numpy(), served["score"], strict=True):
        print(f"{text}: {label.decode()} ({score:.2f})")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        load_and_predict(*sys.argv[1:])
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(temporary)

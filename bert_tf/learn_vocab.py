"""Learn a vocabulary from text: WordPiece, byte-level BPE or Unigram.

    python -m bert_tf.learn_vocab --input 'texts/*.txt' --output vocab.txt --vocab_size 32000
    python -m bert_tf.learn_vocab --input 'texts/*.txt' --type bpe --output tokenizer

Input is UTF-8, plain text or .jsonl (field "text"), also .gz; - is standard input. Beside the
vocabulary, tokenizer_config.json says how text is to be lower-cased, stripped of accents and split
into morphemes. Memory is bounded by the different words, 2 million and 64 MB, of which the rarest
are forgotten; where that is much of the text, it is printed. Unigram needs the extra unigram
(sentencepiece).
"""

import contextlib
import dataclasses
import os
import sys
import tempfile

from bert_tf import cli
from bert_tf.errors import UsageError, explain
from bert_tf.options import POSITIVE, REQUIRED, WriteOptions, option, takes
from bert_tf.storage import checksums, files, locks, manifest
from bert_tf.tokenization.options import TextOptions
from bert_tf.without_keras import import_without_keras

TYPES = ("wordpiece", "bpe", "unigram")
# What each cannot do with text.
_REFUSED = {"wordpiece": (), "bpe": ("lower_case", "strip_accents", "pretokenize"),
            "unigram": ("pretokenize",)}
_FOLDER_RECORD = "learn_vocab.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnVocabConfig(TextOptions, WriteOptions):
    """What `bert_tf.learn_vocab` learns, and from what."""

    input: tuple[str, ...] = option(REQUIRED, "text files; - is standard input", metavar="GLOB")
    type: str = option(
        "wordpiece", "wordpiece: of BERT; bpe: of bytes, as RoBERTa's; unigram: SentencePiece, as "
                     "ALBERT's", choices=TYPES)
    output: str = option(REQUIRED, "vocabulary, one token a line; a folder for the files of bpe "
                                   "and unigram", metavar="PATH")
    vocab_size: int = option(30522, "entries to learn", POSITIVE)
    min_frequency: int = option(
        2, "how often a character or piece must occur to become an entry", POSITIVE)

    def options(self):
        """What decides the result, as the vocabulary's manifest has it."""
        kind = {} if self.type == TYPES[0] else {"type": self.type}
        if self.type == "bpe":  # older ones know no word at a line's beginning after a blank
            kind["blank_between_lines"] = True
        return {**kind, "vocab_size": self.vocab_size, "min_frequency": self.min_frequency,
                "lower_case": bool(self.lower_case), "strip_accents": bool(self.strip_accents),
                "pretokenize": self.pretokenize}


@takes(LearnVocabConfig)
def learn_vocab(config):
    """Learn a vocabulary, unless the same one is there.

    Args:
        config: `LearnVocabConfig`, or its fields as keyword arguments.

    Returns:
        Path of the vocabulary, or of the folder.

    Raises:
        UsageError: another vocabulary is there, or options contradict each other.
        BertTfError: the text does not do.
    """
    from bert_tf.data.documents import expand_inputs
    from bert_tf.tokenization import tokenizer_config
    from bert_tf.tokenization.vocabulary import MANIFEST

    output = config.output
    for name in _REFUSED[config.type]:
        if getattr(config, name):
            raise UsageError(explain(f"--{name} with --type {config.type}, which has no such rule",
                                     attempt=f"leaving --{name} out, or --type wordpiece"))
    if config.type == "wordpiece" and (files.is_folder(output) or not os.path.basename(output)):
        raise UsageError(explain(f"--output {output} is a folder",
                                 attempt=f"--output {os.path.join(output, 'vocab.txt')}"))
    if config.type != "wordpiece" and files.is_file(output):
        raise UsageError(explain(f"--output {output} is a file", "a folder for the tokenizer"))
    options = config.options()
    record = output + MANIFEST
    if config.type != "wordpiece":
        output = output.rstrip("/")
        record = os.path.join(output, _FOLDER_RECORD)
    folder = os.path.dirname(output) or "."
    with contextlib.ExitStack() as stack:
        spool = stack.enter_context(tempfile.TemporaryDirectory(
            prefix="bert_tf-", ignore_cleanup_errors=True)) if "-" in config.input else ""
        paths = expand_inputs(config.input, spool, apart=(output,))  # *.txt may match it
        stack.enter_context(locks.held(folder))
        for name in (output, record, tokenizer_config.NAME):  # others may be at work beside them
            files.clean_temporary(folder, os.path.basename(name))
        if files.exists(output):
            if not files.exists(record) and not config.overwrite:
                raise UsageError(explain(f"{output} exists, from elsewhere",
                                         attempt="another --output, or --overwrite"))
            if manifest.finished(record, options, paths, config.overwrite, config.verify_inputs,
                                 output):
                print(f"{output} is there already, from the same text and options")
                return output
            if config.type != "wordpiece":
                _refuse_others(output)
        if config.type == "wordpiece":
            _learn(paths, output, record, options, config.overwrite)
        else:
            _learn_folder(paths, output, options)
    return output


def _learn(paths, output, record, options, overwrite):
    from bert_tf.tokenization.learn_wordpiece import learn_wordpiece
    from bert_tf.tokenization.tokenizer import CONFIG_NAME, Tokenizer, read_options

    folder = os.path.dirname(output)
    _refuse_beside(folder or ".")
    beside = os.path.join(folder, CONFIG_NAME)
    casing = {key: options[key] for key in ("lower_case", "strip_accents", "pretokenize")}
    stated = {} if overwrite else read_options(beside)
    differ = [f"{key}={stated.get(key)}, not {value}" for key, value in casing.items()
              if stated and value != stated.get(key)]
    if differ:
        raise UsageError(explain(
            f"another vocabulary in {folder or '.'} has {'; '.join(differ)}",
            attempt="--output in another folder"))
    vocabulary = learn_wordpiece(paths, **options)
    # Where a vocabulary is, what it was made of and its casing are too.
    files.remove(output)
    files.write_json(beside, Tokenizer(vocabulary, **casing).options)
    with files.atomic_path(output) as temporary:
        vocabulary.save(temporary)
        (facts,) = checksums.facts("", (temporary,)).values()
        manifest.write(record, options, paths, files={
            os.path.basename(output): facts, **checksums.facts(folder, (CONFIG_NAME,))})
    _report(len(vocabulary), output, options)


def _learn_folder(paths, output, options):
    from bert_tf.tokenization.learn_byte_pair import learn_byte_pair
    from bert_tf.tokenization.learn_unigram import learn_unigram

    size, least = options["vocab_size"], options["min_frequency"]
    if options["type"] == "bpe":
        tokenizer = learn_byte_pair(paths, size, least)
    else:
        tokenizer = learn_unigram(paths, size, lower_case=options["lower_case"],
                                  strip_accents=options["strip_accents"], min_frequency=least)
    files.remove(output)
    with checksums.new_folder(output) as temporary:
        tokenizer.save(temporary)
        manifest.write(os.path.join(temporary, _FOLDER_RECORD), options, paths)
    _report(len(tokenizer.vocabulary), output, options)


def _refuse_beside(folder):
    """Raise UsageError where a folder holds a tokenizer of another kind than WordPiece."""
    from bert_tf.tokenization.load import TOKENIZERS
    from bert_tf.tokenization.tokenizer import VOCABULARY_NAME

    there = {*files.list_folder(folder)}
    for names in (*TOKENIZERS, *((name,) for name in sorted(there) if name.endswith(".model"))):
        if VOCABULARY_NAME not in names and there.issuperset(names):
            raise UsageError(explain(f"{folder} holds another tokenizer, {' and '.join(names)}",
                                     attempt="--output in another folder"))


def _refuse_others(folder):
    """Raise UsageError where there is more in a folder than the tokenizer that is replaced."""
    from bert_tf.tokenization.load import TOKENIZERS
    from bert_tf.tokenization.tokenizer_config import NAME

    made = {NAME, _FOLDER_RECORD, checksums.NAME, *(name for names in TOKENIZERS for name in names)}
    others = [name for name in files.list_folder(folder) if name not in made]
    if others:
        raise UsageError(explain(f"--overwrite would delete {others[0]} in {folder}",
                                 "a folder that holds a tokenizer and nothing else"))


def _report(entries, output, options):
    print(f"{entries:,} entries in {output}")
    if entries < options["vocab_size"]:
        print(f"The text has no more pieces that occur {options['min_frequency']} times; "
              "more text or a smaller --min_frequency gives more.")


def _parser():
    return cli.parser_of("learn_vocab", __doc__, LearnVocabConfig)


@cli.nothing_kept()
def main(argv=None):
    config = LearnVocabConfig(**vars(_parser().parse_args(argv)))
    import_without_keras("tensorflow", "tensorflow_text")
    learn_vocab(config)


cli.make_callable(__name__, learn_vocab)

if __name__ == "__main__":
    sys.exit(cli.run(main))

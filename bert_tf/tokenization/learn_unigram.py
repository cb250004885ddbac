"""Learn a Unigram model of SentencePiece, as ALBERT's vocabulary was made.

The package sentencepiece trains it on counted words, of which as many are held as
`WordCounter` says, so that memory is bounded; its result depends on the number of its threads,
which is fixed.
"""

import collections
import io
import re
import sys
import unicodedata

from bert_tf.errors import BertTfError, UsageError, explain, needs
from bert_tf.tokenization.learn_wordpiece import MAX_ALPHABET
from bert_tf.tokenization.sentence_piece import SPECIAL_TOKENS, SentencePieceTokenizer
from bert_tf.tokenization.word_counts import BlankWords, count_words

MIN_VOCAB_SIZE = 16
_THREADS = 2
_MOST_BYTES = 4192  # of a word, as the trainer has it
# Parts of a word that is longer, as a page of Chinese is: they end where a clause does.
_CLAUSES = re.compile(r".{1,1000}[。、，．！？…]|.[^。、，．！？…]*[。、，．！？…]?", re.S)


def learn_unigram(paths, vocab_size, *, lower_case=False, strip_accents=False, min_frequency=2,
                  progress=True):
    """Learn a tokenizer from files.

    Text is prepared as ALBERT does, then normalized by NFKC; `<pad> <unk> [CLS] [SEP] [MASK]` come
    first. The result depends on nothing but the arguments and the version of sentencepiece.

    Args:
        paths: files of plain text or `.jsonl`, either also `.gz`.
        vocab_size: entries to learn; fewer come out where the text has no more pieces.
        lower_case, strip_accents: what is done to text first; Hangul stays whole.
        min_frequency: words with a character that occurs less often are left out, and those with
            one beyond the most frequent 6,000 and a third of `vocab_size`. A word of over 4,192
            bytes is cut after Chinese and Japanese punctuation; what is still longer is left out,
            which is printed.
        progress: show a bar.

    Returns:
        SentencePieceTokenizer.

    Raises:
        UsageError: `vocab_size` is too small, or the package sentencepiece is missing.
        BertTfError: a file is missing, unreadable, not UTF-8, or holds no text, or all files
            together hold too little.
    """
    if vocab_size < MIN_VOCAB_SIZE:
        raise UsageError(explain(f"vocab_size={vocab_size}", f"at least {MIN_VOCAB_SIZE}"))
    with needs("unigram", "a Unigram model is learned by the package sentencepiece, which is not "
               "installed"):
        import sentencepiece
    counts = count_words(paths, BlankWords(lower_case, strip_accents), progress)
    words, characters = collections.Counter(), collections.Counter()
    for word, count in sorted(counts.items()):
        for part in _parts(word.decode()):
            words[part] += count
    total = sum(len(word) * count for word, count in words.items())
    words = {word: count for word, count in words.items() if len(word.encode()) <= _MOST_BYTES}
    overlong = total - sum(len(word) * count for word, count in words.items())
    if overlong:
        print(f"{overlong:,} of {total:,} characters were left out, in stretches of over "
              f"{_MOST_BYTES:,} bytes without a blank; put blanks or line breaks after sentences",
              file=sys.stderr)
    for word, count in words.items():
        for character in word:
            characters[character] += count
    ordered = sorted(characters, key=lambda character: (-characters[character], character))
    frequent = [each for each in ordered if characters[each] >= min_frequency]
    known = {*frequent[:min(MAX_ALPHABET, vocab_size // 3)]}
    lines = [f"{word}\t{count}" for word, count in words.items() if known.issuperset(word)]
    if not lines:
        rest = "what is left of the text" if overlong else "the text"
        if len(known) < len(frequent):
            raise BertTfError(explain(
                f"no word of {rest} has only the {len(known):,} most frequent characters, a third "
                f"of --vocab_size {vocab_size}", attempt="a larger --vocab_size"))
        raise BertTfError(explain(f"no character of {rest} occurs {min_frequency} times",
                                  attempt="blanks or line breaks after sentences" if overlong
                                  else "more text"))
    stream = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), input_format="tsv", model_writer=stream,
            model_type="unigram", vocab_size=vocab_size, hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name="nmt_nfkc", num_threads=_THREADS, minloglevel=2,
            pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece=SPECIAL_TOKENS[0],
            unk_piece=SPECIAL_TOKENS[1], control_symbols=list(SPECIAL_TOKENS[2:]))
    except (RuntimeError, OSError) as error:
        raise BertTfError(explain(f"no Unigram model could be learned: {error}",
                                  attempt="another --vocab_size, or more text")) from error
    return SentencePieceTokenizer(stream.getvalue(), do_lower_case=lower_case,
                                  keep_accents=not strip_accents)


def _parts(word):
    """Return a word as the trainer sees it, in parts where it is too long for that: list of str.

    Accents were removed from jamo, which are a syllable again.
    """
    whole = unicodedata.normalize("NFKC", word)
    if len(whole.encode()) <= _MOST_BYTES:
        return [whole]
    return [unicodedata.normalize("NFKC", part) for part in _CLAUSES.findall(word)]

"""A chunk of text becomes a shard of pre-training examples."""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf.data import pairing, records
from bert_tf.data.masking import Masking
from bert_tf.errors import BertTfError, explain
from bert_tf.randomness import stream_key
from bert_tf.tokenization.morphemes import pretokenize
from bert_tf.tokenization.texts import after_blanks

_BLOCK = 512  # examples that are worked on at once: small enough for the processor's caches


@dataclasses.dataclass(frozen=True)
class ExampleOptions:
    """Options of the examples; the flags of `create_data`."""

    seq_length: int
    format: str
    pairs: str | None
    masking: str
    whole_word: bool
    max_ngram: int
    masked_share: float
    dupe_factor: int
    max_predictions_per_seq: int
    short_seq_prob: float
    seed: int

    @property
    def label(self):
        """Name of the label that examples carry, or None."""
        return records.PAIR_LABELS.get(self.pairs)


class ExampleMaker:
    """Makes shards; each is a function of the options, the tokenizer and its chunk alone.

    Args:
        options: `ExampleOptions`.
        source: `TokenizerSource`.
    """

    def __init__(self, options, source):
        self.options = options
        self.tokenizer = source.load()
        self.vocabulary = vocabulary = self.tokenizer.vocabulary
        self.masking = tf.function(Masking(
            vocab_size=len(vocabulary), special_ids=vocabulary.special_ids,
            mask_id=vocabulary.mask_id, whole_word=options.whole_word,
            max_ngram=options.max_ngram, masked_lm_prob=options.masked_share,
            max_predictions_per_seq=options.max_predictions_per_seq), reduce_retracing=True,
            autograph=False)
        self.table = records.feature_table(options.masking, options.label, options.seq_length,
                                           options.max_predictions_per_seq)

    def __call__(self, text_chunk, path):
        """Write the shard of `text_chunk`, a `chunks.TextChunk`, to `path`."""
        options = self.options
        name = f"{options.seed} {text_chunk.split} {text_chunk.place}"
        chunk = self._tokenize(text_chunk)
        passes = [pairing.make_examples(
            chunk, format=options.format, pairs=options.pairs, seq_length=options.seq_length,
            short_seq_prob=options.short_seq_prob, seed=f"{name} {number}")
            for number in range(options.dupe_factor)]
        examples = pairing.join(passes)
        count = examples.count
        bits = np.random.Philox(np.random.SeedSequence(list(name.encode())))
        order = np.random.Generator(bits).permutation(count)
        key = stream_key(options.seed, f"static masking {text_chunk.split} {text_chunk.place}")
        blocks, num_tokens = [], []
        for start in range(0, count, _BLOCK):
            block = order[start:start + _BLOCK]
            columns, lengths = self._columns(chunk, examples, block, key, start)
            blocks.append(records.frame(records.serialize(self.table, columns)))
            num_tokens.append(lengths)
        labels = examples.pair_labels
        records.write_shard(path, blocks, np.concatenate([[], *num_tokens]),
                            labels[order] if options.label else labels,
                            pairing.used_tokens(chunk, examples))

    def _tokenize(self, text_chunk):
        names, documents = zip(*text_chunk.own, *text_chunk.lent, strict=True)
        if self.tokenizer.blanks_in_pieces():
            documents = [*map(after_blanks, documents)]
        sentences = [sentence for document in documents for sentence in document]
        tokens = self.tokenizer.tokenize(
            tf.constant(pretokenize(self.tokenizer, sentences), tf.string))
        lengths = tokens.row_lengths().numpy()
        document = np.repeat(np.arange(len(documents)), [len(d) for d in documents])
        counts = np.bincount(document[lengths > 0], minlength=len(documents))
        own = np.count_nonzero(counts[:len(text_chunk.own)])
        names = np.array(names)[counts > 0]
        if self.options.pairs == "random" and own and len(set(names)) < 2:
            raise BertTfError(explain(
                "the text has fewer than two documents that hold words, which next-sentence "
                "prediction needs", attempt="--format full_sentences or --format doc_sentences"))
        return pairing.Chunk(tokens.values.numpy(),
                             np.concatenate([[0], np.cumsum(lengths[lengths > 0])]),
                             np.concatenate([[0], np.cumsum(counts[counts > 0])]), names, own)

    def _columns(self, chunk, examples, order, key, first):
        """Return the columns of the feature table for the examples at `order`, and their
        lengths."""
        vocabulary = self.vocabulary
        (word_ids, type_ids, word_starts), lengths = pairing.assemble(
            chunk, examples, order, vocabulary)
        columns = {"input_word_ids": word_ids, "input_type_ids": type_ids}
        if self.options.masking == "dynamic":
            columns["word_starts"] = word_starts
            columns = {name: (values, lengths) for name, values in columns.items()}
        else:
            real = np.arange(self.options.seq_length) < lengths[:, None]
            padded = {"input_mask": real.astype(np.int32)}
            for name, values in {**columns, "word_starts": word_starts}.items():
                pad = vocabulary.pad_id if name == "input_word_ids" else 0
                padded[name] = np.full(real.shape, pad, np.int32)
                padded[name][real] = values
            masked = self.masking(key, tf.constant(first, tf.int64), padded["input_word_ids"],
                                  tf.constant(lengths, tf.int32), padded.pop("word_starts"))
            padded |= {name: value.numpy() for name, value in masked.items()}
            columns = {name: (values.ravel(), np.full(len(values), values.shape[1]))
                       for name, values in padded.items()}
        if self.options.label:
            columns[self.options.label] = (examples.pair_labels[order],
                                           np.ones(len(order), np.int64))
        return columns, lengths

"""The plan of which examples are made from what text: plain values that travel to other processes.

Files are gathered, in order, into sections of some 256 MB of text. A section is split into chunks
without looking at the others, so that many machines can read at once; a chunk becomes a shard.
"""

import collections
import dataclasses
import os

from bert_tf.data import records
from bert_tf.data.chunks import cut_into_chunks
from bert_tf.data.documents import read_documents
from bert_tf.data.example_maker import ExampleOptions
from bert_tf.data.skipped import read_kept
from bert_tf.storage import files
from bert_tf.tokenization.load import TokenizerSource

SECTION_BYTES = 256_000_000
_LABELLED = {"random": "random_next", "swapped": "swapped"}  # name of the fraction of labels 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """One run of `create_examples`."""

    sections: tuple  # of tuples of paths
    size: int  # bytes of text
    split: str  # how text is split into sentences
    holdout: float
    options: ExampleOptions
    tokenizer: TokenizerSource
    output_dir: str
    skipped: tuple = ()  # (path, bits) of documents to skip, see `skipped.read_kept`

    def chunks(self, section):
        """Yield the `TextChunk`s of the section of that number."""
        options = self.options
        others = {}
        if len(self.sections) > 1:
            others = {"beginning": self._source(self.sections),
                      "onward": self._source(self.sections[section:] + self.sections[:section])}
        return cut_into_chunks(
            self._source([self.sections[section]]), next_sentence=options.pairs == "random",
            seq_length=options.seq_length, holdout=self.holdout, seed=options.seed,
            section=section, **others)

    def _source(self, sections):
        paths = [path for section in sections for path in section]
        if self.skipped:
            return lambda: read_kept(paths, self.split, dict(self.skipped))
        return lambda: read_documents(paths, self.split)

    def path(self, chunk):
        """Return the path of a chunk's shard."""
        return os.path.join(self.output_dir, chunk.file_name)


def make_sections(inputs):
    """Gather files into sections.

    Args:
        inputs: paths of text files.

    Returns:
        `(sections, size)`: a tuple of tuples of paths, and bytes of text in all.
    """
    sections, size, total = [[]], 0, 0
    for path in inputs:
        if size >= SECTION_BYTES:
            sections.append([])
            size = 0
        sections[-1].append(path)
        bytes_of_text = _text_size(path)
        size += bytes_of_text
        total += bytes_of_text
    return tuple(map(tuple, sections)), total


def _text_size(path):
    """Return the bytes of text in a file; of a `.gz` what its end states."""
    if not files.is_compressed(path):
        return files.size(path)
    with files.explained("read", path), files.open_stored(path) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - 4, 0))
        return max(int.from_bytes(stream.read(), "little"), size)


def shard_facts(chunk, path):
    """Return what the manifest is made of about the shard of `chunk`: a dict of plain values.

    Raises:
        BertTfError: the shard is damaged.
    """
    index = records.read_index(path)
    return {"split": chunk.split, "place": [chunk.section, chunk.number],
            "name": os.path.basename(path), "num_documents": chunk.new_documents,
            "num_examples": len(index["num_tokens"]), "num_tokens": int(index["num_tokens"].sum()),
            "num_labelled": int(index["pair_labels"].sum()),
            "used_tokens": index["used_tokens"].tolist()}


def splits_of(made, pairs):
    """Return the manifest's `splits`, see `create_examples`.

    Args:
        made: iterable of what `shard_facts` returned, in any order.
        pairs: option of the examples.
    """
    splits = {split: collections.Counter(num_documents=0, num_examples=0, num_tokens=0)
              for split in ("train", "eval")}
    shards = {split: [] for split in splits}
    labelled = collections.Counter()
    for facts in sorted(made, key=lambda facts: facts["place"]):
        split = facts["split"]
        splits[split].update({name: facts[name] for name in splits[split]})
        labelled[split] += facts["num_labelled"]
        shards[split].append({name: facts[name] for name in ("name", "num_examples")})
    for split, facts in splits.items():
        count = max(facts["num_examples"], 1)
        facts["mean_tokens"] = facts["num_tokens"] / count
        if pairs in _LABELLED:
            facts[_LABELLED[pairs]] = labelled[split] / count
        facts["shards"] = shards[split]
    return {split: dict(facts) for split, facts in splits.items()}

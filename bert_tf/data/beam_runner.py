"""Shards of pre-training examples, made on Apache Beam (extra `beam`).

What is handed out is small: the number of a section and of a part of it. A worker reads that
section itself and makes every n-th chunk a shard, so that neither Beam nor a worker ever holds more
text than a chunk and what is shuffled. A shard appears whole, under a name and with bytes that
depend on the chunk only: a part that is done again, after a worker was lost or at the same time
elsewhere, changes nothing, and what was finished before is kept.
"""

import os

from bert_tf.data.beam_pipelines import beam, one_thread, runner_of
from bert_tf.data.example_maker import ExampleMaker
from bert_tf.data.plan import shard_facts
from bert_tf.storage import files

_MADE = "made.json"


class MakeShards(beam.DoFn):
    """Makes the shards of parts of a text; yields what `shard_facts` returns of each.

    Args:
        plan: a `plan.Plan`.
    """

    def __init__(self, plan):
        self.plan = plan
        self.maker = None

    def setup(self):
        """Load the vocabulary."""
        one_thread()
        self.maker = ExampleMaker(self.plan.options, self.plan.tokenizer)

    def process(self, part):
        """Make what is not there of `(section, number of the part, number of parts)`."""
        section, number, parts = part
        for chunk in self.plan.chunks(section):
            if chunk.number % parts == number:
                path = self.plan.path(chunk)
                if not files.exists(path):
                    self.maker(chunk, path)
                yield shard_facts(chunk, path)


def maker_of_shards(flags):
    """Return a function that makes the shards of a text as a Beam pipeline.

    Args:
        flags: Beam's own, see `runner_of`.

    Returns:
        function `(plan, num_workers, progress)` that makes what is not there and returns a list of
        what `shard_facts` returns. The paths of the `plan.Plan` mean the same on all workers; the
        text is split into at least `num_workers` parts. It raises as the function of `runner_of`.

    Raises: as `runner_of`.
    """
    run = runner_of(flags)

    def make_shards(plan, num_workers, progress):
        gathered = os.path.join(plan.output_dir, _MADE)
        files.remove(gathered)
        run(lambda pipeline: _build(pipeline, plan, num_workers, gathered), num_workers, progress)
        made = files.read_json(gathered)
        files.remove(gathered)
        return made

    return make_shards


def _build(pipeline, plan, num_workers, gathered):
    """Build the pipeline: parts, their shards, and what is to be reported of these in one file."""
    parts = -(-num_workers // len(plan.sections))
    work = [(section, number, parts)
            for section in range(len(plan.sections)) for number in range(parts)]
    _ = (pipeline | "Parts" >> beam.Create(work) | beam.Reshuffle()
         | "MakeShards" >> beam.ParDo(MakeShards(plan))
         | beam.combiners.ToList() | "Gather" >> beam.Map(_write, gathered))


def _write(made, path):
    files.write_json(path, made)

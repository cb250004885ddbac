"""A prediction on Apache Beam (extra `beam`), and our models in other pipelines of Beam.

What is handed out is small, the number of a part. A worker reads the input itself and predicts
every n-th block, whose shard appears whole, under a name and with bytes that depend on the block
only: a part that is done again, after a worker was lost, changes nothing. Beam's own connectors and
`RunInference` give rows in any order, without file and line, and batches of what happens to arrive;
so the command does without them. Pipelines that want just that have `PredictorModelHandler`.
"""

import contextlib

from apache_beam.ml.inference.base import ModelHandler, PredictionResult

from bert_tf.data.beam_pipelines import beam, one_thread, runner_of
from bert_tf.predict.work import ignored, load
from bert_tf.predictor import Predictor
from bert_tf.storage import files

_MADE = "made.json"


class PredictShards(beam.DoFn):
    """Writes the shards of parts of the input; yields what `predict_locally` returns, of each.

    Args:
        work: a `Work`.
        parts: how many there are.
    """

    def __init__(self, work, parts):
        self.work, self.parts = work, parts
        self.predictor = None

    def setup(self):
        """Load the model."""
        one_thread()
        self.predictor = load(self.work.options)

    def process(self, part):
        """Predict what is not there of a part, a number; the first one writes the bad rows."""
        with self.work.bad_rows() if part == 0 else contextlib.nullcontext() as bad:
            rows = shards = 0
            for block in self.work.blocks(bad or ignored, part, self.parts):
                rows += len(block.places)
                shards += 1
                if not self.work.is_done(block):
                    self.work.do(block, self.predictor)
        yield {"rows": rows, "shards": shards, "bad_rows": bad.count if bad else 0,
               "first": bad.first if bad else None}


def predict_on_beam(work, flags):
    """Do what `predict_locally` does, by as many workers as `num_processes` of the options says.

    Args:
        work: a `Work`, whose paths mean the same on all workers.
        flags: Beam's own, see `runner_of`.

    Raises: as `runner_of` and its function.
    """
    parts, gathered = work.options.num_processes, work.path(_MADE)
    files.remove(gathered)
    runner_of(flags)(lambda pipeline: _build(pipeline, work, parts, gathered), parts, True)
    found = files.read_json(gathered)
    files.remove(gathered)
    return {**{name: sum(each[name] for each in found)
               for name in ("rows", "shards", "bad_rows")},
            "first": next((each["first"] for each in found if each["first"]), None)}


def _build(pipeline, work, parts, gathered):
    _ = (pipeline | "Parts" >> beam.Create(range(parts)) | beam.Reshuffle()
         | "PredictShards" >> beam.ParDo(PredictShards(work, parts))
         | beam.combiners.ToList() | "Gather" >> beam.Map(_write, gathered))


def _write(found, path):
    files.write_json(path, found)


class PredictorModelHandler(ModelHandler):
    """A model of ours for Beam's `RunInference`, over dicts with its texts.

        rows | RunInference(PredictorModelHandler("runs/reviews"))
             | beam.Map(lambda result: {**result.example, **result.inference})

    Args:
        model, task, dtype: as of `Predictor`.
        columns: `{input of the model: key of the dict}`, where these differ.
        max_batch_size: dicts that are predicted together, in batches of like length.
    """

    def __init__(self, model, task=None, dtype=None, columns=None, max_batch_size=1024):
        super().__init__()
        self.model, self.columns = (model, task, dtype), columns or {}
        self.max_batch_size = max_batch_size

    def load_model(self):
        """See Beam."""
        return Predictor.shared(*self.model)

    def batch_elements_kwargs(self):
        """See Beam."""
        return {"min_batch_size": 1, "max_batch_size": self.max_batch_size}

    def run_inference(self, batch, model, inference_args=None):
        """See Beam; yields a `PredictionResult` of each dict, with a dict of the predictions."""
        found = model({name: [row[self.columns.get(name, name)] for row in batch]
                       for name in model.inputs})
        for row, values in zip(batch, zip(*found.values(), strict=True), strict=True):
            yield PredictionResult(row, dict(zip(found, values, strict=True)))

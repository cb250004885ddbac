"""Whether all workers of a run were started by the same command, and read the same model."""

import json
import zlib

from bert_tf.errors import UsageError, explain
from bert_tf.pretrain.sources import source_digests
from bert_tf.storage import manifest
from bert_tf.training.strategy import check_agreement

_EXPECTED = "the same command on every worker"
# A run may change these, but all workers together: one would evaluate while others train, what each
# of them sums would be added up, and what is summed in parts would be of other batches.
_TOGETHER = ("eval_every", "eval_examples", "accumulate_steps", "finish_now")


def check_same_command(run):
    """Refuse options that are not the other workers'; returns once all workers have come here.

    Args:
        run: a `PretrainingRun`, in whose folder the chief has written `run.json`.

    Raises:
        UsageError: options differ, they are named; or the model's files do.
        LostWorkerError: another process is lost; it is named.
    """
    if not run.is_chief:
        made = manifest.read(run.path("run.json"))
        chiefs = manifest.result_options(made["options"])
        own = json.loads(json.dumps(run.stated()))
        different = [f"{name} is {own.get(name)!r} here, {chiefs.get(name)!r} on worker 0"
                     for name in manifest.changed_options(chiefs, own)]
        if different:
            raise UsageError(explain("; ".join(different), _EXPECTED))
        # Each reads it by itself: another copy of it would stay another one.
        init = source_digests({**own, "vocab": None, "exclude": ()})
        if made.get("sources", init)[:len(init)] != init:
            raise UsageError(explain(f"{own['init']} has other files here than on worker 0",
                                     "the same ones on every worker"))
    for name in _TOGETHER:
        check_agreement(run.strategy, getattr(run.options, name), name, _EXPECTED, UsageError)
    config = zlib.crc32(json.dumps(run.config.to_dict(), sort_keys=True).encode())
    check_agreement(run.strategy, config, "the checksum of the model's configuration", _EXPECTED,
                    UsageError)

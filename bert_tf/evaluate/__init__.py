"""Measure a fine-tuned model on labelled examples.

    python -m bert_tf.evaluate --model runs/mrpc --data test.txt
    python -m bert_tf.evaluate --task retrieval --model runs/embedder --reranker runs/reranker \\
        --corpus passages.tsv --data queries.jsonl

The model is the folder of a finetune run, a model folder (save_pretrained), a version of a
SavedModel, or a fine-tuned model of any format that convert reads. Tasks and files are those of
finetune; a run, and what was exported of it, know their task and its columns.

With --task retrieval passages are searched in a corpus: by the model's vectors, by BM25, by the
fusion of both, and, with --reranker, the best of these are ranked anew. Queries are a table or JSON
with the ids of their passages (positive_ids), queries with --qrels, or what finetune --task rank
takes, SQuAD's JSON among it, whose paragraphs are the corpus where --corpus names no other.
"""

from bert_tf import cli, cores, side_by_side
from bert_tf.errors import print_note
from bert_tf.evaluate.config import RETRIEVAL, EvaluateConfig
from bert_tf.options import takes
from bert_tf.storage import locks


@takes(EvaluateConfig)
def evaluate(config):
    """Measure a model, unless the same was measured already.

    Args:
        config: `EvaluateConfig`, or its fields as keyword arguments.

    Returns:
        What the folder's `results.json` holds: `task`, `metrics`, `notes`, `examples` …

    Raises:
        UsageError: options contradict each other or the model, or the folder holds another result.
        BertTfError: a file is missing or damaged, or examples are invalid.
    """
    config.check()
    if config.task == RETRIEVAL:
        from bert_tf.evaluate.retrieval import RetrievalEvaluation as Evaluation
    else:
        from bert_tf.evaluate.run import Evaluation

    config = config.named()
    with locks.held(config.output_dir):
        return Evaluation(config, cli.command_line("evaluate", config)).finish()


def _parser():
    return cli.parser_of("evaluate", __doc__, EvaluateConfig)


@cli.nothing_kept()
def main(argv=None):
    config = EvaluateConfig(**vars(_parser().parse_args(argv))).named()
    if config.task == RETRIEVAL:
        side_by_side.set_threads(cores.usable())
    results = evaluate(config)

    from bert_tf.finetune.results import about_f1, shown

    if results["task"] == RETRIEVAL:
        print(f"{results['examples']:,} queries, {results['passages']:,} passages")
        for name, metrics in results["systems"].items():
            print(f"{name}: {shown(metrics)}")
    else:
        print(f"{results['task']}, {results['examples']:,} examples: {shown(results['metrics'])}")
    for line in about_f1(results):
        print(line)
    for note in results.get("notes", ()):
        print_note(note)
    print(f"written to {config.output_dir}")


cli.make_callable(__name__, evaluate)

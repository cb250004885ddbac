"""Finding SQuAD's paragraphs: vectors of MiniLM, BM25, both fused, and a reranker trained here.

    python benchmarks/retrieval.py

The reranker is all-MiniLM-L6-v2, fine-tuned as a cross-encoder on the questions of the train
articles, those without an answer too, each beside its paragraph and some of the 20 that BM25 finds
for it. Measured is on the articles of the dev file: which of their paragraphs each question is
about, that of the hybrid's first 50 read by the reranker, whose ranking is then fused with those of
vectors and BM25.
"""

import os
import subprocess
import sys
import tempfile

import minilm
from load.processes import environment
from speed.report import Targets, benchmark_parser, finish

from bert_tf.data.table_form import AS_FOUND
from bert_tf.retrieval.bm25 import Bm25
from bert_tf.retrieval.corpus import read_corpus
from bert_tf.storage import files
from bert_tf.tasks.base.query_files import read_queries

MINED = 20  # passages of BM25 that negatives are drawn from
LEAST = 0.03  # MRR@10 that reranking adds


def every_question(path, output):
    """Write a copy in which the questions without an answer count, too: they were written for
    their paragraph."""
    squad = files.read_json(path)
    for article in squad["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                question["is_impossible"] = False
    files.write_json(output, squad)


def mine(path, output):
    """Write the questions of a file with BM25's best other paragraphs as negatives."""
    passages = list(read_corpus(path))
    content = {passage.text: passage.content for passage in passages}  # read with its title
    examples = list(read_queries(path, None, AS_FOUND))
    _, rows = Bm25([passage.content for passage in passages]).search(
        [example.query for example in examples], MINED + 1)
    files.write_json_lines(output, ({
        "query": example.query, "positive": content[example.positives[0]],
        "negatives": [passages[row].content for row in found
                      if row >= 0 and passages[row].text not in example.positives][:MINED],
    } for example, found in zip(examples, rows.tolist(), strict=True)))


def run(module, *words):
    """Run a command of this package."""
    subprocess.run([sys.executable, "-m", f"bert_tf.{module}", *map(str, words)], check=True,
                   env=environment())


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--shared", default="../shared", help="folder of the data")
    add("--epochs", type=int, default=1)
    add("--batch_size", type=int, default=8, help="questions of a step")
    add("--negatives", type=int, default=4, help="beside each paragraph")
    add("--learning_rate", type=float, default=1e-4)
    add("--answerable", action="store_true", help="train by the questions with an answer alone")
    add("--max_seq_length", type=int, default=256)
    add("--loss", default="listwise")
    add("--dtype", default="bfloat16", help="of the reranker's training")
    add("--seed", type=int, default=1)
    add("--folder", help="kept, so that a stopped run resumes (default: a temporary one)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = files.make_folder(arguments.folder or temporary)
        data = os.path.join(arguments.shared, "data", "squad_v2")
        train = os.path.join(folder, "train.jsonl")
        questions = os.path.join(data, "small_train.json")
        if not arguments.answerable:
            every_question(questions, questions := os.path.join(folder, "questions.json"))
        mine(questions, train)
        run("finetune", "--task", "rank", "--init", minilm.weights(), "--train", train,
            "--dev", 0.1, "--output_dir", os.path.join(folder, "reranker"),
            "--export_dir", os.path.join(folder, "served"),
            *(word for name in ("epochs", "batch_size", "negatives", "learning_rate",
                                "max_seq_length", "loss", "dtype", "seed")
              for word in (f"--{name}", getattr(arguments, name))))
        evaluation = os.path.join(folder, "evaluation")
        run("evaluate", "--task", "retrieval", "--model", minilm.weights(),
            "--data", os.path.join(data, "small_dev.json"), "--output_dir", evaluation,
            "--reranker", os.path.join(folder, "reranker"), "--overwrite")
        results = files.read_json(os.path.join(evaluation, "results.json"))
        trained = files.read_json(os.path.join(folder, "reranker", "results.json"))
    print(f"{results['examples']:,} questions, {results['passages']:,} paragraphs")
    targets = Targets()
    for name, metrics in results["systems"].items():
        targets.check(f"MRR@10 of {name}", metrics["mrr@10"])
    targets.check("MRR@10 that reranking the hybrid adds",
                  results["systems"]["hybrid + reranker, fused"]["mrr@10"]
                  - results["systems"]["hybrid"]["mrr@10"], LEAST)
    return finish("retrieval", arguments, targets, systems=results["systems"],
                  seconds=results["system_seconds"], train_seconds=trained["seconds"])


if __name__ == "__main__":
    sys.exit(main())

"""Rates of one core from text to batches, and what they make of 100 GB of text.

    taskset -c 0 python benchmarks/data_scale.py --input corpus.txt --vocab vocab.txt

For each kind of example one process cuts the text into chunks, makes their shards and reads batches
of 32 from them; TensorFlow has one thread, and graphs and tables are made before. `reading` is the
part that every worker of `--runner beam` does for itself where one file is shared; `making` is all
the rest. What is said of 100 GB is these rates times the size.
"""

import dataclasses
import os
import sys
import tempfile
import time

from speed.report import Targets, benchmark_parser, finish

KINDS = {
    "pairs, dynamic, 128": {"format": "segment_pair"},
    "sentences, dynamic, 512": {"format": "full_sentences", "seq_length": 512},
    "pairs, static, 1 pass, 128": {"format": "segment_pair", "masking": "static"},
}
SIZE = 100e9


def _options(seq_length=128, format="segment_pair", masking="dynamic"):
    from bert_tf.data.plan import ExampleOptions

    return ExampleOptions(
        seq_length=seq_length, format=format,
        pairs="random" if format == "segment_pair" else None, masking=masking, whole_word=True,
        max_ngram=1, masked_share=0.15, dupe_factor=1,
        max_predictions_per_seq=round(0.15 * seq_length), short_seq_prob=0.1, seed=12345)


def _make(plan):
    """`{figure: value}` of cutting the text and making its shards."""
    from bert_tf.data.example_maker import ExampleMaker
    from bert_tf.data.plan import shard_facts
    from bert_tf.data.records import index_path
    from bert_tf.storage import files

    maker = ExampleMaker(plan.options, plan.tokenizer)
    maker(next(plan.chunks(0)), os.path.join(plan.output_dir, "first", "train.tfrecord"))
    facts, written, indexed = [], 0, 0
    reading = making = text = 0
    moment = time.perf_counter()
    for chunk in plan.chunks(0):
        read = time.perf_counter()
        maker(chunk, plan.path(chunk))
        facts.append(shard_facts(chunk, plan.path(chunk)))
        made = time.perf_counter()
        written += files.size(plan.path(chunk))
        indexed += files.size(index_path(plan.path(chunk)))
        reading += read - moment
        making += made - read
        text += chunk.size
        moment = time.perf_counter()
    documents = sum(each["num_documents"] for each in facts)
    return facts, {
        "text_MB": text / 1e6, "shards": len(facts),
        "reading_MB_per_core_second": text / 1e6 / reading,
        "making_MB_per_core_second": text / 1e6 / making,
        "documents_per_core_second": documents / (reading + making),
        "record_bytes_per_text_byte": written / text, "index_bytes_per_text_byte": indexed / text,
        "examples_per_MB": sum(each["num_examples"] for each in facts) / text * 1e6}


def _read(folder, seconds):
    """`{figure: value}` of reading batches."""
    from bert_tf.data.pretraining_input import PretrainingInput

    data = PretrainingInput(folder, "train", batch_size=32, seed=12345)
    examples = tokens = 0
    for number, batch in enumerate(data.dataset()):
        if number == 20:
            start, examples, tokens = time.perf_counter(), 0, 0
        examples += 32
        tokens += int(batch["input_mask"].numpy().sum())
        if number > 20 and time.perf_counter() - start > seconds:
            break
    spent = time.perf_counter() - start
    return {"examples_read_per_core_second": examples / spent,
            "tokens_read_per_core_second": tokens / spent}


def measure(arguments, kind):
    """All figures of one kind."""
    from bert_tf.data.plan import Plan, make_sections, splits_of
    from bert_tf.storage import manifest
    from bert_tf.tokenization.load import TokenizerSource
    from bert_tf.tokenization.vocabulary import Vocabulary

    options = _options(**KINDS[kind])
    sections, size = make_sections([arguments.input])
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(sections, size, arguments.split, 0.0, options,
                    TokenizerSource(arguments.vocab, True, True), folder)
        facts, figures = _make(plan)
        vocabulary = Vocabulary.load(arguments.vocab)
        manifest.write(os.path.join(folder, "manifest.json"), dataclasses.asdict(options),
                       pair_labels=options.label, splits=splits_of(facts, options.pairs),
                       vocabulary={"size": len(vocabulary), "mask_id": vocabulary.mask_id,
                                   "special_ids": list(vocabulary.special_ids),
                                   "pad_id": vocabulary.pad_id})
        figures |= _read(folder, arguments.seconds)
    rate = 1 / (1 / figures["reading_MB_per_core_second"]
                + 1 / figures["making_MB_per_core_second"])
    return figures | {
        "all_MB_per_core_second": rate,
        "predicted_100_GB_core_hours": SIZE / 1e6 / rate / 3600,
        "predicted_100_GB_records_GB": 100 * figures["record_bytes_per_text_byte"],
        "predicted_100_GB_index_GB": 100 * figures["index_bytes_per_text_byte"],
        "predicted_100_GB_epoch_read_core_hours":
            figures["examples_per_MB"] * SIZE / 1e6
            / figures["examples_read_per_core_second"] / 3600}


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--input", required=True, help="text")
    parser.add_argument("--vocab", required=True, help="vocabulary")
    parser.add_argument("--split", default="lines")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--seconds", type=float, default=5, help="of reading batches")
    arguments = parser.parse_args()

    import tensorflow as tf

    from bert_tf.storage import files, manifest

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    results = {kind: measure(arguments, kind) for kind in arguments.kinds}
    start = time.perf_counter()
    manifest.digest_file(arguments.input)
    results["digest_MB_per_second"] = (min(files.size(arguments.input), 2**26) / 1e6
                                       / (time.perf_counter() - start))
    for kind, figures in results.items():
        print(kind if isinstance(figures, dict) else f"{kind}: {figures:.0f}")
        for name, value in figures.items() if isinstance(figures, dict) else ():
            print(f"  {name:42}{value:,.3f}")
    return finish("data_scale", arguments, Targets(), results=results)


if __name__ == "__main__":
    sys.exit(main())

"""Tokens a second of the input pipeline alone, beside what training the mini preset consumes.

    python benchmarks/input_pipeline.py --input corpus.txt.gz --vocab vocab.txt

Dynamic whole-word masking, segment pairs of length 128, batches of 32. Exits with 1 where the
pipeline delivers less than ten times what training takes.
"""

import sys
import tempfile
import time

from speed.report import Targets, benchmark_parser, finish

LENGTH, BATCH, LEAST_RATIO = 128, 32, 10


def _tokens_a_second(batches, seconds, step=None):
    """Consume batches for some seconds, behind ten that warm up; real tokens a second."""
    tokens = 0
    for count, batch in enumerate(batches):
        if step:
            step(batch)
        if count == 10:
            started, tokens = time.perf_counter(), 0
        elif count > 10:
            tokens += int(batch["input_mask"].numpy().sum())
            if time.perf_counter() - started > seconds:
                return tokens / (time.perf_counter() - started)
    raise SystemExit("the input ended too early")


def _training_step(vocab_size):
    """One step of training `mini` in float32."""
    import tensorflow as tf

    from bert_tf.presets import preset
    from bert_tf.tasks.pretraining.masked_lm import Pretrainer
    from bert_tf.training.optimizers import AdamW

    model = Pretrainer(preset("bert", "mini", vocab_size=vocab_size))
    optimizer = AdamW(1e-4)

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            sums = model.loss_sums(model(batch, training=True), batch)
            weights = model.loss_weights(batch)
            loss = tf.add_n([sums[name] / weights[name] for name in sums])
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables),
                                      model.trainable_variables, strict=True))

    return step


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--input", required=True, help="text, a sentence a line")
    parser.add_argument("--vocab", required=True, help="vocabulary")
    parser.add_argument("--seconds", type=float, default=10, help="measured on each side")
    arguments = parser.parse_args()

    from bert_tf.data.create import create_examples
    from bert_tf.data.pretraining_input import PretrainingInput

    with tempfile.TemporaryDirectory() as folder:
        made = create_examples(
            input=arguments.input, vocab=arguments.vocab, output_dir=folder, lower_case=True,
            strip_accents=True, max_seq_length=LENGTH, whole_word=True,
            max_predictions_per_seq=20)
        data = PretrainingInput(folder, "train", batch_size=BATCH, seed=12345)
        alone = _tokens_a_second(data.dataset(), arguments.seconds)
        training = _tokens_a_second(data.dataset(), arguments.seconds,
                                    _training_step(made["vocabulary"]["size"]))
    print(f"input pipeline {alone:,.0f} tokens/s, training mini {training:,.0f} tokens/s")
    targets = Targets()
    targets.check("tokens/s of the input by those of training", alone / training, LEAST_RATIO)
    return finish("input_pipeline", arguments, targets, pipeline_tokens_a_second=alone,
                  training_tokens_a_second=training)


if __name__ == "__main__":
    sys.exit(main())

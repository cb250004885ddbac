"""What the held-out figures of a pre-training run must be compared with."""

from bert_tf.training.evaluate import binary_entropy, majority, unigram_entropy, wilson_interval


def baselines(model, metrics, held_out, passes):
    """Measure what knowing frequencies alone would give, on the same held-out examples.

    Args:
        model: of a pre-training task.
        metrics: held-out losses and metrics.
        held_out: the `PretrainingInput` that they are of.
        passes: how often its examples go over the same text, which is counted once.

    Returns: dict of floats: `unigram_entropy` in nats of the tokens that are predicted;
        `replaced_rate_entropy` in nats; `<sentence task>_majority`, the fraction of its more
        frequent label, and `<sentence task>_accuracy_interval`, the bounds that hold in 95 of 100
        such samples.
    """
    def predicted(batch):
        if "masked_lm_ids" in batch:
            return batch["masked_lm_ids"], batch["masked_lm_weights"]
        (task,) = model.tasks
        return model.labels_of(None, batch)[task], model.weights_of(batch)[task]

    found = {"unigram_entropy": unigram_entropy(map(predicted, held_out.dataset()))}
    if "replaced_rate" in metrics:
        found["replaced_rate_entropy"] = binary_entropy(metrics["replaced_rate"])
    count = min(held_out.length, held_out.num_examples / passes)
    for task in ("next_sentence", "sentence_order"):
        if f"{task}_accuracy" in metrics:
            found[f"{task}_majority"] = majority(
                (model.labels_of(None, batch)[task], model.weights_of(batch)[task])
                for batch in held_out.dataset())
            found[f"{task}_accuracy_interval"] = wilson_interval(
                metrics[f"{task}_accuracy"], count)
    return found

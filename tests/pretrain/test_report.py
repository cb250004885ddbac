"""What a finished run tells beside its figures."""

from bert_tf.pretrain.report import figures


def test_a_sentence_task_stands_beside_its_more_frequent_label():
    """Short examples of long sentences are mostly pairs of random segments."""
    metrics = {"next_sentence_accuracy": 0.822, "next_sentence_majority": 0.821,
               "next_sentence_accuracy_interval": [0.733, 0.886]}
    assert figures(metrics) == ["NSP accuracy 0.822, in 95 of 100 cases between 0.733 and 0.886; "
                                "the more frequent label alone gives 0.821"]

"""Make pre-training examples from text.

    python -m bert_tf.create_data --input 'texts/*.txt.gz' --vocab vocab.txt --output_dir data

The folder gets shards (TFRecord), an index beside each, and manifest.json. The same command again
reuses what is finished and continues what was stopped.

With --runner beam Apache Beam does the work, and what follows `--` are Beam's own flags; without
any, --num_processes processes of this machine do it. Others name the engine, for example

    python -m bert_tf.create_data --runner beam … -- --runner=FlinkRunner --flink_master=host:8081
"""

import sys

from bert_tf import cli
from bert_tf.data.options import CreateDataConfig
from bert_tf.options import takes
from bert_tf.storage import locks
from bert_tf.without_keras import import_without_keras


@takes(CreateDataConfig)
def create_examples(config):
    """Write pre-training examples; what is finished is reused.

    Args:
        config: `CreateDataConfig`, or its fields as keyword arguments.

    Returns:
        The manifest, see `data.create.create_examples`.

    Raises:
        UsageError: options contradict each other, another run's result is there, or an extra is
            missing.
        BertTfError: the text does not do, the disk is full, a process died.
    """
    from bert_tf.data import create

    with locks.held(config.output_dir):
        return create.create_examples(config)


def _parser():
    return cli.parser_of("create_data", __doc__, CreateDataConfig)


def main(argv=None):
    arguments, beam_options = cli.with_beam_options(_parser(), argv)
    import_without_keras("tensorflow", "tensorflow_text")
    made = create_examples(CreateDataConfig(**arguments, beam_options=beam_options))
    for split, facts in made["splits"].items():
        if facts["num_examples"]:
            print(f"{split}: {facts['num_examples']:,} examples from {facts['num_documents']:,} "
                  f"documents, {facts['mean_tokens']:.1f} tokens each")


if __name__ == "__main__":
    sys.exit(cli.run(main))

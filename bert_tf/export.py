"""Export a trained model as a SavedModel that tensorflow_model_server loads.

    python -m bert_tf.export --model runs/bert_tiny

The version is written beside those that are there, checked against the Keras model and published
whole. serving/README.md tells how to serve it and what its signatures take.
"""

import os
import sys

from bert_tf import cli, files


def _parser():
    parser = cli.Parser("export", __doc__)
    add = parser.add_argument
    add("--model", required=True, metavar="PATH",
        help="run folder (runs/NAME) or model folder (save_pretrained)")
    add("--export_dir", metavar="saved_models/NAME",
        help="the served model's folder (default: named as the run or the model folder)")
    add("--dtype", choices=("float32", "bfloat16"), default="float32",
        help="what the graph computes in; outputs are float32")
    add("--seq_length", type=cli.positive,
        help="window in tokens, to which longer text is cut (default: what the run trained on, "
             "else all positions of the model)")
    add("--top_k", type=cli.positive, default=5,
        help="predictions of fill_mask for each [MASK]; tokens from which sample draws")
    add("--max_new_tokens", type=cli.positive,
        help="tokens that generate and sample add, for which so much of the window is kept "
             "(default: 32, of a window below 96 a third)")
    return parser


def main(argv=None):
    arguments = _parser().parse_args(argv)

    from bert_tf.saved_model.save import EXPORT, export_saved_model

    version = export_saved_model(
        arguments.model, arguments.export_dir, dtype=arguments.dtype,
        seq_length=arguments.seq_length, top_k=arguments.top_k,
        max_new_tokens=arguments.max_new_tokens)
    about = files.read_json(os.path.join(version, "assets.extra", EXPORT))
    print(f"exported {version}\nsignatures: {' '.join(about['signatures'])}")
    for note in about["notes"]:
        print(f"note: {note}")


if __name__ == "__main__":
    sys.exit(cli.run(main))

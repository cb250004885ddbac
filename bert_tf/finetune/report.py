"""What a finished fine-tuning tells: metrics, and the next commands."""

from bert_tf.errors import print_note
from bert_tf.finetune.results import first_prediction, shown
from bert_tf.saved_model.next_commands import (
    print_next,
    python_command,
    query_command,
    serve_command,
)
from bert_tf.saved_model.save import export_notes


def report(options, results, version):
    """Print how good the model is and what to do with it.

    Args:
        options: `FinetuneConfig` of the run, complete.
        results: what its `results.json` holds.
        version: path of the SavedModel, or None.
    """
    if len(results["seeds"]) > 1:
        sound = sum("metrics" in record for record in results["seeds"])
        of = "" if sound == len(results["seeds"]) else f"{sound} of "
        print(f"mean of {of}{len(results['seeds'])} seeds: "
              f"{shown(results['mean'], results['deviation'] if sound > 1 else None)}")
    print(f"best: {shown(results['metrics'])}")
    if "test_metrics" in results:
        print(f"test: {shown(results['test_metrics'])}")
    commands = {"measure it on other examples": python_command(
        "evaluate", "--model", options.output_dir, "--data", "NEW_FILE")}
    if version is None:
        print_next(commands)
        return
    print(f"exported {version}")
    for note in export_notes(version):
        print_note(note)
    asked = first_prediction(options.output_dir)
    text = asked.get("context") or asked.get("text") or asked["gold"][0]
    print_next(commands | {
        "serve it": serve_command(options.export_dir),
        "ask it, from another terminal": query_command(
            options.export_dir, text, pair=asked.get("text_b"), question=asked.get("question"),
            query=asked.get("query"))})

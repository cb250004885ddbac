"""finetune --lora_rank: what learns, what is saved, going on, what is refused."""

import json

import numpy as np
import pytest
from sentiment import config, examples, tokenizer, write_table

from bert_tf import finetune
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.finetune.trial import add_lora
from bert_tf.storage import variables
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.training import loop

RANK = 2
SIZES = {"num_hidden_layers": 2, "pooling": "first"}  # what is drawn and frozen is read as it is
HEAD = {"cls/classifier/output_bias", "cls/classifier/output_weights"}


def options(folder, name="run", **values):
    return FinetuneConfig(**{
        "task": "classify", "train": str(folder / "train.tsv"), "dev": 0.25, "batch_size": 8,
        "init": str(folder / "bert"), "output_dir": str(folder / name), "epochs": (6,),
        "export_dir": str(folder / "saved" / name), "learning_rate": (0.02,), "lora_rank": RANK,
        "dropout": 0.0, "strategy": "one_device", **values})


def read(folder):
    return variables.read_variables(str(folder / "model"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Folder of a finished run, and its results."""
    folder = tmp_path_factory.mktemp("lora")
    write_table(folder / "train.tsv", examples(120))
    Pretrainer(config(**SIZES), None, seed=2).save_pretrained(str(folder / "bert"), tokenizer())
    return folder, finetune.finetune(options(folder)).results


def test_additions_and_head_alone_learn_and_are_saved_as_a_plain_model(finished):
    folder, results = finished
    assert results["metrics"]["accuracy"] > 0.9  # of the head alone 0.7
    before, after = read(folder / "bert"), read(folder / "run" / "model")
    assert after.keys() == {variable.path for variable in
                            Classifier(config(**SIZES), ["bad", "good"]).weights}
    kernels = {f"bert/encoder/layer_{layer}/attention/self/{name}/kernel"
               for layer in (0, 1) for name in ("query", "value")}
    assert kernels == {path for path, value in after.items()
                       if path in before and not np.array_equal(value, before[path])}
    for path in kernels:
        values = np.linalg.svd(after[path] - before[path], compute_uv=False)
        assert values[RANK - 1] > 1e-3 and values[RANK] < 1e-5
    model = from_pretrained(str(folder / "run" / "model"))
    for line in (folder / "run" / "predictions.jsonl").read_text().splitlines()[:5]:
        line = json.loads(line)
        assert model.classify(line["text"])["probabilities"] == pytest.approx(
            line["scores"], abs=1e-5)


@pytest.mark.long
def test_a_run_that_is_stopped_ends_with_the_same_weights(finished, monkeypatch):
    """Also where activations are recomputed."""
    folder, _ = finished
    evaluate, calls = loop._Run.evaluate, []

    def stop(self):
        calls.append(self.step)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(self)

    monkeypatch.setattr(loop._Run, "evaluate", stop)
    again = options(folder, "again", dropout=0.1, gradient_checkpointing=True)
    with pytest.raises(KeyboardInterrupt):
        finetune.finetune(again)
    finetune.finetune(again)
    # With graphs that TensorFlow improves, activations that are kept differ in the last bit.
    finetune.finetune(options(folder, "other", dropout=0.1, gradient_checkpointing=True))
    expected = read(folder / "other" / "model")
    for name, values in read(folder / "again" / "model").items():
        np.testing.assert_array_equal(values, expected[name], name)


def test_what_has_only_initial_weights_learns_too():
    model = Classifier(config(), ["bad", "good"])
    model.fresh_variables = tuple(variable.path for variable in model.backbone.pooler.weights)
    add_lora(model, RANK)
    additions = {f"bert/encoder/layer_0/attention/self/{name}/lora_kernel_{part}"
                 for name in ("query", "value") for part in "ab"}
    assert {variable.path for variable in model.trainable_variables} == {
        *model.fresh_variables, *additions, *HEAD}


def test_a_model_without_layers_is_refused():
    static = ModelConfig.from_dict({"family": "static", "vocab_size": 9, "padding_id": 0,
                                    "hidden_size": 4, "max_position_embeddings": 8})
    with pytest.raises(UsageError, match="--lora_rank 2 with a model of family='static'"):
        add_lora(SentenceEmbedder(static), RANK)

"""Classifier, span and tagger: fit in the plain Keras way, in a loop, on two replicas."""

import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored
from text_models import TINY, classifier

from bert_tf import randomness
from bert_tf.errors import UsageError
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.ranking.model import Ranker
from bert_tf.tasks.token_classification.model import TokenClassifier

TASKS = {"classifier": lambda **options: Classifier(TINY, ["no", "yes"], seed=2, **options),
         "span": lambda **options: QuestionAnswering(TINY, seed=2, **options),
         "tagger": lambda **options: TokenClassifier(TINY, ["low", "middle", "high"], seed=2,
                                                     **options)}


def make_data(task, size=128, length=9):
    """`(inputs, labels)` that the ids themselves tell; the tagger's first token has no label."""
    random = np.random.default_rng(0)
    ids = random.integers(2, 50, (size, length)).astype("int32")
    marks = random.integers(1, length, size).astype("int32")
    ids[np.arange(size), marks] = 1
    inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids),
              "input_type_ids": np.zeros_like(ids)}
    if task == "classifier":
        ids[:, 1] = random.integers(3, 5, size)
        return inputs, ids[:, 1] % 2
    if task == "span":
        return inputs, {"start_positions": marks, "end_positions": marks}
    return inputs, np.where(np.arange(length) == 0, -1, ids // 20).astype("int32")


def batch_of(task, size=8):
    inputs, labels = make_data(task, size)
    return {**inputs, **(labels if isinstance(labels, dict) else {"label_ids": labels})}


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_fit_on_labels_beside_the_inputs(task, tmp_path):
    model = TASKS[task]()
    model.compile(keras.optimizers.Adam(0.01))
    inputs, labels = make_data(task)
    history = model.fit(inputs, labels, batch_size=8, epochs=8, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.saving.load_model(path)
    for a, b in zip(tf.nest.flatten(loaded(inputs)), tf.nest.flatten(model(inputs)), strict=True):
        np.testing.assert_array_equal(a, b)
    loaded.run_eagerly = model.run_eagerly = True
    results = loaded.evaluate(inputs, labels, verbose=0, return_dict=True)
    np.testing.assert_allclose(
        results["loss"], model.evaluate(inputs, labels, verbose=0, return_dict=True)["loss"],
        rtol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_inputs_that_are_missing_are_named(task):
    inputs, _ = make_data(task, 8)
    with pytest.raises(UsageError, match="inputs without input_mask and input_type_ids; expected"):
        TASKS[task]().predict({"input_word_ids": inputs["input_word_ids"]}, verbose=0)


def test_labels_among_the_inputs_may_be_a_list(eager):
    model = classifier()
    model.compile("sgd")
    texts, labels, weights = ["a b", "c"], [0, 1], [1.0, 3.0]
    expected = model.evaluate(texts, labels, sample_weight=weights, verbose=0)
    given = {"text": texts, "label_ids": labels, "example_weights": weights}
    np.testing.assert_allclose(model.evaluate(given, verbose=0), expected, rtol=1e-6)
    with pytest.raises(UsageError, match="label_ids such as 2"):
        model.fit({**given, "label_ids": [0, 2]}, verbose=0)


def test_weights_of_several_labels(eager):
    """Of one array Keras makes one for each label; they may also be given so."""
    model = TASKS["span"]()
    model.compile()
    inputs, labels = make_data("span", 8)
    weights = np.tile([1, 0, 2, 1], 2).astype("float32")
    outputs = model(inputs)
    for start, end in ((weights, weights), (weights, 1 - weights / 2)):
        expected = sum(float(model.loss_sums(outputs, {
            **inputs, **labels, "example_weights": each})[task]) / each.sum() / 2
            for task, each in (("start", start), ("end", end)))
        of_labels = {"start_positions": start, "end_positions": end}
        for given in ((weights, of_labels) if start is end else (of_labels,)):
            loss = model.evaluate(inputs, labels, sample_weight=given, verbose=0)[0]
            assert loss == pytest.approx(expected, rel=1e-5)


def test_a_model_that_is_compiled_without_a_loss_forgets_an_earlier_one(eager):
    inputs, labels = make_data("classifier", 8)
    losses = []
    for earlier in ({}, {"loss": keras.losses.SparseCategoricalCrossentropy(),  # of probabilities
                         "metrics": ["mae"]}):
        model = TASKS["classifier"]()
        model.compile("sgd", **earlier)
        model.compile("sgd")
        losses.append(model.evaluate(inputs, labels, verbose=0))
    assert losses[1] == losses[0]


def test_a_quantized_model_is_compiled_without_a_loss(eager):
    """It ended in `ValueError: None`."""
    model, given = TASKS["classifier"](), make_data("classifier", 8)
    model.quantize("int8")
    model.backbone.enable_lora(2)
    model.compile(keras.optimizers.Adam(0.01))
    before = model.evaluate(*given, verbose=0)[0]
    model.fit(*given, epochs=5, verbose=0)
    assert model.evaluate(*given, verbose=0)[0] < before


def test_each_replica_reports_an_equal_part_of_the_loss():
    """Keras weighs them by rows, of which a last batch has not as many for each."""
    batch, strategy = batch_of("classifier", 3), mirrored(2)
    with strategy.scope():
        model = TASKS["classifier"]()
        model.compile("sgd")
    logits = model(batch)
    parts = [{name: values[rows] for name, values in {**batch, "logits": logits}.items()}
             for rows in (slice(2), slice(2, 3))]
    given = strategy.experimental_distribute_values_from_function(
        lambda context: parts[context.replica_id_in_sync_group])
    found = strategy.run(lambda part: model.compute_loss(part, y_pred=part["logits"]), (given,))
    whole = model.loss_sums(logits, batch)["classifier"] / 3
    np.testing.assert_allclose(strategy.experimental_local_results(found), [whole / 2] * 2,
                               rtol=1e-5)


def test_weights_of_classes(eager):
    """Wherever the labels are: those in the inputs ended in an IndexError."""
    inputs, labels = make_data("classifier", 8)
    found = []
    for given, options in (((inputs, labels), {"sample_weight": np.where(labels, 5.0, 1.0)}),
                           *(((*each,), {"class_weight": {0: 1.0, 1: 5.0}}) for each in (
                               (inputs, labels), (inputs, {"label_ids": labels}),
                               ({**inputs, "label_ids": labels},)))):
        model = TASKS["classifier"]()
        model.compile("sgd")
        model.fit(*given, verbose=0, **options)
        model.train_on_batch(*given, **options)
        found.append(model.head.get_weights()[0])
    for weights in found[1:]:
        np.testing.assert_array_equal(weights, found[0])
    with pytest.raises(UsageError, match=r"class_weight of 'good'; .* try model.labels.index"):
        model.fit(inputs, labels, class_weight={"good": 5.0}, verbose=0)
    weighed = {**inputs, "label_ids": labels, "example_weights": np.zeros(8)}
    for options in ({"class_weight": {0: 5.0}}, {"sample_weight": np.ones(8)}):
        for loss in (None, keras.losses.SparseCategoricalCrossentropy(from_logits=True)):
            model.compile("sgd", loss)
            for train in (model.fit, model.train_on_batch):
                with pytest.raises(UsageError, match="example_weights among the inputs and"):
                    train(weighed, **options)


class Once(keras.utils.PyDataset):
    """One batch."""

    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.batch


def test_batches_with_weights_of_classes_go_to_another_process():
    """A spawned worker of Keras gets them pickled, which a function with the model in it is not."""
    inputs, labels = make_data("classifier", 8)
    made = TASKS["classifier"]()._weighed_classes(Once((inputs, labels)), {0: 5.0})
    _, _, weights = pickle.loads(pickle.dumps(made))[0]  # noqa: S301
    np.testing.assert_array_equal(weights, np.where(labels, 1.0, 5.0))


def test_weights_of_classes_in_a_dataset(eager):
    """Keras looked up every label: -1 and what has no weight ended in an error, labels in the
    inputs, too; those of a `PyDataset` of dicts were not weighed."""
    inputs, labels = make_data("classifier", 8)
    labels = np.where(np.arange(8) == 3, -1, labels)
    soft = np.where(labels[:, np.newaxis] < 0, np.nan, np.eye(2)[labels]).astype("float32")
    batches = tf.data.Dataset.from_tensors
    found = []
    for given in ((inputs, labels), (batches((inputs, labels[:, np.newaxis])),),
                  (batches((inputs, {"label_ids": labels})),),
                  (batches((inputs, soft)),), (batches({**inputs, "label_ids": labels}),),
                  (Once((inputs, {"label_ids": labels})),), (Once((inputs, labels.tolist())),),
                  (Once({**inputs, "label_ids": tf.constant(labels)}),), (Once((inputs, soft)),)):
        model = TASKS["classifier"]()
        model.compile("sgd")
        model.fit(*given, class_weight={np.int64(0): np.float64(5)}, verbose=0, shuffle=False)
        found.append(model.head.get_weights()[0])
    for weights in found[1:]:
        np.testing.assert_allclose(weights, found[0], atol=1e-6)
    weighed = {**inputs, "label_ids": labels, "example_weights": np.ones(8, "float32")}
    for given in (batches(weighed), Once(weighed)):
        with pytest.raises(UsageError, match="class_weight and weights of the dataset"):
            model.fit(given, class_weight={0: 5.0}, verbose=0)
    types = dict.fromkeys(inputs, tf.int32), tf.int32
    unknown = tf.data.Dataset.from_generator(lambda: iter([(inputs, labels)]), types)
    with pytest.raises(UsageError, match="labels have no known rank"):
        model.fit(unknown, class_weight={0: 5.0}, verbose=0)


@pytest.mark.parametrize("make", [
    TASKS["tagger"], TASKS["span"],
    *(lambda problem=problem: Classifier(TINY, ["a"], problem) for problem in (
        "multi_label", "regression"))])
def test_weights_of_classes_need_one_label_an_example(make):
    """Keras takes the place of a row's largest label for its class."""
    model = make()
    model.compile("sgd")
    with pytest.raises(UsageError, match="class_weight of .* try sample_weight"):
        model.fit(*make_data("tagger", 4), class_weight={0: 1.0, 1: 5.0}, verbose=0)


def test_weights_of_the_labels_shape():
    model, batch = TASKS["tagger"](), batch_of("tagger", 1)
    weights = np.arange(9, dtype="float32")[np.newaxis]
    known = np.where(weights > 4, batch["label_ids"], -1)
    outputs = model(batch)
    for given in ({**batch, "example_weights": (weights > 4) * 2.0},
                  {**batch, "label_ids": known, "example_weights": np.array([2.0])}):
        assert float(model.loss_weights(given)["tagger"]) == 8
        np.testing.assert_allclose(
            model.loss_sums(outputs, given)["tagger"],
            2 * model.loss_sums(outputs, {**batch, "label_ids": known})["tagger"], rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_labels_in_the_batch_or_beside_it_and_on_two_replicas(task):
    inputs, labels = make_data(task, 32)
    weights = np.tile([1, 1, 0, 1], 8).astype("float32")
    inside = {**inputs, **(labels if isinstance(labels, dict) else {"label_ids": labels}),
              "example_weights": weights}
    losses, kernels = [], []
    for replicas, data in ((1, (inputs, labels, weights)), (1, inside), (2, inside)):
        with mirrored(replicas).scope():
            model = TASKS[task]()
            model.compile(keras.optimizers.SGD(0.1))
        # With collective ops, which MirroredStrategy has by itself, one that is made inside a step
        # breaks it.
        assert [metric.name for metric in model.metrics] == [
            "loss", *(f"{name}_accuracy" for name in model.tasks)]
        dataset = tf.data.Dataset.from_tensor_slices(data).batch(8)
        losses.append(model.fit(dataset, epochs=2, verbose=0).history["loss"])
        kernels.append(model.head.output_weights.numpy())
    np.testing.assert_allclose(losses[1], losses[0], atol=1e-5)
    np.testing.assert_allclose(losses[2], losses[0], atol=1e-5)
    np.testing.assert_allclose(kernels[2], kernels[0], atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_accounting_against_numpy(task):
    model, batch = TASKS[task](), batch_of(task)
    outputs = model(batch)
    named = outputs if task == "span" else {f"{task}_logits": outputs}
    sums, weights = model.loss_sums(outputs, batch), model.loss_weights(batch)
    for name, key in model.label_keys.items():
        logits = named[f"{name}_logits"].numpy().astype("float64")
        known = batch[key] >= 0
        labels = np.maximum(batch[key], 0)
        losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
            logits, labels[..., None], -1)[..., 0]
        np.testing.assert_allclose(sums[name], losses[known].sum(), rtol=1e-5)
        assert float(weights[name]) == known.sum()
        right, total = model.metric_sums(outputs, batch)[f"{name}_accuracy"]
        assert float(right) == (logits.argmax(-1) == labels)[known].sum()
        assert float(total) == known.sum()


@pytest.mark.long
def test_a_loss_and_metrics_of_keras():
    inputs, labels = make_data("classifier", 32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = TASKS["classifier"]()
    model.compile(keras.optimizers.SGD(0.1), loss,
                  metrics=[keras.metrics.SparseCategoricalAccuracy("accuracy")])
    ours = TASKS["classifier"]()
    ours.compile(keras.optimizers.SGD(0.1))
    theirs = model.fit(inputs, labels, batch_size=8, shuffle=False, verbose=0).history
    own = ours.fit(inputs, labels, batch_size=8, shuffle=False, verbose=0).history
    np.testing.assert_allclose(theirs["loss"], own["loss"], rtol=1e-5)
    np.testing.assert_allclose(theirs["accuracy"], own["classifier_accuracy"], rtol=1e-5)


def test_keras_losses_and_metrics_find_labels_and_weights_among_the_inputs(eager):
    """They were given None."""
    inputs, labels = make_data("classifier", 8)
    weights = np.tile([1, 0, 2, 1], 2).astype("float32")
    inside = {**inputs, "label_ids": labels, "example_weights": weights}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for further in ({"loss": loss}, {"metrics": ["accuracy"]},
                    {"loss": loss, "weighted_metrics": ["accuracy"]}):
        model = TASKS["classifier"]()
        model.compile("sgd", **further)
        assert model.evaluate(inside, verbose=0) == pytest.approx(
            model.evaluate(inputs, labels, sample_weight=weights, verbose=0))
    with pytest.raises(ValueError, match="no labels 'label_ids'"):
        model.evaluate(inputs, verbose=0)


@pytest.mark.parametrize(("task", "policy"), [
    ("classifier", "mixed_bfloat16"), ("span", "mixed_float16"), ("tagger", "mixed_bfloat16"),
    *(pytest.param(*values, marks=pytest.mark.long) for values in (
        ("classifier", "mixed_float16"), ("span", "mixed_bfloat16"), ("tagger", "mixed_float16")))])
def test_half_precision_is_near(task, policy):
    half, full = TASKS[task](dtype=policy), TASKS[task](dtype="float32")
    for a, b in zip(tf.nest.flatten(half(batch_of(task))), tf.nest.flatten(full(batch_of(task))),
                    strict=True):
        assert a.dtype == tf.float32
        np.testing.assert_allclose(a, b, atol=0.1)


def test_dropout_in_front_of_the_head():
    """As in run_classifier; none in front of spans, as in run_squad."""
    config = TINY.replace(hidden_dropout_prob=0.5)
    for model, differs in ((Classifier(config, ["a", "b"], seed=1), True),
                           (TokenClassifier(config, ["a", "b"], seed=1),
                            True), (QuestionAnswering(config), False)):
        assert (model.dropout.rate > 0) == differs
        hidden = tf.ones((4, 16))
        with randomness.draw_at(1, 2, 3):
            dropped = model.dropout(hidden, training=True).numpy()
        assert (dropped != 1).any() == differs


def test_files_and_clones_keep_the_rate_of_dropout_in_front_of_the_head(tmp_path):
    model = TASKS["classifier"](dropout=np.float32(0.25))
    assert keras.models.clone_model(model).dropout.rate == 0.25
    model.save_pretrained(tmp_path / "model")
    loaded = from_pretrained(tmp_path / "model")
    assert loaded.dropout.rate == 0.25 and loaded.config.hidden_dropout_prob == 0.0
    asked = from_pretrained(tmp_path / "model", config={"hidden_dropout_prob": 0.2})
    assert asked.dropout.rate == 0.2
    for make in (TASKS["tagger"], Ranker):
        options = {} if make is TASKS["tagger"] else {"encoder": TINY}
        assert make(**options, dropout=0.3).options()["dropout"] == 0.3
        assert "dropout" not in make(**options).options()


@pytest.mark.parametrize("labels", [["one"], ["a", "a"], ["a", 3], "ab", []])
def test_labels_are_two_or_more_names(labels):
    for task in (Classifier, TokenClassifier):
        with pytest.raises(UsageError, match="two or more different names"):
            task(TINY, labels)


@pytest.mark.parametrize("number", ["3", 3.0, 0, -1, True])
def test_a_number_of_labels_that_is_none(number):
    for task in (Classifier, TokenClassifier):
        for labels in (None, ["a", "b", "c"]):
            with pytest.raises(UsageError, match=f"num_labels={number!r}; expected an integer"):
                task(TINY, labels, num_labels=number)


def test_a_classifier_that_sees_one_token_is_refused():
    causal = TINY.replace(attention="causal")
    with pytest.raises(UsageError, match="pooling='last' or 'mean', or bilstm=True"):
        Classifier(causal, ["a", "b"])
    for pooling in ("last", "mean"):
        Classifier(causal.replace(pooling=pooling), ["a", "b"])
    Classifier(causal.replace(bilstm=True), ["a", "b"])


def test_missing_labels_are_named():
    model = TASKS["span"]()
    model.compile("sgd")
    inputs, labels = make_data("span", 8)
    with pytest.raises(ValueError, match="no labels 'end_positions'"):
        model.fit(inputs, {"start_positions": labels["start_positions"]}, verbose=0)

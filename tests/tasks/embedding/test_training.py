"""Learning vectors: whole batches in parts and on replicas, features, plain Keras, resuming."""

import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored

import bert_tf
from bert_tf.config import ModelConfig
from bert_tf.data.task_input import TaskInput
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.features import query_features
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.options import EmbeddingLoss
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.config import TrainConfig
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.step import make_train_step
from bert_tf.training.strategy import distribute

WORDS = [f"w{number}" for number in range(20)]
CONFIG = ModelConfig(vocab_size=25, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                     intermediate_size=32, max_position_embeddings=12, initializer_range=0.3,
                     hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)


def make(**options):
    preprocessor = TextPreprocessor(Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS])), 12)
    return SentenceEmbedder(CONFIG, preprocessor=preprocessor, seed=3, **options)


def text(random):
    return " ".join(random.choice(WORDS, random.integers(1, 9)))


def queries(count, seed=0):
    """Queries with a positive, which some share, and none to two hard negatives."""
    random = np.random.default_rng(seed)
    positives = [text(random) for _ in range(count - 2)]
    return [QueryExample(str(number), text(random), (positives[number % len(positives)],),
                         tuple(text(random) for _ in range(number % 3)))
            for number in range(count)]


def one_step(strategy, accumulate_steps=1, loss=None):
    """The loss, the gradient's norm and the weights after a step on 14 queries in a batch of 16."""
    loss = loss or EmbeddingLoss(loss="in_batch", two_sided=True)
    with strategy.scope():
        model = make(training_loss=loss)
        config = TrainConfig(train_steps=5, batch_size=16, accumulate_steps=accumulate_steps,
                             optimizer="lamb", learning_rate=1e-2)
        optimizer = build_optimizer(config)
        optimizer.build(model.trainable_variables)
    data = TaskInput(query_features(queries(14), model, loss), 16, 5, False)
    batches = iter(distribute(strategy, lambda replicas, own: data.dataset(0, replicas, own)))
    step = make_train_step(model, optimizer, strategy, config)
    results, _ = step(batches, tf.constant(0, tf.int64), tf.constant(False), {})
    return (float(results["loss"]), float(results["gradient_norm"]),
            {variable.path: variable.numpy() for variable in model.weights})


@pytest.fixture(scope="module")
def whole():
    return one_step(tf.distribute.get_strategy())


@pytest.mark.parametrize("replicas, accumulate_steps", [
    pytest.param(1, 4, marks=pytest.mark.long), pytest.param(2, 1, marks=pytest.mark.long), (2, 2)])
def test_parts_and_replicas_equal_the_whole_batch(whole, replicas, accumulate_steps):
    """With dropout: what an example draws depends on its place in the batch alone."""
    loss, norm, weights = one_step(
        mirrored(2) if replicas == 2 else tf.distribute.get_strategy(), accumulate_steps)
    assert loss == pytest.approx(whole[0], abs=1e-5) and loss > 1
    assert norm == pytest.approx(whole[1], rel=1e-5)
    for name, value in weights.items():
        if name.endswith("key/bias"):
            continue  # adds the same to all scores: its gradient is 0 but for rounding
        np.testing.assert_allclose(value, whole[2][name], rtol=0, atol=1e-5, err_msg=name)


def test_features():
    model = make(prompts={"query": "w0 ", "passage": "w1 "})
    examples = [QueryExample("0", "w2", ("w3", "w4"), ("w5",)), QueryExample("1", "w2", ("w6",)),
                QueryExample("2", "w7", ("w3",), ("w5", "w4", "w8"))]
    features = query_features(examples, model, EmbeddingLoss(negatives=2))
    assert features.example.tolist() == [0, 0, 1, 2]
    ids, vocabulary = features.rows["input_word_ids"], model.preprocessor.tokenizer.vocabulary
    words = [[vocabulary.tokens[id] for id in ids[row]][1:-1] for row in range(len(ids))]
    assert [[" ".join(words[row]) if row >= 0 else "" for row in rows]
            for rows in features.lists] == [
        ["w0 w2", "w1 w3", "w1 w5", ""], ["w0 w2", "w1 w4", "w1 w5", ""],
        ["w0 w2", "w1 w6", "", ""], ["w0 w7", "w1 w3", "w1 w5", "w1 w4"]]
    # All positives of a query, of whatever row.
    assert [{words[id - 1][1] for id in row if id} for row in features.rows["positive_ids"]] == [
        {"w3", "w4", "w6"}] * 3 + [{"w3"}]
    batch = next(iter(TaskInput(features, 4, 1, False, shuffle=False).dataset()))
    assert batch["input_word_ids"].shape == (4, 4, 4)
    assert batch["input_mask"].numpy().sum(-1)[2].tolist() == [4, 4, 0, 0]
    np.testing.assert_array_equal(batch["text_ids"], features.lists + 1)


def test_a_text_alone_is_its_own_positive_under_another_dropout():
    model = make()
    features = query_features([QueryExample("0", "w1 w2"), QueryExample("1", "w3")], model,
                              EmbeddingLoss(loss="in_batch"))
    np.testing.assert_array_equal(features.lists, [[0, 0], [1, 1]])
    batch = next(iter(TaskInput(features, 2, 1, False, shuffle=False).dataset()))
    left, right = tf.unstack(model(batch, training=True), axis=1)
    assert np.abs(left - right).max() > 0.01
    left, right = tf.unstack(model(batch, training=False), axis=1)
    np.testing.assert_allclose(left, right, atol=1e-6)
    np.testing.assert_allclose(left, model.embed(["w1 w2", "w3"]), atol=1e-5)


def test_plain_keras():
    model, examples = make(), queries(16)
    model.compile("adam", EmbeddingLoss(loss="in_batch"))
    model.optimizer.learning_rate = 1e-2
    data = bert_tf.query_batches(examples, model, 8, seed=1, epochs=8)
    assert len(data) == 16
    before = model.evaluate(data, verbose=0)
    model.fit(data, verbose=0)
    after = model.evaluate(data, verbose=0)
    assert after < before - 0.3
    assert model.embed(["w1 w2"]).shape == (1, 16)

"""Tables with other rows: which variables have them, what the rows are, what stays."""

import numpy as np
import pytest

from bert_tf.config import ModelConfig
from bert_tf.converters import ours
from bert_tf.converters.checkpoint import parameter_shapes
from bert_tf.converters.vocabulary_surgery import with_vocabulary
from bert_tf.errors import UsageError
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens

SIZES = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 16, "max_position_embeddings": 12, "embedding_size": 4}
KEPT, MADE = [0, 2, 3, 5, 19], [(2, 4), (19,), ()]
WORDS = "{}/embeddings/word_embeddings"


def read(model, folder):
    """A model with every variable drawn anew, as a `Checkpoint`."""
    draw = np.random.default_rng(1)
    for variable in model.weights:
        variable.assign(draw.standard_normal(variable.shape))
    model.save_pretrained(str(folder / "model"))
    return ours.read(str(folder / "model"))


def embedder():
    config = ModelConfig(**SIZES)
    return SentenceEmbedder(config, weighting="idf", mask_specials=True, special_ids=[2, 3], seed=1)


def test_ids_that_a_part_of_the_model_names_are_others_too(tmp_path):
    config = ModelConfig(**SIZES)
    sparse = SparseEmbedder(config, query_table={"special_ids": [3, 5]}, seed=1)
    before = read(sparse, tmp_path)
    after = with_vocabulary(before, KEPT, MADE, None)
    assert after.task["query_table"]["special_ids"] == [2, 3]
    assert before.task["query_table"]["special_ids"] == [3, 5]


@pytest.mark.parametrize(("make", "tables"), [
    (lambda: Pretrainer(ModelConfig(**SIZES), seed=1),
     {WORDS.format("bert"), "cls/predictions/output_bias"}),
    (lambda: ReplacedTokens(ModelConfig.from_dict({**SIZES, "family": "electra"}), seed=1,
                            generator=ModelConfig.from_dict({**SIZES, "family": "electra"})),
     {WORDS.format("electra"), "generator_predictions/output_bias"}),
    (embedder, {WORDS.format("bert"), "cls/pooling/term_weights/inverse_document_frequency"}),
])
def test_rows_stay_or_are_means_and_all_else_is_the_same(make, tables, tmp_path):
    before = read(make(), tmp_path)
    after = with_vocabulary(before, KEPT, MADE, None, seed=4)
    assert after.config == before.config.replace(vocab_size=8)
    assert after.tensors.shapes == parameter_shapes(after.config, after.task)
    for name, values in after.tensors.items():
        old = before.tensors[name]
        if name not in tables:
            np.testing.assert_array_equal(values, old)
            continue
        tables = tables - {name}
        np.testing.assert_array_equal(values[:5], old[KEPT])
        np.testing.assert_array_equal(values[5], (old[2] + old[4]) / 2)
        np.testing.assert_array_equal(values[6], old[19])
        noise = np.random.default_rng(4).standard_normal(old.shape[1:]) if old.ndim > 1 else 0
        np.testing.assert_allclose(values[7], old[KEPT].mean(0) + .1 * old[KEPT].std(0) * noise,
                                   rtol=1e-5)
    assert not tables
    if after.task["task"] == "embedder":
        assert after.task["special_ids"] == [1, 2]
    ours.write(after, str(tmp_path / "after"))
    assert ours.read(str(tmp_path / "after")).config == after.config


def test_an_exchange_of_as_many_rows_is_one(tmp_path):
    before = read(Pretrainer(ModelConfig(**SIZES), seed=1), tmp_path)
    after = with_vocabulary(before, range(19), [(0, 1)], None)
    table = before.tensors[WORDS.format("bert")]
    np.testing.assert_array_equal(after.tensors[WORDS.format("bert")][19],
                                  (table[0] + table[1]) / 2)


@pytest.mark.parametrize(("family", "kept", "message"), [
    ("roberta", [0, 2, 3], "padding_id=1 would be None; expected all pieces up to"),
    ("roberta", [1, 2, 3], "padding_id=1 would be 0; expected all pieces up to"),
    ("bert", [0, 1, 20], "piece 20 of a model with vocab_size=20"),
])
def test_what_would_move_positions_is_refused(family, kept, message, tmp_path):
    config = ModelConfig.from_dict({**SIZES, "family": family, "embedding_size": 0,
                                    "padding_id": int(family == "roberta")})
    before = read(Pretrainer(config, sentence_task=None, seed=1), tmp_path)
    with pytest.raises(UsageError, match=message):
        with_vocabulary(before, kept, [], None)

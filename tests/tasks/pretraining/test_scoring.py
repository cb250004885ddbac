"""How probable texts are, against a log-softmax in NumPy of each token's logits alone."""

import numpy as np
import pytest
from scipy.special import log_softmax

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.tasks.pretraining import scoring
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = [*SPECIAL_TOKENS, "the", "quick", "brown", "fox", "jumps", "over", "dog", "."]
TEXTS = ["the quick brown fox", "", "jumps over the dog . " * 5, "the", "fox the . " * 3]
SIZES = {"vocab_size": len(WORDS) + 2, "hidden_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 2, "intermediate_size": 32, "initializer_range": 0.5}
NOTHING_AROUND = {"pair_separators": 0, "initial_token": False, "final_separator": False}


def make_model(around, **config):
    model = LanguageModel(ModelConfig.from_dict({**SIZES, **config}), seed=3)
    model.tokenizer = Tokenizer(Vocabulary(WORDS, **around))
    return model


@pytest.mark.parametrize(("around", "config"), [
    ({}, {"family": "gpt", "max_position_embeddings": 9}),
    (NOTHING_AROUND, {"family": "gpt2", "max_position_embeddings": 12}),
    ({}, {"family": "roberta", "attention": "causal", "max_position_embeddings": 13,
          "padding_id": 0})], ids=["gpt", "gpt2", "roberta"])
def test_against_numpy(around, config, monkeypatch):
    """A text, none, and such as are longer than the window, in any batch."""
    monkeypatch.setattr(scoring, "_DECODED", 7)
    model = make_model(around, **config)
    vocabulary, longest = model.tokenizer.vocabulary, model.config.longest
    found = model.score(TEXTS, batch_size=2)
    for text, told in zip(TEXTS, found, strict=True):
        row = [vocabulary.cls_id, *model.tokenizer.tokenize([text]).to_list()[0],
               vocabulary.sep_id]
        # The first window that holds a token; each begins half a window after another.
        half = longest // 2
        starts = [-(-max(0, place + 1 - longest) // half) * half for place in range(1, len(row))]
        seen = [row[start:place] for place, start in enumerate(starts, 1)]
        batch = {"input_word_ids": np.array([each + [0] * (longest - len(each)) for each in seen]),
                 "input_mask": np.array([np.arange(longest) < len(each) for each in seen], int)}
        logits = model.next_token_logits(batch).numpy().astype("float64")
        total = log_softmax(logits, -1)[np.arange(len(row) - 1), row[1:]].sum()
        assert told["num_tokens"] == len(row) - 1
        np.testing.assert_allclose(told["log_probability"], total, rtol=1e-5)
        np.testing.assert_allclose(told["perplexity"], np.exp(-total / (len(row) - 1)), rtol=1e-5)
    for others in (model.score(TEXTS), [model.score(text) for text in TEXTS]):
        for told, other in zip(found, others, strict=True):
            np.testing.assert_allclose(other["log_probability"], told["log_probability"],
                                       rtol=1e-5)
    assert model.score([]) == []


def test_long_texts_are_read_a_few_at_a_time(monkeypatch):
    model = make_model({}, family="gpt", max_position_embeddings=64)
    texts, shapes = ["the dog . " * 20, "fox", *["jumps over the dog . " * 3] * 4, "the"], []
    alone = [model.score(text)["log_probability"] for text in texts]
    hidden_of = LanguageModel.hidden_of

    def spied(self, batch):
        shapes.append(tuple(batch["input_word_ids"].shape))
        return hidden_of(self, batch)

    monkeypatch.setattr(LanguageModel, "hidden_of", spied)
    monkeypatch.setattr(scoring, "_ENCODED", 40)
    together = [told["log_probability"] for told in model.score(texts)]
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    assert sorted(shapes) == [(1, 62), (2, 3), (2, 17), (2, 17)]


def test_it_is_the_loss_of_training():
    model = make_model({}, family="gpt", max_position_embeddings=32)
    batch = pack(model.tokenizer.vocabulary, [model.tokenizer.tokenize(TEXTS)], 32)
    losses, weights = (values["language_model"].numpy() for values in (
        model.loss_sums(model(batch), batch), model.loss_weights(batch)))
    found = model.score(TEXTS)
    np.testing.assert_allclose(sum(told["log_probability"] for told in found), -losses, rtol=1e-5)
    assert sum(told["num_tokens"] for told in found) == weights


def test_what_is_refused():
    model = make_model({}, family="gpt", max_position_embeddings=9)
    with pytest.raises(UsageError, match="batch_size=0; expected at least 1"):
        model.score("the", batch_size=0)
    model.tokenizer = None
    with pytest.raises(UsageError, match="language_model has no tokenizer"):
        model.score("the")

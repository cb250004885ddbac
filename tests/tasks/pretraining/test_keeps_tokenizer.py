"""The tokenizer of models that are called on token ids, where they are saved."""

import keras
import numpy as np
import pytest
from text_models import CONFIG, VOCABULARY
from tiny_model import byte_pair

from bert_tf.errors import UsageError
from bert_tf.presets import generator_config
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens
from bert_tf.tokenization.tokenizer import Tokenizer


@pytest.mark.parametrize("make", [
    Pretrainer, lambda config: LanguageModel(config.replace(attention="causal")),
    lambda config: ReplacedTokens(config, generator_config(config))])
def test_files_and_folders_keep_the_tokenizer(make, tmp_path):
    model, path = make(CONFIG), str(tmp_path / "model.keras")
    model.save(path)
    assert keras.saving.load_model(path).tokenizer is None
    model.tokenizer = Tokenizer(VOCABULARY)
    model.save(path)
    assert keras.saving.load_model(path).tokenizer.vocabulary.tokens == VOCABULARY.tokens
    model.save_pretrained(tmp_path / "first")
    from_pretrained(tmp_path / "first").save_pretrained(tmp_path / "second")
    assert from_pretrained(tmp_path / "second").tokenizer.vocabulary.tokens == VOCABULARY.tokens


def test_a_tokenizer_of_more_tokens_than_the_model():
    model = Pretrainer(CONFIG.replace(vocab_size=len(VOCABULARY) - 1))
    model.tokenizer = Tokenizer(VOCABULARY)
    with pytest.raises(UsageError, match=f"{len(VOCABULARY)} tokens; expected vocab_size="):
        model.fill_mask("[MASK]")


def test_tokens_of_bytes_have_a_text_that_people_can_read():
    tokenizer = byte_pair()
    model = Pretrainer(CONFIG.replace(vocab_size=len(tokenizer.vocabulary)), None)
    model.tokenizer, most = tokenizer, len(tokenizer.vocabulary)
    [mask] = model.fill_mask("<mask>", top_k=most)
    texts = {each["token"]: each["text"] for each in mask}
    assert (texts["Ġthe"], texts["ì"], texts["<mask>"]) == ("the", "\ufffd", "")


@pytest.mark.parametrize("texts", ["a b", ["a b"], ("a", "b"), np.array(["a b"])])
def test_text_in_place_of_ids_is_refused(texts):
    model = Pretrainer(CONFIG)
    for method in (model.fit, model.evaluate, model.predict):
        with pytest.raises(UsageError, match=r"given text; .*try fill_mask\(texts\)"):
            method(texts)

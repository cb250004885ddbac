"""The tokenizer in `.keras` files of models that are called on token ids."""

import keras
import pytest
from text_models import CONFIG, VOCABULARY

from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tokenization.tokenizer import Tokenizer


@pytest.mark.parametrize("make", [
    Pretrainer, lambda config: LanguageModel(config.replace(attention="causal"))])
def test_files_keep_the_tokenizer(make, tmp_path):
    model, path = make(CONFIG), str(tmp_path / "model.keras")
    model.save(path)
    assert keras.saving.load_model(path).tokenizer is None
    model.tokenizer = Tokenizer(VOCABULARY)
    model.save(path)
    assert keras.saving.load_model(path).tokenizer.vocabulary.tokens == VOCABULARY.tokens

"""An embedder of characters on disk, and text that it knows letter by letter."""

import pytest
from sentiment import TINY

from bert_tf.config import ModelConfig
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXT = "\n\n".join(f"the cat sat on {'a ' * (i % 5)}mat ✿\nit saw the dog by the door"
                   for i in range(20))


def embedder():
    """A `SentenceEmbedder` with initial weights, whose vocabulary is letters and a few words."""
    tokenizer = Tokenizer(Vocabulary([
        "unused", *SPECIAL_TOKENS, *LETTERS, *("##" + letter for letter in LETTERS), "the", "zoo"]))
    config = ModelConfig(vocab_size=len(tokenizer.vocabulary), padding_id=1, initializer_range=0.3,
                         **TINY)
    return SentenceEmbedder(config, seed=2, normalize=True, mask_specials=True,
                            dense={"units": 5, "activation": "tanh", "use_bias": True},
                            preprocessor=TextPreprocessor(tokenizer, 24))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the model folder `embedder`, and `text.txt`."""
    folder = tmp_path_factory.mktemp("adapt")
    embedder().save_pretrained(str(folder / "embedder"))
    (folder / "text.txt").write_text(TEXT)
    return folder

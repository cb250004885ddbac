"""A small embedder, a text that does not use all of its pieces, and adaptations to it."""

from sentiment import TINY

from bert_tf import adapt
from bert_tf.config import ModelConfig
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXT = "\n\n".join(f"the cat sat on {'a ' * (i % 5)}mat ✿\nit saw the dog by the door"
                   for i in range(20))
LINES = [line for line in TEXT.split("\n") if line]


def embedder(further_rows=0, **options):
    """A `SentenceEmbedder` with initial weights, whose vocabulary is letters and a few words."""
    tokenizer = Tokenizer(Vocabulary([
        "unused", *SPECIAL_TOKENS, *LETTERS, *("##" + letter for letter in LETTERS), "the", "zoo"]))
    config = ModelConfig(vocab_size=len(tokenizer.vocabulary) + further_rows, padding_id=1,
                         initializer_range=0.3, **TINY)
    return SentenceEmbedder(config, seed=2, normalize=True, mask_specials=True,
                            dense={"units": 5, "act": "tanh", "use_bias": True},
                            preprocessor=TextPreprocessor(tokenizer, 24), **options)


def arguments(folder, name, *words, model="embedder"):
    text = [] if "--input" in words else ["--input", str(folder / "text.txt")]
    return ["--model", str(folder / model), *text, "--output_dir", str(folder / name),
            "--export_dir", str(folder / "saved" / name), *words]


def run(folder, name, *words, **options):
    return adapt.adapt(adapt.AdaptConfig(**vars(adapt._parser().parse_args(
        arguments(folder, name, *words, **options)))))

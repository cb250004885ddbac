"""Small labelled texts whose label follows from one word, and a tiny model for them."""

import functools
import random

from bert_tf.config import ModelConfig
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.tasks.base.examples import TextExample
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = ["the", "film", "music", "scene", "story", "actor", "end"]
MARKS = {"good": ["fine", "great"], "bad": ["dull", "poor"]}
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 32}


def tokenizer():
    """A vocabulary of all words, every one a piece."""
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS, *sum(MARKS.values(), [])]),
                     lower_case=True)


def config(**values):
    """Wide enough initial weights that answers differ."""
    return ModelConfig(vocab_size=len(tokenizer().vocabulary), initializer_range=0.3,
                       **{**TINY, **values})


def options(**values):
    """Options of a fine-tuning whose files are not read."""
    return FinetuneConfig(**{"task": "classify", "train": "", "dev": "", "output_dir": "run",
                             **values})


def draw_text(draw, *marks):
    """A text with these words among some of no label, by a `random.Random`."""
    words = [*draw.choices(WORDS, k=draw.randint(1, 6)), *marks]
    draw.shuffle(words)
    return " ".join(words)


def examples(count, seed=0, pairs=False):
    """List of `TextExample`; of pairs the second text alone tells the label."""
    draw = random.Random(seed)
    text = functools.partial(draw_text, draw)
    made = []
    for number in range(count):
        label = draw.choice(sorted(MARKS))
        marked = text(draw.choice(MARKS[label]))
        made.append(TextExample(str(number), *((text(), marked) if pairs else (marked, None)),
                                label=label, where=f"line {number + 1}"))
    return made


def write_table(path, made):
    """Write examples as a TSV `text text_b label`, without the second column where it is empty."""
    pairs = made[0].text_b is not None
    columns = ["text_a", "text_b", "label"] if pairs else ["text", "label"]
    rows = [[each.text_a, *([each.text_b] if pairs else []), str(each.label)] for each in made]
    path.write_text("".join("\t".join(row) + "\n" for row in [columns, *rows]))
    return str(path)

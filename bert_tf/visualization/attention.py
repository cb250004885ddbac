"""The tokens that a model attends to: a page for a sentence or a pair of sentences.

    python -m bert_tf.visualize attention --model runs/bert_tiny --output attention.html \\
        --text "The import statement finds a module."
    python -m bert_tf.visualize attention --model saved_models/bert_tiny/1 --output pair.html \\
        --text "It rains." --text_pair "Take an umbrella."

The page shows a layer's heads as lines from token to token, or all layers and heads as a grid of
small pictures. Text longer than --max_length tokens is truncated, which is printed. Special
tokens written in a text, such as [MASK], stand for what they name. The template of a reranker that
is asked in words is left out: it scores a pair within other text than the page shows.
"""

import base64
import os

import numpy as np

from bert_tf import cli
from bert_tf.errors import UsageError, explain
from bert_tf.storage import files
from bert_tf.visualization.packed_tokens import packed_tokens, sources
from bert_tf.visualization.single_page import single_page
from bert_tf.visualization.source import add_model_flag, load_encoder

OUTPUTS = (".html",)
MAX_LENGTH = 128  # of a page that answers at once and stays below 10 MB, 12 × 12 heads
_PAGE = os.path.join(os.path.dirname(__file__), "page")
_STEPS = 2 ** 16 - 1


def add_flags(parser):
    """Add the flags of `visualize attention`."""
    add_model_flag(parser)
    add = parser.add_argument
    add("--text", required=True, help="the sentence, or the first of a pair")
    add("--text_pair", metavar="TEXT", help="the second of a pair")
    add("--max_length", type=cli.positive, metavar="N",
        help=f"maximum of tokens, special ones counted (default: {MAX_LENGTH}, or all that the "
             "model takes if these are fewer); the page grows with the square of it")


def attention(encoder, tokenizer, text, text_pair=None, max_length=None):
    """Compute the attention probabilities of every layer and head for a text or a pair of texts.

    Args:
        encoder: built with `attention_probs=True`, as
            `load_encoder(path, attention_probs=True)` gives it.
        tokenizer: the model's, as `load_encoder` gives it.
        text, text_pair: str; None for no second text.
        max_length: maximum of tokens, special ones counted; None for 128 or what the model takes,
            if that is less. Longer text is truncated, of a pair the longer one first.

    Returns:
        what `packed_tokens` returns about the S tokens (`tokens`, `labels`, `segments`, `special`,
        `offsets` …), and `probabilities` float32 `[layers, heads, from, to]`, from and to being S:
        `probabilities[layer, head, i]` sums to 1 and shows where token `i` takes its vector from.

    Raises:
        UsageError: more tokens than the model takes, space for none of a text, or an encoder that
            does not give its probabilities or has no layers.
    """
    import tensorflow as tf

    if not encoder.backbone.attention_probs:
        raise UsageError(explain("an encoder that does not return attention probabilities",
                                 attempt="load_encoder(path, attention_probs=True)"))
    if not encoder.config.num_hidden_layers:
        raise UsageError(explain("attention of a static model, which has no layers",
                                 "a model with layers"))
    longest = encoder.config.longest
    if max_length is not None and max_length > longest:
        raise UsageError(explain(f"max_length={max_length}", f"at most {longest}"))
    packed = packed_tokens(tokenizer, text, text_pair, max_length or min(MAX_LENGTH, longest))
    # Not every model knows the segments, see `pack`.
    types = packed["segments"] * tokenizer.vocabulary.pair_types
    ids = tf.constant(packed["ids"][np.newaxis])
    outputs = encoder({"input_word_ids": ids, "input_mask": tf.ones_like(ids),
                       "input_type_ids": tf.constant(types[np.newaxis])}, training=False)
    probabilities = np.concatenate([layer.numpy() for layer in outputs["attention_probs"]])
    return {**packed, "probabilities": probabilities}


def attention_page(seen, model, text, text_pair=None):
    """Return the page as one HTML file, str; it loads nothing and needs no network.

    Args:
        seen: what `attention` gave. On the page a probability is rounded to 1/65535, so that it
            is off by 8e-6 at most; 128 tokens, 12 layers and 12 heads take 6.3 MB.
        model: its name.
        text, text_pair: that it is about.
    """
    texts = [text] if text_pair is None else [text, text_pair]
    probabilities = seen["probabilities"]
    steps = np.rint(probabilities * _STEPS).astype("<u2")
    return single_page(_PAGE, "attention.html", {
        "model": model, "texts": texts, "cut": seen["cut"], "tokens": seen["labels"],
        "sources": sources(texts, seen["segments"], seen["offsets"]),
        "segments": seen["segments"].tolist(), "special": seen["special"].tolist(),
        "layers": len(probabilities), "heads": probabilities.shape[1], "steps": _STEPS,
        "probabilities": base64.b64encode(steps.tobytes()).decode()})


def show(arguments):
    """Draw into `arguments.output`; the lines to print."""
    encoder, tokenizer = load_encoder(arguments.model, attention_probs=True)
    seen = attention(encoder, tokenizer, arguments.text, arguments.text_pair,
                     arguments.max_length)
    page = attention_page(seen, arguments.model, arguments.text, arguments.text_pair)
    files.write_text(arguments.output, page)
    layers, heads, length = seen["probabilities"].shape[:3]
    lines = [f"{length} tokens, {layers} layers of {heads} heads, {len(page) / 1e6:.1f} MB"]
    if seen["cut"]:
        lines.append(f"note: truncated at {length} tokens: {seen['cut']} more are not shown")
    return lines

"""Folders of small rotary encoders, and what their layers compute, in NumPy."""

import json

import numpy as np
from safetensors.numpy import load_file, save_file

from bert_tf.converters import hf_safetensors

EPSILON = 1e-12
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(25))]


def drawn(prefix, embeddings, name, block, layers, head):
    """Random tensors of a masked LM under their names.

    Args:
        prefix: of the encoder's.
        embeddings, block, head: `{name: shape}`.
        name: how the names of a block begin, with a field for its number.
        layers: number of blocks.
    """
    encoder = embeddings | {name.format(layer) + each: shape for layer in range(layers)
                            for each, shape in block.items()}
    shapes = {f"{prefix}{each}": shape for each, shape in encoder.items()} | head
    draw = np.random.default_rng(1)
    return {each: draw.normal(0.1, 0.5, shape).astype(np.float32)
            for each, shape in shapes.items()}


def write(folder, config, tensors):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    save_file(tensors, folder / "model.safetensors")
    return str(folder)


def layer_norm(x, weights, name):
    x = x - x.mean(-1, keepdims=True)
    return (x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weights[f"{name}.weight"]
            + weights[f"{name}.bias"])


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x, base, factor=1.0):
    """Turn pairs of components as complex numbers."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] / factor * base ** (-np.arange(half) / half)
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag], -1)


def attended(query, key, value, mask, heads, *rotary):
    """The context `[batch, tokens, hidden]` of attention, of what is not masked."""
    query, key, value = (part.reshape(*mask.shape, heads, -1).swapaxes(1, 2)
                         for part in (query, key, value))
    scores = rotate(query, *rotary) @ rotate(key, *rotary).swapaxes(2, 3)
    scores /= np.sqrt(query.shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True)) * mask[:, None, None]
    context = (scores / scores.sum(-1, keepdims=True)) @ value
    return context.swapaxes(1, 2).reshape(*mask.shape, -1)


def examples():
    """`(ids, segments, mask, positions)` of a batch."""
    ids = np.random.default_rng(2).integers(5, len(WORDS), (3, 9))
    segments = np.tile([0] * 4 + [1] * 5, (3, 1))
    mask = np.arange(9) < np.array([[9], [6], [2]])
    return ids, segments, mask, np.array([[1, 5], [0, 2], [1, 0]])


def as_inputs(ids, segments, mask, positions):
    """The same as a masked LM of ours takes it."""
    return {name: value.astype(np.int32) for name, value in (
        ("input_word_ids", ids), ("input_mask", mask), ("input_type_ids", segments),
        ("masked_lm_positions", positions))}


def check_written(checkpoint, tensors, folder):
    """Check that a checkpoint read of `tensors` is written as the same bytes, and read alike."""
    hf_safetensors.write(checkpoint, str(folder))
    written = load_file(folder / "model.safetensors")
    assert {each: value.tobytes() for each, value in written.items()} == {
        each: value.tobytes() for each, value in tensors.items()}
    again = hf_safetensors.read(str(folder))
    assert (again.config, again.task) == (checkpoint.config, checkpoint.task)

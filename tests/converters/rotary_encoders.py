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


def attended(query, key, value, mask, heads, *rotary, reach=None):
    """The context `[batch, tokens, hidden]` of attention, of what is not masked and, with a
    `reach`, no more than so many tokens away."""
    place = np.arange(mask.shape[1])
    far = np.abs(place[:, None] - place)
    seen = mask[:, None] & (far <= (far.size if reach is None else reach)) | (far == 0)
    query, key, value = (part.reshape(*mask.shape, heads, -1).swapaxes(1, 2)
                         for part in (query, key, value))
    scores = rotate(query, *rotary) @ rotate(key, *rotary).swapaxes(2, 3)
    scores /= np.sqrt(query.shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True)) * seen[:, None]
    context = (scores / scores.sum(-1, keepdims=True)) @ value
    return context.swapaxes(1, 2).reshape(*mask.shape, -1)


def llama_tensors(prefix, heads, groups, inner, hidden, layers, head):
    """Random tensors of an encoder with Llama's names, and of its head, `{name: shape}`."""
    size = hidden // heads * groups
    return drawn(prefix, {"embed_tokens.weight": (len(WORDS), hidden), "norm.weight": (hidden,)},
                 "layers.{}.", {
                     "input_layernorm.weight": (hidden,),
                     "post_attention_layernorm.weight": (hidden,),
                     "self_attn.q_proj.weight": (hidden, hidden),
                     "self_attn.k_proj.weight": (size, hidden),
                     "self_attn.v_proj.weight": (size, hidden),
                     "self_attn.o_proj.weight": (hidden, hidden),
                     "mlp.gate_proj.weight": (inner, hidden), "mlp.up_proj.weight": (inner, hidden),
                     "mlp.down_proj.weight": (hidden, inner)}, layers, head)


def rms_norm(x, gamma):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gamma


def llama_states(prefix, tensors, ids, mask, heads, groups, layers):
    """`[batch, tokens, hidden]` after the last norm, in float64.

    Args:
        prefix, heads, groups: as of `llama_tensors`.
        layers: rotary base and reach of each.
    """
    weights = {name.removeprefix(prefix).removesuffix(".weight"): value.astype(np.float64)
               for name, value in tensors.items()}
    x = weights["embed_tokens"][ids]
    for layer, (base, reach) in enumerate(layers):
        own = {name.removeprefix(f"layers.{layer}."): value.T for name, value in weights.items()}
        entering = rms_norm(x, own["input_layernorm"])
        query = entering @ own["self_attn.q_proj"]
        key, value = (np.repeat((entering @ own[f"self_attn.{part}_proj"]).reshape(
            *ids.shape, groups, -1), heads // groups, axis=2).reshape(query.shape) for part in "kv")
        context = attended(query, key, value, mask, heads, base, reach=reach)
        x = x + context @ own["self_attn.o_proj"]
        entering = rms_norm(x, own["post_attention_layernorm"])
        x = x + (silu(entering @ own["mlp.gate_proj"]) * (entering @ own["mlp.up_proj"])
                 ) @ own["mlp.down_proj"]
    return rms_norm(x, weights["norm"])


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

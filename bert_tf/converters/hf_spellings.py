"""Spellings of names in Hugging Face's files: prefixes, copies of what is tied, buffers."""

import numpy as np

from bert_tf.converters.hf_names import PREFIXES
from bert_tf.converters.name_table import matches
from bert_tf.errors import UsageError, explain

_OLD_PREFIXES = {"bert": ("ernie.", "roformer.", "rembert."), "roberta": ("data2vec_text.",),
                 "nomic_bert": ("bert.",), "gte": ("new.",), "ultrabert": ("model.",)}
_BARE = ("embeddings.", "emb_ln.", "embeddings_project.", "encoder.", "pooler.", "h.",
         "tokens_embed.", "positions_embed.", "transformer.", "layers.", "final_norm.",
         "embed_tokens.", "norm.", "shared.", "wte.", "wpe.", "ln_f.")


def _tied_decoder(head, prefix):
    return {f"{head}.decoder.weight": f"{prefix}.embeddings.word_embeddings.weight",
            f"{head}.decoder.bias": f"{head}.bias"}


# Copies that some files hold beside what they are tied to.
_TIED = {
    "bert": _tied_decoder("cls.predictions", "bert"),
    "roberta": _tied_decoder("lm_head", "roberta"),
    "xlm_roberta": _tied_decoder("lm_head", "roberta"),
    "camembert": _tied_decoder("lm_head", "roberta"),
    "mpnet": _tied_decoder("lm_head", "mpnet"),
    **dict.fromkeys(("deberta", "deberta_v1"), _tied_decoder("cls.predictions", "deberta")),
    "distilbert": {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    "modernbert": {"decoder.weight": "model.embeddings.tok_embeddings.weight"},
    "electra": {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
    "albert": {"predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
               "predictions.decoder.bias": "predictions.bias"},
    "gpt": {"lm_head.weight": "transformer.tokens_embed.weight"},
    "gpt2": {"lm_head.weight": "transformer.wte.weight"},
    "nomic_bert": _tied_decoder("cls.predictions", "nomic_bert"),
    "gte": {"lm_head.decoder.weight": "gte.embeddings.word_embeddings.weight"},
    "jina_embeddings_v3": _tied_decoder("lm_head", "roberta"),
    "eurobert": {},
    "mobilebert": _tied_decoder("cls.predictions", "mobilebert"),
    "ultrabert": {"head.decoder.weight": "cls.weight"},  # as the module is named today
    "qwen3": {"lm_head.weight": "model.embed_tokens.weight"},
    "gemma3": {"lm_head.weight": "model.embed_tokens.weight"},
    "t5": {"transformer.encoder.embed_tokens.weight": "transformer.shared.weight"},
}
# Buffers: 0, 1, 2, …; zeros; the triangle of GPT's mask and what it hides with; rotary frequencies,
# and RoFormer's table of them.
_BUFFERS = ("*.position_ids", "*.token_type_ids", "transformer.h.*.attn.bias",
            "transformer.h.*.attn.masked_bias", "*.inv_freq", "*.cos_cached", "*.sin_cached",
            "*.embed_positions.weight")
# What encoders are read without: T5's decoder, and heads that DeBERTa was trained with.
_OF_DEBERTA = ("lm_predictions.*", "mask_predictions.*", "*.word_embeddings._weight")
_OTHER_PARTS = {"t5": ("decoder.*", "lm_head.weight"), "deberta": _OF_DEBERTA,
                "deberta_v1": _OF_DEBERTA}


def are_bare(names, family):
    """Whether names of tensors are those of an encoder by itself, without a model's prefix."""
    beginnings = PREFIXES[family], *_OLD_PREFIXES.get(family, ())
    return not any(name.startswith(beginnings) for name in names)


def ties_of(family):
    """Return the names of tensors that others are copies of."""
    return set(_TIED[family].values())


def usual_names(tensors, family, folder, tied=True, heads=(), bare=None):
    """What transformers itself does to names: prefix, gamma and beta, tied copies, buffers.

    Args:
        tensors: `Tensors` of the file.
        family: of the model in it.
        folder: where it is, for messages.
        tied: whether what may be a copy is one.
        heads: shell patterns of what is not read, and may differ from what others tie it to.
        bare: what `are_bare` says of a file that these are a part of; None where they are all.

    Returns: `Tensors` under today's names, and the names of copies and buffers, left out.

    Raises:
        UsageError: two tensors have one name, or a copy differs from what it is tied to.
    """
    prefix = PREFIXES[family]
    bare = are_bare(tensors, family) if bare is None else bare
    names = {}
    for name in tensors:
        new = f"{prefix}{name}" if bare and name.startswith(_BARE) else name
        for old in _OLD_PREFIXES.get(family, ()):
            if new.startswith(old):
                new = prefix + new.removeprefix(old)
        for old_end, new_end in ((".gamma", ".weight"), (".beta", ".bias")):
            if new.endswith(old_end):
                new = new.removesuffix(old_end) + new_end
        if new in names:
            raise UsageError(f"{folder}: {names[new]} and {name} name one tensor")
        names[new] = name
    unread = (*_BUFFERS, *_OTHER_PARTS.get(family, ()))
    dropped = [names.pop(name) for name in list(names) if matches(name, unread)]
    for copy, original in _TIED[family].items():
        if copy not in names or not tied:
            continue
        if original not in names:
            names[original] = names.pop(copy)
            continue
        if matches(copy, heads):
            continue
        _check_equal(tensors, names[copy], names[original], folder)
        dropped.append(names.pop(copy))
    return tensors.renamed(names), tuple(dropped)


def _check_equal(tensors, name, other, folder):
    if tensors.shapes[name] != tensors.shapes[other] or not np.array_equal(tensors[name],
                                                                           tensors[other]):
        raise UsageError(explain(f"{folder}: {name} differs from {other}",
                                 "equal tensors: our models tie them"))

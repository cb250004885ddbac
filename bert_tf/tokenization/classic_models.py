"""SentencePiece models as checkpoints have them whose ids are not the model's.

fairseq puts its own tokens first: XLM-R's ids are the model's plus one, CamemBERT's plus four, and
`<mask>` comes last; T5's sentinels come after the model's. Models are rewritten so that their ids
are the checkpoint's.
"""

import os

from bert_tf.errors import NoTextError, UsageError, explain
from bert_tf.storage import files
from bert_tf.tokenization import hf_options
from bert_tf.tokenization.sentence_piece import (
    MODEL_NAME,
    SPECIAL_TOKENS,
    SentencePieceTokenizer,
    read_options,
)
from bert_tf.tokenization.sentence_piece_model import CONTROL, UNKNOWN, UNUSED, read_model
from bert_tf.tokenization.tokenizer_config import NAME as CONFIG_NAME

MODEL_NAMES = (MODEL_NAME, "sentencepiece.bpe.model", "spm.model")
_FAIRSEQ = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
_DEBERTA = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# What stands in front of the model's pieces, and how many of those are left out.
_XLM_ROBERTA = (("<s>", "<pad>", "</s>", "<unk>"), 3)
_T5 = ("<pad>", "</s>", "<unk>")
_CAMEMBERT = (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1)
# Of models whose files alone look like another class's: what is in a `plain_name`, and the class.
_ALIKE = {"bigbird": "BigBirdTokenizer", "camembert": "CamembertTokenizer",
          "rembert": "RemBertTokenizer", "roformer": "RoFormerTokenizer"}


def model_path(folder):
    """Path of the SentencePiece model in a folder, None where there is none.

    Raises:
        UsageError: more than one is there, none of them `spiece.model`.
    """
    names = [name for name in files.list_folder(folder) if name.endswith(".model")]
    named = [name for name in MODEL_NAMES if name in names]
    if len(names) > 1 and MODEL_NAME not in names:
        raise UsageError(explain(f"{folder} holds {', '.join(names)}", "one SentencePiece model"))
    return files.inside(folder, (named or names)[0]) if names else None


def class_to_state(path, config):
    """Return the class to be named where no `config.json` is beside a tokenizer: the one that is
    named, or that its files do not tell; "" for none. The arguments are `class_that_reads`'s."""
    plain = hf_options.plain_name(hf_options.model_name(path, config))
    return hf_options.class_that_reads(path, config)[0] or next(
        (name for part, name in _ALIKE.items() if part in plain), "")


def load_model(path, config):
    """The tokenizer of a SentencePiece model without `tokenizer.json`.

    Args:
        path: of the model.
        config: dict, Hugging Face's `tokenizer_config.json` beside it, or `{}`.

    Raises:
        BertTfError: not a SentencePiece model.
        NoTextError: of BigBird or RemBERT, or of DeBERTa with an option, whose rules we do not run.
        UsageError: a special token is missing.
    """
    name = hf_options.model_name(path, config)
    plain = hf_options.plain_name(name)
    if "bigbird" in plain or plain == "rembert":
        raise NoTextError(explain(
            f"{path}: the SentencePiece model of {name}, whose rules we do not run without a "
            "tokenizer.json", "one of ALBERT, CamemBERT, DeBERTa, T5 or XLM-R",
            "token ids made by that class"))
    with files.open_binary(path) as stream:
        data = stream.read()
    proto = read_model(data, path)
    pieces = [piece.piece for piece in proto.pieces]
    options = read_options(os.path.join(os.path.dirname(path), CONFIG_NAME))
    if pieces[1:3] == ["<s>", "</s>"] and "[CLS]" not in pieces:
        front, skipped = _CAMEMBERT if "camembert" in plain else _XLM_ROBERTA
        rest = list(proto.pieces)[skipped:]
        del proto.pieces[:]
        kinds = {"<unk>": UNKNOWN, "<pad>": CONTROL}
        for token in front:
            proto.pieces.add(piece=token, score=0.0, type=kinds.get(token, UNUSED))
        proto.pieces.extend(rest)
        _append(proto, "<mask>")
        return _tokenizer(proto, path, "sentencepiece", _FAIRSEQ, pair_separators=2,
                          pair_types=False)
    if tuple(pieces[:3]) == _T5 or plain.startswith(("t5", "mt5")):
        return _t5(proto, path, config)
    if pieces[:1] == ["[PAD]"] or "deberta" in plain:
        for key in ("do_lower_case", "split_by_punct"):
            if config.get(key):
                raise NoTextError(explain(
                    f"{path}: {key}={config[key]!r} beside it, which we do not run without a "
                    "tokenizer.json", "false",
                    "transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"))
        _append(proto, "[MASK]")
        proto.normalizer_spec.precompiled_charsmap = b""  # as transformers does
        return _tokenizer(proto, path, "deberta", _DEBERTA)
    stated = hf_options.special_names(config, path)
    options = {"special_tokens": SPECIAL_TOKENS, **options, **stated}
    if "tokenizer_class" in config and "normalization" not in options:
        options["normalization"] = "albert_huggingface"
    return SentencePieceTokenizer(data, source=path, **options)


def _t5(proto, path, config):
    """The tokenizer of T5's class, which puts sentinels after the model's pieces."""
    first = tuple(piece.piece for piece in proto.pieces[:3])
    if first != _T5:
        raise UsageError(explain(f"{path} of T5 begins with {', '.join(first)}", ", ".join(_T5)))
    number = config.get("extra_ids", 100)
    if type(number) is not int or not 0 <= number <= 1000:
        raise UsageError(explain(f"{os.path.join(os.path.dirname(path), CONFIG_NAME)}: extra_ids="
                                 f"{number!r}", "0 to 1000"))
    for sentinel in reversed(range(number)):
        _append(proto, f"<extra_id_{sentinel}>")
    return _tokenizer(proto, path, "sentencepiece", (
        "<pad>", "<unk>", "</s>", "</s>", "<extra_id_0>" if number else "<pad>"),
        pair_types=False, initial_token=False)


def _tokenizer(proto, path, normalization, special_tokens, **options):
    proto.trainer_spec.unk_id = [piece.type for piece in proto.pieces].index(UNKNOWN)
    proto.trainer_spec.bos_id = proto.trainer_spec.eos_id = proto.trainer_spec.pad_id = -1
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return SentencePieceTokenizer(proto.SerializeToString(), source=path,
                                  normalization=normalization, special_tokens=special_tokens,
                                  **options)


def _append(proto, token):
    if all(piece.piece != token for piece in proto.pieces):
        proto.pieces.add(piece=token, score=0.0, type=CONTROL)

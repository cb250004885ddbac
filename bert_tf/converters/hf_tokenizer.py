"""Tokenizers as Hugging Face folders have them: `tokenizer.json` beside the classic files."""

import base64
import os

from bert_tf.errors import NoTextError
from bert_tf.storage import files
from bert_tf.tokenization import (
    byte_pair,
    character_pair,
    hf_options,
    sentence_piece,
    tokenizer,
)
from bert_tf.tokenization.json_pairs import BLANKS_SHOWN, PREPENDED
from bert_tf.tokenization.library import LibraryTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.pair_tokenizer import PairTokenizer
from bert_tf.tokenization.sentence_piece_model import read_model
from bert_tf.tokenization.tokenizer_config import NAME as CONFIG
from bert_tf.tokenization.tokenizer_json import DEBERTA, KEEPS_HANGUL, NAME, albert_steps
from bert_tf.tokenization.word_patterns import EXPRESSIONS

# The class of transformers that reads `tokenizer.json` and nothing else.
_ANY = "PreTrainedTokenizerFast"
_TWO_SEPARATORS = ("Camembert", "MPNet", "Roberta", "XLMRoberta")  # of classes, between segments
# How classes with a SentencePiece model normalize text, and the id that they take for unknown.
_PIECES = {"Albert": ("albert_huggingface", 1), "Camembert": ("sentencepiece", None),
           "DebertaV2": ("deberta", None), "XLMRoberta": ("sentencepiece", 3)}
_METASPACE = {"type": "Metaspace", "replacement": sentence_piece.WORD,
              "prepend_scheme": "always", "split": True}


def write_tokenizer(source, folder, tokenizer_class, longest, has_types=False):
    """Write the tokenizer in the folder `source` into a folder that transformers reads.

    Args:
        source: folder that `load_tokenizer` reads, or None, which writes nothing.
        folder: exists.
        tokenizer_class: the usual one of the model's family.
        longest: tokens that the model can read.
        has_types: whether it tells a second segment from the first.
    """
    if source is None:
        return
    stated = {"model_max_length": longest}
    try:
        ours = load_tokenizer(source)
    except NoTextError:  # rules that we do not run
        from bert_tf.converters.tokenizer_files import copy_tokenizer

        copy_tokenizer(source, folder)
        path = os.path.join(folder, CONFIG)
        kept = files.read_json_object(path) if files.exists(path) else {}
        files.write_json(path, {"tokenizer_class": tokenizer_class, **stated, **kept})
        return
    ours.save(folder)
    if not isinstance(ours, LibraryTokenizer):
        files.write_json(os.path.join(folder, NAME), to_json(ours))
    vocabulary = ours.vocabulary
    names = dict(zip(hf_options.ROLES, vocabulary.special_tokens, strict=True))
    if vocabulary.as_if_alone:
        names |= {"bos_token": names["cls_token"], "eos_token": names.pop("sep_token")}
    if not vocabulary.initial_token:
        del names["bos_token"], names["cls_token"]
    if _knows_all(ours):
        del names["unk_token"]
    if len({*vocabulary.special_tokens}) == 1:  # GPT-2's, which masks nothing
        names = dict.fromkeys(("pad_token", "unk_token", "bos_token", "eos_token"),
                              vocabulary.special_tokens[0])
    if not vocabulary.pair_types:
        stated["model_input_names"] = ["input_ids", "attention_mask"]
    if isinstance(ours, tokenizer.Tokenizer):
        stated |= {"do_lower_case": ours.lower_case, "strip_accents": ours.strip_accents,
                   "tokenize_chinese_chars": ours.tokenize_chinese_chars}
        # What they have no name for is passed over there, and comes back with the rest.
        if ours.pretokenize:
            stated["pretokenize"] = ours.pretokenize
    elif isinstance(ours, PairTokenizer):
        stated["add_prefix_space"] = ours.add_prefix_space
    elif isinstance(ours, sentence_piece.SentencePieceTokenizer):
        stated |= {name: value for name, value in ours.options.items()
                   if name in sentence_piece.OPTIONS}
        if ours.normalization == "albert":  # whose rule for commas comes back with this
            stated["normalization"] = "albert"
        if not ours.normalization.startswith("albert"):
            # Its ids are not those of the file that these models have beside.
            files.remove(os.path.join(folder, sentence_piece.MODEL_NAME))
    written = tokenizer_class if _is_usual(ours, tokenizer_class) else _ANY
    if has_types and written == _ANY and vocabulary.pair_types:  # which that class leaves out
        stated["model_input_names"] = ["input_ids", "attention_mask", "token_type_ids"]
    files.write_json(os.path.join(folder, CONFIG),
                     {"tokenizer_class": written, **names, **stated})


def to_json(ours):
    """A `tokenizer.json` with the rules of one of our tokenizers, dict.

    Where ours keeps to google-research's code, the final sigma of Greek, ALBERT's commas after
    numbers and private-use characters differ.
    """
    make = {tokenizer.Tokenizer: _word_piece, byte_pair.BytePairTokenizer: _byte_pair,
            character_pair.CharacterPairTokenizer: _character_pair,
            sentence_piece.SentencePieceTokenizer: _unigram}[type(ours)]
    vocabulary = ours.vocabulary
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": vocabulary.id(added.token), "content": added.token,
                              "single_word": False, "lstrip": added.lstrip, "rstrip": added.rstrip,
                              "normalized": False, "special": added.special}
                             for added in sorted(vocabulary.added_tokens,
                                                 key=lambda added: vocabulary.id(added.token))],
            **make(ours), "post_processor": _template(vocabulary)}


def _is_usual(ours, tokenizer_class):
    """Whether the usual class would make the same of the classic files alone.

    transformers 5 builds its tokenizer from them and from the configuration, whatever rules
    `tokenizer.json` has.
    """
    kinds = {"Bert": tokenizer.Tokenizer, "Electra": tokenizer.Tokenizer,
             "DistilBert": tokenizer.Tokenizer, "MPNet": tokenizer.Tokenizer,
             "Roberta": byte_pair.BytePairTokenizer}
    name = tokenizer_class.removesuffix("Fast").removesuffix("Tokenizer")
    kind = kinds.get(name, sentence_piece.SentencePieceTokenizer)
    if not isinstance(ours, kind) or ours.vocabulary.pair_separators != (
            2 if tokenizer_class.startswith(_TWO_SEPARATORS) else 1):
        return False
    if isinstance(ours, tokenizer.Tokenizer):
        return ours.normalization != "nfc" and (
            ours.max_characters_per_word == hf_options.CHARACTERS_PER_WORD)
    if kind is sentence_piece.SentencePieceTokenizer:
        normalization, unknown = _PIECES.get(name, (None, None))
        return ours.normalization == normalization and (
            unknown in (None, ours.vocabulary.unk_id))
    return not getattr(ours, "normalize_nfc", False)


def _template(vocabulary):
    if not vocabulary.num_special():
        return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                "use_regex": False}
    cls, sep = vocabulary.special_tokens[2:4]

    def special(token, kind=0):
        return {"SpecialToken": {"id": token, "type_id": kind}}

    def segment(name, kind=0):
        return {"Sequence": {"id": name, "type_id": kind}}

    second = int(vocabulary.pair_types)
    before, after = [cls] * vocabulary.initial_token, [sep] * vocabulary.final_separator
    single = [*map(special, before), segment("A"), *map(special, after)]
    between = [special(token, second) for token in before] if vocabulary.as_if_alone else (
        [special(sep)] * (vocabulary.pair_separators - 1))
    return {"type": "TemplateProcessing", "single": single, "pair": [
        *single, *between, segment("B", second), *(special(token, second) for token in after)],
        "special_tokens": {token: {"id": token, "ids": [vocabulary.id(token)], "tokens": [token]}
                           for token in (*before, *after)}}


def _word_piece(ours):
    vocabulary = ours.vocabulary
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    # Added tokens after all others are no pieces of words; ids in between need an entry.
    added = {each.token for each in vocabulary.added_tokens} - {*vocabulary.special_tokens}
    while next(reversed(ids)) in added:
        ids.popitem()
    keeps_hangul = ours.normalization == "nfc"
    normalizer = {"type": "BertNormalizer", "clean_text": True,
                  "handle_chinese_chars": ours.tokenize_chinese_chars,
                  "strip_accents": ours.strip_accents and not keeps_hangul,
                  "lowercase": ours.lower_case}
    if keeps_hangul:
        after = KEEPS_HANGUL if ours.strip_accents else []
        normalizer = {"type": "Sequence", "normalizers": [{"type": "NFC"}, normalizer, *after]}
    return {"normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": vocabulary.special_tokens[1],
                      "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": ours.max_characters_per_word, "vocab": ids}}


def _knows_all(ours):
    """Whether nothing is unknown, so that the token for it is none: see `tokenizer_json`."""
    return (isinstance(ours, byte_pair.BytePairTokenizer) and ours.pattern != "gpt2"
            and {*ours.vocabulary.tokens} >= {*byte_pair.byte_alphabet()})


def _byte_pair(ours):
    ids = {token: index for index, token in enumerate(ours.vocabulary.tokens)}
    usual = ours.pattern == "gpt2"
    level = {"type": "ByteLevel", "add_prefix_space": ours.add_prefix_space, "trim_offsets": True,
             "use_regex": usual}
    split = {"type": "Split", "pattern": {"Regex": EXPRESSIONS[ours.pattern]},
             "behavior": "Isolated", "invert": False}
    return {"normalizer": {"type": "NFC"} if ours.normalize_nfc else None,
            "pre_tokenizer": level if usual else {"type": "Sequence",
                                                  "pretokenizers": [split, level]},
            "decoder": {**level, "add_prefix_space": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None,
                      "unk_token": (None if _knows_all(ours)
                                    else ours.vocabulary.special_tokens[1]),
                      "continuing_subword_prefix": "", "end_of_word_suffix": "",
                      "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": ours.ignore_merges,
                      "vocab": ids, "merges": [list(pair) for pair in ours.merges]}}


def _character_pair(ours):
    spaced = ours.add_prefix_space
    stripped = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if spaced else []
    blank = {"String": " "}
    return {"normalizer": {"type": "Sequence", "normalizers": [PREPENDED, BLANKS_SHOWN]} if (
                spaced) else BLANKS_SHOWN,
            # As Gemma's files have it; there are no blanks left at which it would split.
            "pre_tokenizer": None if spaced else {
                "type": "Split", "pattern": blank, "behavior": "MergedWithPrevious",
                "invert": False},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": character_pair.BLANK}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"}, *stripped]},
            "model": {"type": "BPE", "dropout": None,
                      "unk_token": ours.vocabulary.special_tokens[1],
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {token: number for number, token in
                                enumerate(ours.vocabulary.tokens)},
                      "merges": [list(pair) for pair in ours.merges]}}


def _unigram(ours):
    proto = read_model(ours.model, "the model")
    charsmap = proto.normalizer_spec.precompiled_charsmap
    steps = {"deberta": DEBERTA, "sentencepiece": []}.get(ours.normalization)
    if steps is None:
        composes = ours.normalization == "albert" and bool(charsmap)
        steps = [*(hf_options.ALBERT_QUOTES if ours.normalization == "albert_huggingface" else []),
                 *albert_steps(ours.lower_case, not ours.strip_accents, composes)]
    if charsmap:
        steps = [*steps, {"type": "Precompiled",
                          "precompiled_charsmap": base64.b64encode(charsmap).decode()}]
    split = [] if ours.normalization == "deberta" else [{"type": "WhitespaceSplit"}]
    return {"normalizer": {"type": "Sequence", "normalizers": steps} if steps else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*split, _METASPACE]},
            "decoder": _METASPACE,
            "model": {"type": "Unigram", "unk_id": ours.vocabulary.unk_id,
                      "byte_fallback": proto.trainer_spec.byte_fallback,
                      "vocab": [[piece.piece, piece.score] for piece in proto.pieces]}}

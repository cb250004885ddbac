"""What Hugging Face's `tokenizer_config.json` says, in our terms."""

import os

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files
from bert_tf.tokenization import tokenizer_config
from bert_tf.tokenization.json_template import steps_of
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, AddedToken, default_added_tokens

ROLES = tuple(f"{role}_token" for role in tokenizer_config.ROLES)
# The names of tokenizers whose classes have other special tokens than BERT's.
_CLASSES = {"MPNetTokenizer": ("<pad>", "[UNK]", "<s>", "</s>", "<mask>")}
END_OF_TEXT = "<|endoftext|>"  # GPT-2's, where nothing is said
CHARACTERS_PER_WORD = 100  # of a word at most
_TYPES = "token_type_ids"
_WITHOUT_TYPES = {"BigBird"}  # classes that make none, whatever their `tokenizer.json` says
# Rules that some classes of transformers make of the configuration, whatever `tokenizer.json` has:
# where they stand there, their type, the classes, and for each option its key and usual value; the
# first key is of these classes alone.
_OF_CLASSES = (
    ("normalizer", "BertNormalizer", ("Bert", "DistilBert", "Electra", "MobileBert", "MPNet"),
     {"lowercase": ("do_lower_case", True), "strip_accents": ("strip_accents", None),
      "handle_chinese_chars": ("tokenize_chinese_chars", True)}),
    ("pre_tokenizer", "ByteLevel", ("Bart", "Deberta", "GPT2", "Roberta"),
     {"add_prefix_space": ("add_prefix_space", False)}))
ALBERT_QUOTES = [{"type": "Replace", "pattern": {"String": quote}, "content": '"'}
                 for quote in ("``", "''")]
_LOWERCASE = [{"type": "Lowercase"}]
# The same of classes with a Unigram model, in the form of `plain_name`: the sequence that has steps
# or not, what is before them, and for each key its usual value, that with steps, and the steps.
_OF_PIECES = (
    ("albert", "normalizer", "normalizers", ALBERT_QUOTES, {
        "keep_accents": (False, False, [{"type": "NFKD"}, {"type": "StripAccents"}]),
        "do_lower_case": (True, True, _LOWERCASE)}),
    ("debertav2", "normalizer", "normalizers", [], {"do_lower_case": (False, True, _LOWERCASE)}),
    ("debertav2", "pre_tokenizer", "pretokenizers", [], {
        "split_by_punct": (False, True, [{"type": "Punctuation", "behavior": "Isolated"}])}))
# Classes of transformers 5.24 that put special tokens around a text whatever their `tokenizer.json`
# says, and the `model_type`s of which it takes one of these, in the form of `plain_name`. All
# others add none but what the file has.
_ADDING = """
    aimv2 albert align bark bart bartpho bert bertjapanese bertweet bigbird biogpt blip bridgetower
    bros byt5 camembert canine chineseclip clap clip clipseg codellama convbert cpm cpmant
    data2vectext deberta debertav2 distilbert dpr dprcontextencoder dprquestionencoder dprreader
    electra ernie esm esmc esmfold2 flaubert flava florence2 fsmt funnel git groundingdino groupvit
    gte herbert ibert jinaembeddingsv3 lasr lasrctc lasrencoder layoutlm layoutlmv2 layoutlmv3
    layoutxlm led lilt longformer luke lxmert m2m100 marian markuplm mbart mbart50 megatronbert
    metaclip2 mluke mmgroundingdino mobilebert mpnet mra mt5 musicgen musicgenmelody mvp myt5 nllb
    nllbmoe nomicbert nougat omdetturbo oneformer owlv2 owlvit pegasus perceiver phobert plbart
    ppformulanet prophetnet rembert roberta robertaprelayernorm rocbert roformer sam3 sam3video
    seamlessm4t seamlessm4tv2 siglip speech2text speechtotext speecht5 splinter squeezebert
    switchtransformers t5 tapas trocr tvp udop vilt visualbert whisper xclip xglm xlm xlmroberta
    xlnet xmod yoso"""
# Those that split text at blanks, or strip and join them, whatever their `tokenizer.json` says, and
# such `model_type`s.
_SPLITTING = """
    albert camembert debertav2 gte jinaembeddingsv3 mbart metaclip2 mt5 musicgen musicgenmelody
    switchtransformers t5 trocr xlmroberta xlnet xmod yoso"""
_THEIRS = {"tokenizer_class", "model_max_length", "added_tokens_decoder"}
_OURS = ("pretokenize", "normalization", "max_characters_per_word", "special_tokens",
         "pair_separators", "pair_types", "added_tokens", "final_separator", "initial_token",
         "initial_again")


def is_published(config):
    """Whether the configuration beside a `vocab.txt` is one of transformers, not ours."""
    return "do_lower_case" in config or "lower_case" not in config and any(
        key in _THEIRS or key.endswith("_token") for key in config)


def word_piece(config, path):
    """Options of our `Tokenizer` from the configuration of a BERT-like tokenizer.

    A class takes true for `do_lower_case`; accents go with the case unless something else is said.

    Args:
        config: dict, one that `is_published`.
        path: its file, for messages.

    Returns: dict; without `lower_case` where neither it nor a class is stated.

    Raises:
        UsageError: a special token is no string.
    """
    lower_case, accents = config.get("do_lower_case"), config.get("strip_accents")
    if lower_case is None and config.get("tokenizer_class") is not None:
        lower_case = True
    casing = {"lower_case": lower_case, "strip_accents": lower_case if accents is None else accents}
    chinese = config.get("tokenize_chinese_chars", True)
    options = {**{name: value for name, value in casing.items() if value is not None},
               "normalization": "huggingface", "max_characters_per_word": CHARACTERS_PER_WORD,
               **({} if chinese is True else {"tokenize_chinese_chars": chinese})}
    usual = _CLASSES.get(str(config.get("tokenizer_class", "")).removesuffix("Fast"))
    names = special_tokens(config, path)
    if usual or None not in names:
        names = tuple(name or fallback for name, fallback in zip(names, usual or names,
                                                                strict=True))
        options["special_tokens"] = dict(zip(("pad", "unk", "cls", "sep", "mask"), names,
                                             strict=True))
        if names[2] == "<s>":
            options |= {"pair_separators": 2}
        decoder = config.get("added_tokens_decoder")
        if isinstance(decoder, dict):
            options["added_tokens"] = [each._asdict() for each in decoded_tokens(
                decoder.values(), names, path)]
    if not has_types(config):
        options["pair_types"] = False
    return options | {name: config[name] for name in _OURS if name in config}


def as_built(values, config, path):
    """Return a `tokenizer.json` with the rules that transformers makes of the configuration.

    A class takes its usual value for what the configuration leaves out. Where none is named,
    `do_lower_case` or `add_prefix_space` tells that it is one of these, or the `config.json` beside
    it that it is one with a Unigram model.

    Args:
        values: dict, what the file has.
        config: dict, the `tokenizer_config.json` beside it.
        path: the file.

    Returns: dict; `values` itself where nothing differs.
    """
    stated, name = config.get("tokenizer_class"), _class_name(config)
    for part, kind, classes, options in _OF_CLASSES:
        rules = values.get(part)
        first, _ = next(iter(options.values()))
        is_one = config.get(first) is not None if stated is None else name in classes
        if is_one and isinstance(rules, dict) and rules.get("type") == kind:
            made = {**rules, **{option: usual if config.get(key) is None else config[key]
                                for option, (key, usual) in options.items()}}
            values = values if made == rules else {**values, part: made}
    model = plain_name(model_name(path, config))
    rows = _OF_PIECES if values["model"].get("type") == "Unigram" else ()
    for _, part, key, front, options in (row for row in rows if row[0] == model):
        steps, after = steps_of(values.get(part), key), len(front)
        if steps[:after] == front:
            made, others = [*front], steps[after:]
            for option, (usual, value, own) in options.items():
                chosen = usual if config.get(option) is None else bool(config[option])
                made += own if chosen == value else []
                others = [step for step in others if step not in own]
            made += others
            values = values if made == steps else {**values, part: {"type": "Sequence", key: made}}
    return values


def _class_name(config):
    return str(config.get("tokenizer_class")).removesuffix("Fast").removesuffix("Tokenizer")


def stated_class(path, config):
    """Return the class of transformers that is named for a tokenizer, a str; "" where none is.

    Args:
        path: of a file of the tokenizer.
        config: dict, the `tokenizer_config.json` beside it. Where that names no class, the
            `config.json` beside it may.
    """
    return str(config.get("tokenizer_class") or _of_model(path).get("tokenizer_class") or "")


def class_that_reads(path, config):
    """Return `(name, key)`: the class that a tokenizer without `tokenizer.json` is of, a str, and
    where it stands, for messages; `("", "")` where none is named.

    Code of the folder's own goes before a `tokenizer_class` of the same file.

    Args:
        path, config: of the `tokenizer_config.json`, as of `stated_class`.
    """
    for source, values in ((path, config), (_beside(path), _of_model(path))):
        code = values.get("auto_map")  # once the classes themselves, slow and fast
        code = code.get("AutoTokenizer") if isinstance(code, dict) else code
        code = code if isinstance(code, list) else [code]
        for key, name in (*(("auto_map", each) for each in code),
                          ("tokenizer_class", values.get("tokenizer_class"))):
            if name:
                return str(name), f"{source}: {key}"
    return "", ""


def model_name(path, config):
    """Return what says which rules a class has of its own, a str: `stated_class`, with its
    arguments, or the `model_type` of the `config.json`; "" where nothing does."""
    return stated_class(path, config) or str(_of_model(path).get("model_type") or "")


def _of_model(path):
    """The `config.json` beside a file, `{}` where there is none."""
    beside = _beside(path)
    return files.read_json_object(beside) if files.exists(beside) else {}


def _beside(path):
    return os.path.join(os.path.dirname(path), "config.json")


def plain_name(name):
    """A `model_name` as a class and its `model_type` have it alike: `XLMRobertaTokenizer` and
    `xlm-roberta` are "xlmroberta"."""
    plain = name.lower().replace("-", "").replace("_", "")
    return plain.removesuffix("fast").removesuffix("tokenizer")


def adds_tokens(name):
    """Return whether what a `model_name` says puts special tokens around a text by itself."""
    return plain_name(name) in _ADDING.split()


def splits_at_blanks(name):
    """Return whether what a `model_name` says splits text at blanks, or joins them, by itself."""
    return plain_name(name) in _SPLITTING.split()


def special_tokens(config, path):
    """The tokens that play the five `ROLES`, each a str, None where nothing is said.

    Raises:
        UsageError: one is neither a string nor an object with a `content`.
    """
    return tuple(token(config, role, path) for role in ROLES)


def token(config, key, path):
    """The token that a key names, None where it is not there; errors as of `special_tokens`."""
    stated = config.get(key)
    stated = stated.get("content") if isinstance(stated, dict) else stated
    if stated is not None and not (isinstance(stated, str) and stated):
        raise UsageError(explain(f"{path}: {key}={config[key]!r}", "a token"))
    return stated


def special_names(config, path):
    """`special_tokens`, an argument of `Vocabulary`, where all five are stated; else `{}`."""
    names = special_tokens(config, path)
    return {} if None in names else {"special_tokens": names}


def of_gpt2(config, path):
    """What the classic files of GPT-2 leave to its class: arguments of `Vocabulary`.

    Args:
        config, path: as of `special_tokens`.
    """
    end = token(config, "eos_token", path) or END_OF_TEXT
    pad, unknown, begin, mask = (token(config, f"{role}_token", path) or usual for role, usual in (
        ("pad", end), ("unk", END_OF_TEXT), ("bos", END_OF_TEXT), ("mask", end)))
    begins = config.get("add_bos_token") is True
    return {"special_tokens": (pad, unknown, begin, end, mask), "pair_separators": int(begins),
            "pair_types": False, "initial_token": begins, "final_separator": False}


def of_deberta(config, path):
    """The same of DeBERTa, version 1, whose tokens are called as BERT's. One separator stands
    between segments, as its own code and transformers 4 have it; 5.24 puts two."""
    return {"special_tokens": tuple(name or usual for name, usual in zip(
        special_tokens(config, path), SPECIAL_TOKENS, strict=True)), "pair_separators": 1}


def has_types(config):
    """Whether the second segment of a pair is told from the first, as far as anything is said."""
    names = config.get("model_input_names")
    if isinstance(names, list):
        return _TYPES in names
    return _class_name(config) not in _WITHOUT_TYPES


def decoded_tokens(entries, special, path):
    """`AddedToken`s of objects with `content`, `lstrip`, `rstrip`, `special`, …

    Args:
        entries: of a `tokenizer.json` or of the `added_tokens_decoder`.
        special: the five special tokens, which are there anyway.
        path: for messages.

    Raises:
        UsageError: an entry of another form.
    """
    added = {each.token: each for each in default_added_tokens(special)}
    for entry in entries:
        content = entry.get("content") if isinstance(entry, dict) else None
        flags = [entry.get(name, False) for name in ("lstrip", "rstrip", "special")] if (
            content) else [None]
        if not isinstance(content, str) or not all(isinstance(flag, bool) for flag in flags):
            raise UsageError(explain(f"{path}: the added token {entry!r}",
                                     "an object with content, lstrip, rstrip and special"))
        lstrip, rstrip, is_special = flags
        added[content] = AddedToken(content, lstrip, rstrip, is_special or content in special)
    return list(added.values())

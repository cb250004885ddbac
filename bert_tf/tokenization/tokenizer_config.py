"""`tokenizer_config.json`: the options of a tokenizer that its vocabulary does not state.

Ours has the arguments of the tokenizer's class as keys; of those that concern special tokens it has
the ones that are not usual for the class.
"""

from bert_tf.errors import UsageError, explain
from bert_tf.storage import checksums, files
from bert_tf.tokenization.vocabulary import AddedToken, default_added_tokens

NAME = "tokenizer_config.json"
MAP = "special_tokens_map.json"  # of transformers 4: special tokens by their roles
ROLES = ("pad", "unk", "cls", "sep", "mask")
# Where special tokens stand around segments, and what is usual.
_AROUND = {"final_separator": True, "initial_token": True, "initial_again": False}


def vocabulary_options(vocabulary, special_tokens, pair_separators):
    """The keys that describe a vocabulary's special tokens.

    Args:
        vocabulary: `Vocabulary`.
        special_tokens, pair_separators: the usual values, which are left out.

    Returns: dict for a `tokenizer_config.json`; `read_vocabulary_options` reads it.
    """
    options = {}
    if vocabulary.special_tokens != tuple(special_tokens):
        options["special_tokens"] = dict(zip(ROLES, vocabulary.special_tokens, strict=True))
    if vocabulary.pair_separators != pair_separators:
        options["pair_separators"] = vocabulary.pair_separators
    if vocabulary.pair_types != (vocabulary.pair_separators == 1):
        options["pair_types"] = vocabulary.pair_types
    options |= {name: getattr(vocabulary, name) for name, usual in _AROUND.items()
                if getattr(vocabulary, name) != usual}
    if vocabulary.added_tokens != default_added_tokens(vocabulary.special_tokens):
        options["added_tokens"] = [added._asdict() for added in vocabulary.added_tokens]
    return options


def read_vocabulary_options(config, path, rstrip=False):
    """What `vocabulary_options` gave, taken out of the dict `config`: arguments of `Vocabulary`.

    Args:
        config: dict.
        path: its file, for messages.
        rstrip: whether the white space after an added token may go away, which `special` leaves:
            where it makes no difference, or another finds the tokens.

    Raises:
        UsageError: a value of another form.
    """
    options = {}
    if "special_tokens" in config:
        names = config.pop("special_tokens")
        if not isinstance(names, dict) or set(names) != set(ROLES) or not all(
                isinstance(name, str) and name for name in names.values()):
            raise UsageError(explain(f"{path}: special_tokens={names!r}",
                                     f"an object with a token for each of {', '.join(ROLES)}"))
        options["special_tokens"] = tuple(names[role] for role in ROLES)
    if "pair_separators" in config:
        count = options["pair_separators"] = config.pop("pair_separators")
        if type(count) is not int or count not in (0, 1, 2):
            raise UsageError(explain(f"{path}: pair_separators={count!r}", "0, 1 or 2"))
    for name in ("pair_types", *_AROUND):
        if name in config:
            options[name] = config.pop(name)
            check_boolean(options[name], name, path)
    if "added_tokens" in config:
        added = config.pop("added_tokens")
        try:
            options["added_tokens"] = tuple(AddedToken(**each) for each in added)
            right = all(isinstance(each.token, str) and each.token and all(
                isinstance(flag, bool) for flag in each[1:]) for each in options["added_tokens"])
        except TypeError:
            right = False
        if not right:
            raise UsageError(explain(f"{path}: added_tokens={added!r}"[:200],
                                     "a list of objects with token, lstrip, rstrip and special"))
        stripping = [] if rstrip else [each.token for each in options["added_tokens"]
                                       if each.rstrip]
        if stripping:
            raise UsageError(explain(f"{path}: the added token {stripping[0]!r} has rstrip, which "
                                     "this kind of tokenizer does not heed", "rstrip false"))
    return options


def read_config(path):
    """The object in a `tokenizer_config.json`, `{}` where there is none; errors as of `files`.

    Special tokens of a `special_tokens_map.json` beside it count more, as in transformers, unless
    it has an `added_tokens_decoder` or is ours.
    """
    if not files.exists(path):
        return {}
    folder, _, name = path.rpartition("/")
    checksums.check(folder, (name,))
    config = files.read_json_object(path)
    beside = path.removesuffix(NAME) + MAP
    if {"added_tokens_decoder", "lower_case"} & config.keys() or not files.exists(beside):
        return config
    named = files.read_json_object(beside)
    return config | {f"{role}_token": named[f"{role}_token"] for role in ROLES
                     if f"{role}_token" in named}


def check_boolean(value, name, path):
    """Raise UsageError unless the value of a key is true or false."""
    if not isinstance(value, bool):
        raise UsageError(explain(f"{path}: {name}={value!r}", "true or false"))

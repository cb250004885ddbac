"""Options: a field says type, range, choices, help and default; the flag follows."""

import dataclasses
import inspect

import numpy as np
import pytest

from bert_tf import cli
from bert_tf.errors import UsageError
from bert_tf.options import (
    FRACTION,
    POSITIVE,
    REQUIRED,
    Options,
    SeedOptions,
    option,
    takes,
)


def _parse(text):
    if text == "bad":
        raise UsageError("it is bad")
    return {"tab": "\t"}.get(text, text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorOptions(Options):
    """A group of its own."""

    GROUP = ("vectors", "What they are.")
    layers: tuple[int, ...] | None = option(None, "layers", metavar="LAYER")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CountConfig(VectorOptions, SeedOptions):
    """Options of all sorts."""

    input: tuple[str, ...] = option(REQUIRED, "text files", metavar="GLOB")
    top: int = option(10, "words to print", POSITIVE)
    masked_lm_prob: float = option(0.15, "fraction of masked tokens", FRACTION)
    rates: tuple[float, ...] = option((5e-5,), "learning rates")
    order: str | None = option(None, "of the words", choices=("name", "count"))
    delimiter: str = option("tab", "between the fields", parse=_parse)
    steps: int | None = option(None, "steps", otherwise=100)
    verbose: bool = option(False, "say more")
    bucket: bool = option(True, "put together what is alike")
    secret: int = option(1, "no flag", flag=False)


@takes(CountConfig)
def count(config):
    """Count words."""
    return config


def _flags(*words):
    return CountConfig(**vars(cli.parser_of("count", "Counts.", CountConfig).parse_args([*words])))


def test_flags_and_fields_are_the_same():
    flags = _flags("--input", "a", "b", "--top", "3", "--masked_share", "0.2", "--rates", "1",
                   "0.5", "--order", "name", "--delimiter", "tab", "--verbose", "--no-bucket",
                   "--layers", "-1", "2", "--seed", "7")
    given = CountConfig(input=["a", "b"], top=3, masked_lm_prob=0.2, rates=(1, 0.5), order="name",
                        verbose=True, bucket=False, layers=[-1, 2], seed=7)
    assert flags == given
    assert given.input == ("a", "b") and given.rates == (1.0, 0.5) and given.delimiter == "\t"
    assert _flags("--input", "a") == CountConfig(input="a")
    with pytest.raises(UsageError, match="unknown argument --secret"):
        _flags("--input", "a", "--secret", "2")


def test_a_flag_given_again_adds_names_and_replaces_numbers():
    flags = _flags("--input", "a", "--rates", "1", "--input", "b", "c", "--rates", "2")
    assert flags == CountConfig(input=("a", "b", "c"), rates=(2,))
    assert _flags("--input", "a").rates == (5e-5,)


def test_a_function_of_options_takes_them_by_name(tmp_path):
    with pytest.raises(UsageError, match=r"count\('a'\); expected fields by their names or one "
                                         "CountConfig"):
        count("a")
    assert count(input=tmp_path / "a") == count(CountConfig(input=str(tmp_path / "a")))


def test_former_names_stay():
    """As flags, in manifests and in dictionaries."""
    assert _flags("--input", "a", "--masked-lm-prob", "0.3").masked_lm_prob == 0.3
    stored = CountConfig(input="a").stored()
    assert stored["masked_share"] == 0.15 and "masked_lm_prob" not in stored
    assert stored["input"] == ["a"]
    assert CountConfig.from_dict(stored) == CountConfig(input="a")


def test_help_says_what_a_field_says(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    page = cli.parser_of("count", "Counts.", CountConfig).format_help()
    for line in ("--top TOP             words to print (default: 10)", "(default: 5e-05)",
                 "steps (default: 100)", "--order {name,count}", "say more\n", "vectors:",
                 "What they are."):
        assert line in page
    assert page.index("--bucket") < page.index("--seed")  # its own before those of its bases
    # A group holds the flags of its class, not those of classes that inherit from it.
    assert page.index("words to print") < page.index("vectors:") < page.rindex("--layers")
    assert "--masked_share" not in page and "secret" not in page


@pytest.mark.parametrize(("values", "message"), [
    ({}, "CountConfig: input is missing"),
    ({"input": ()}, "input is empty; expected at least one value"),
    ({"input": 3}, "input=3; expected str"),
    ({"top": 0}, "top=0; expected a whole number of at least 1"),
    ({"top": True}, "top=True; expected int"),
    ({"top": 1.5}, "top=1.5; expected int"),
    ({"masked_lm_prob": float("nan")}, r"masked_lm_prob=nan; expected a fraction in \[0, 1\)"),
    ({"rates": [1, "x"]}, "rates='x'; expected float"),
    ({"order": "nam"}, "order='nam' is unknown; expected one of name, count; try order='name'"),
    ({"delimiter": "bad"}, "it is bad"),
    ({"verbose": 1}, "verbose=1; expected bool"),
    ({"tpo": 3}, "unknown key 'tpo'; try 'top'"),
    ({"input": "s3://key:secret@bucket/a"}, "a s3:// path with credentials in it"),
])
def test_wrong_values(values, message):
    with pytest.raises(UsageError, match=message):
        count(**{**({"input": "a"} if values else {}), **values})


def test_a_float_of_numpy_is_kept_as_one_of_python():
    config = CountConfig(input="a", rates=(np.float64(1e-5),), masked_lm_prob=np.float64(.5))
    assert repr((*config.rates, config.masked_lm_prob)) == "(1e-05, 0.5)"


def test_a_function_takes_options_or_their_fields():
    config = CountConfig(input="a", top=3)
    assert count(config) is config
    assert count(input="a", top=3) == config == count(CountConfig(input="a"), top=3)
    assert inspect.getdoc(count) == "Count words."
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.top = 4

"""Errors, and notes, that a user can act on: what was received, what was expected, what to try."""

import contextlib
import difflib
import re
import textwrap

_LISTED = 400  # characters of what there is to choose from
# Controls, U+202A to 202E and 2066 to 2069, which turn the direction of text, halves of surrogates.
_NOT_SHOWN = r"[^\n\t -~\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\U0010ffff]"


class BertTfError(Exception):
    """Something about the data, the files or the machine stops the work (exit code 1)."""


class UsageError(BertTfError):
    """The command line or a configuration is wrong (exit code 2)."""


class DivergedError(BertTfError):
    """A training whose loss or one of whose weights is no longer a number.

    Args:
        reason: what happened.
        advice: what follows it in the message.

    Attributes:
        reason: as given.
        best: the best evaluation before, with its `step`; None where there is none.
    """

    best = None

    def __init__(self, reason, advice=""):
        super().__init__(reason + advice)
        self.reason = reason


class UnavailableError(BertTfError):
    """A file cannot be reached, though it may be sound: permissions, space or a store are in the
    way."""


class LostWorkerError(BertTfError):
    """Another process of a distributed training does not answer any more."""


class NoTextError(UsageError):
    """A model's text cannot be tokenized inside a graph: it can only be given token ids."""


def explain(received, expected="", attempt=""):
    """One line: `received; expected …; try …`, leaving out what is empty."""
    parts = [received]
    if expected:
        parts.append(f"expected {expected}")
    if attempt:
        parts.append(f"try {attempt}")
    return "; ".join(parts)


def printable(text):
    """Return a text in which what would command a terminal, as names in others' files may, is
    written out."""
    return re.sub(_NOT_SHOWN, lambda found: repr(found[0])[1:-1], text)


def print_note(text, file=None):
    """Print `note: text`, `printable`, to `file` (default: standard output)."""
    print(printable(f"note: {text}"), file=file)


@contextlib.contextmanager
def needs(extra, received, otherwise=""):
    """Raise UsageError where the block imports a package that is not installed.

    Args:
        extra: the one of this package that has it.
        received: what needs which package.
        otherwise: what else can be tried, after `pip install …`.
    """
    try:
        yield
    except ImportError as error:
        raise UsageError(explain(f"{received} ({error})", attempt=
                                 f"pip install 'bert_tf[{extra}]'{otherwise}")) from error


def check_choice(name, value, choices, meant=None, near=True):
    """Return `value` if it is one of `choices`; else raise UsageError naming the nearest.

    Args:
        name: what is chosen.
        value: what was given.
        choices: what it may be.
        meant: returns the choice that a value which is none means, or None for the nearest.
        near: whether the nearest is an advice; of what a published file says of its weights it
            is none.
    """
    choices = list(choices)
    if value in choices:
        return value
    known = meant and meant(str(value))
    close = [known] if known else near and difflib.get_close_matches(
        str(value), [str(c) for c in choices], n=1)
    hint = f"{name}={close[0]!r}" if close else ""
    listed = textwrap.shorten(", ".join(map(str, choices)), _LISTED, placeholder=" …")
    raise UsageError(explain(f"{name}={value!r} is unknown", f"one of {listed}", hint))

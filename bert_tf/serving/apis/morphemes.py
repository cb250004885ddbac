"""The texts of a request split into morphemes, so that nobody waits long for another's."""

import asyncio
import concurrent.futures
import itertools
import re

from bert_tf.errors import BertTfError
from bert_tf.serving.wire.messages import error, quoted
from bert_tf.tokenization.morphemes import MORPHEMES, Analysed, analyse, parts_of

_STEP = 8000  # characters that are analysed before others have their turn
_CHARACTERS = 16  # but blanks, of a token, on average, at most: what is later is not read
# One, since the analyser has threads of its own. Each request has one step in its queue at most:
# they take turns, and what was not begun when a request's time ends never begins.
_thread = concurrent.futures.ThreadPoolExecutor(1, "morphemes")


async def analysed(about, texts, deadline):
    """Texts, `{name: list of str}`, split into morphemes where the model is of such.

    Of a text whose end the model does not read, that end stays as it is.

    Args:
        about: `About` of the model.
        deadline: as of `Backend.run`.

    Raises:
        ServingError: UNIMPLEMENTED without the analyser; the time ended.
    """
    if about.description.get("pretokenize") != MORPHEMES:
        return texts
    window = about.description.get("seq_length")
    most = window * _CHARACTERS if window and about.description.get("long") == "head" else None
    found = {text: [] for column in texts.values() for text in column}
    steps, loop = _steps(found, most), asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(deadline):
            while await loop.run_in_executor(_thread, next, steps, False):
                pass
    except TimeoutError as problem:
        raise error("deadline") from problem
    except BertTfError as problem:
        raise quoted("UNIMPLEMENTED", str(problem)) from problem
    return {key: [found[text] for text in column] for key, column in texts.items()}


def _steps(found, most):
    """Analyse the texts that are the keys of `found`, at last its values; yields True after each
    step."""
    waiting, size = [], 0
    for text, parts in found.items():
        for part in parts_of(text[:_end(text, most)]):
            waiting.append((parts, part))
            size += len(part)
            if size >= _STEP:
                _analyse(waiting)
                waiting, size = [], 0
                yield True
    _analyse(waiting)
    for text, parts in found.items():
        found[text] = Analysed("".join(parts) + text[_end(text, most):])


def _end(text, most):
    """Return where the first `most` characters that are no blanks end; all of the text if None."""
    if most is None or len(text) <= most:
        return len(text)
    found = next(itertools.islice(re.finditer(r"\S", text), most, None), None)
    return len(text) if found is None else found.start()


def _analyse(waiting):
    for (parts, _), part in zip(waiting, analyse([part for _, part in waiting]), strict=True):
        parts.append(part)

"""Questions, contexts and answers split into morphemes."""

import dataclasses

import numpy as np

from bert_tf.tokenization.morphemes import analyse, analysed_places, original_offsets


def analysed_spans(examples):
    """Return the examples with morphemes apart, and their answers at the positions that they have
    then.

    Args:
        examples: list of `SpanExample`.

    Returns: list of `SpanExample`.

    Raises: as `morphemes.analyse`.
    """
    questions, contexts = (analyse([getattr(example, name) for example in examples], progress=True)
                           for name in ("question", "context"))
    return [dataclasses.replace(example, question=question, context=context,
                                answers=_answers(example, context))
            for example, question, context in zip(examples, questions, contexts, strict=True)]


def _answers(example, context):
    """Return the answers as spans of the analysed `context`."""
    starts = np.array([start for _, start in example.answers], np.int64)
    ends = starts + np.array([len(text) for text, _ in example.answers], np.int64)
    offsets = original_offsets(example.context, context)
    return tuple((context[start:end], int(start)) for start, end in zip(
        analysed_places(offsets, starts), analysed_places(offsets, ends, are_ends=True),
        strict=True))

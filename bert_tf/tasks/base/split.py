"""Holding out a fraction of labelled examples."""

import bisect
import collections
import hashlib
import json

from bert_tf.data.tables import composed
from bert_tf.errors import UsageError, explain

_SPREAD = 5  # parts of equal size that the numbers of a regression are divided into


def split_examples(examples, fraction, seed, dev_last=False):
    """Split examples into train examples and about `fraction` of them as dev examples.

    Examples that share a group stay together, else those of the same text; among these units a hash
    of the seed and of their content chooses, so that neither the order of the examples matters nor
    their ids. Every stratum (`Example.stratum`; of numbers, each fifth of them) has about its
    fraction, as far as whole units allow; a group counts as what most of it is. No label goes to
    the dev examples alone, unless every unit that may be held out has one of its own.

    Args:
        examples: list of `Example`.
        fraction: between 0 and 1.
        seed: integer.
        dev_last: hold out the last examples instead, see `Task.dev_last`.

    Returns: `(train, dev)`, both lists in the order of `examples`, neither empty.

    Raises:
        UsageError: there is too little to split.
    """
    if dev_last and len(examples) > 1:
        last = min(max(1, round(fraction * len(examples))), len(examples) - 1)
        return examples[:-last], examples[-last:]
    units = _units(examples, seed)
    if len(units) < 2:
        raise UsageError(explain("all examples are of one document or have the same text or "
                                 f"positives, of which a fraction of {fraction} was to be held out",
                                 attempt="--dev FILE"))
    names = {unit[0]: set().union(*(examples[i].described_labels for i in unit)) for unit in units}
    held_out = set()
    for unit in _chosen(_strata(examples, units), fraction, names):
        held_out.update(unit)
    return ([example for i, example in enumerate(examples) if i not in held_out],
            [example for i, example in enumerate(examples) if i in held_out])


def _units(examples, seed):
    """Return lists of indices of what stays together, in a drawn order."""
    members, leader = collections.defaultdict(list), {}
    digests = [content_digests(example) for example in examples]
    groups = [(*(example.groups or own), *mirrored) for example, own, mirrored in zip(
        examples, digests, _mirrors(examples, digests), strict=True)]

    def find(group):
        """Return the one that stands for all groups that examples join with this one."""
        while leader.setdefault(group, group) != group:
            leader[group] = group = leader[leader[group]]
        return group

    for first, *others in groups:
        for other in others:
            leader[find(other)] = find(first)
    for i, (first, *_) in enumerate(groups):
        members[find(first)].append(i)

    def draw(unit):
        content = b"".join(sorted(digest for i in unit for digest in digests[i]))
        return hashlib.blake2b(content, digest_size=16, key=str(seed).encode()).digest()

    return sorted(members.values(), key=draw)


def _mirrors(examples, digests):
    """Yield what joins each example with those that are the same mirrored: a list of bytes."""
    known = {digest for own in digests for digest in own}
    for example, own in zip(examples, digests, strict=True):
        mirrored = map(_digest, example.mirrored)
        yield [min(pair) for pair in zip(own, mirrored, strict=False) if pair[1] in known]


def content_digests(example, mirrored=False):
    """Return hashes of what an example is recognized by, see `Example.known_by`, composed (NFC) or
    not: list of bytes; if wanted, also of what it is `mirrored`."""
    return list(map(_digest, [*example.known_by, *(example.mirrored if mirrored else ())]))


def _digest(content):
    return hashlib.blake2b(json.dumps([text and composed(text) for text in content]).encode(),
                           digest_size=16).digest()


def _strata(examples, units):
    """Return lists of similar units, each of at least two units: all as one where no two are
    similar.

    Units whose combination of several labels no other has are one, too: they may be most.
    """
    numbers = sorted(example.stratum for example in examples
                     if isinstance(example.stratum, float))
    bounds = [numbers[len(numbers) * part // _SPREAD] for part in range(1, _SPREAD)] \
        if numbers else []

    def stratum(example):
        found = example.stratum
        return str(bisect.bisect_right(bounds, found)) if isinstance(found, float) else found

    strata = collections.defaultdict(list)
    for unit in units:
        counts = collections.Counter(stratum(examples[i]) for i in unit)
        strata[min(counts, key=lambda name: (-counts[name], name))].append(unit)
    large = [strata[name] for name in sorted(strata) if len(strata[name]) > 1]
    if isinstance(getattr(examples[0], "label", None), tuple):
        alone = {found[0][0] for found in strata.values() if len(found) == 1}
        single = [unit for unit in units if unit[0] in alone]
        large += [single] if len(single) > 1 else []
    return large or [units]


def _chosen(strata, fraction, names):
    """Return the units to hold out: of each stratum the first that fit its fraction, never all of
    them, and none with the last of a label.

    What a stratum has too few or too many, the next one makes up for.

    Args:
        names: `{first index of a unit: its labels, a set}`, of all units.
    """
    chosen, owed = [], 0.0
    trained = collections.Counter(name for found in names.values() for name in found)  # units

    def spared(unit):
        return all(trained[name] > 1 for name in names[unit[0]])

    for units in strata:
        owed += fraction * sum(map(len, units))
        left = len(units)
        for unit in units:
            if len(unit) / 2 <= owed and left > 1 and spared(unit):
                chosen.append(unit)
                trained.subtract(names[unit[0]])
                owed -= len(unit)
                left -= 1
    largest = [unit for units in sorted(strata, key=len, reverse=True) for unit in units]
    return chosen or [next(filter(spared, largest), largest[0])]

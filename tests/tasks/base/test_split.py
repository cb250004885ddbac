"""Held-out shares: a partition of whole groups, every label's share, whatever the order."""

import collections
import dataclasses
import unicodedata
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import UsageError
from bert_tf.tasks.base.examples import TextExample
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.split import content_digests, split_examples
from bert_tf.tasks.question_answering.examples import SpanExample
from bert_tf.tasks.registry import read_task
from bert_tf.tasks.token_classification.examples import TagExample

SEEDS = st.integers(0, 2**31)
SHARES = st.floats(0.01, 0.5)


def texts(labels, groups=None, names=None):
    """An example a label; texts differ unless `names` says otherwise."""
    names = names or [f"text {i}" for i in range(len(labels))]
    groups = groups or [None] * len(labels)
    return [TextExample(str(i), name, label=label, group=group) for i, (name, label, group)
            in enumerate(zip(names, labels, groups, strict=True))]


@st.composite
def examples(draw):
    """Texts with labels, some of them in groups, some of the ungrouped alike."""
    size = draw(st.integers(2, 40))
    labels = draw(st.lists(st.sampled_from("abc"), min_size=size, max_size=size))
    groups = draw(st.lists(st.sampled_from([None, None, "g", "h", "i"]), min_size=size,
                           max_size=size))
    names = [f"{group} {i if group else draw(st.integers(0, 20))}"
             for i, group in enumerate(groups)]
    made = texts(labels, groups, names)
    if len({example.group or example.text_a for example in made}) < 2:
        made.append(TextExample(str(size), "another", label="a"))
    return made


@settings(deadline=None)
@given(examples(), SHARES, SEEDS)
def test_a_partition_of_whole_groups(made, share, seed):
    train, dev = split_examples(made, share, seed)
    assert train and dev
    inside = {id(example) for example in dev}
    assert train == [example for example in made if id(example) not in inside]
    assert dev == [example for example in made if id(example) in inside]
    units = [{example.group or example.text_a for example in side} for side in (train, dev)]
    assert not units[0] & units[1]


@settings(deadline=None)
@given(examples(), SHARES, SEEDS, st.randoms(use_true_random=False))
def test_order_and_ids_do_not_matter(made, share, seed, random):
    def content(side):
        return collections.Counter((example.text_a, example.label) for example in side)

    train, dev = split_examples(made, share, seed)
    shuffled = [dataclasses.replace(example, id=f"new {i}", where="elsewhere")
                for i, example in enumerate(made)]
    random.shuffle(shuffled)
    again = split_examples(shuffled, share, seed)
    assert [content(train), content(dev)] == list(map(content, again))


@settings(deadline=None)
@given(st.lists(st.sampled_from("aaaabbc"), min_size=2, max_size=300), SHARES, SEEDS)
def test_every_label_has_its_share(labels, share, seed):
    train, dev = split_examples(texts(labels), share, seed)
    counts = collections.Counter(labels)
    held_out = collections.Counter(example.label for example in dev)
    if max(counts.values()) > 1:
        assert {example.label for example in train} == set(labels)
        for label, count in counts.items():
            assert count == 1 or abs(held_out[label] - share * count) <= 1
    several = sum(count for count in counts.values() if count > 1) or len(labels)
    assert len(dev) == 1 or abs(len(dev) - share * several) <= 0.5 + 1e-9


def test_seeds_differ():
    made = texts(["a", "b"] * 50)
    drawn = {tuple(example.id for example in split_examples(made, 0.1, seed)[1])
             for seed in range(5)}
    assert len(drawn) == 5


def test_a_split_stays_what_it_was():
    """What was measured on a split can be compared with what will be."""
    dev = split_examples(texts(["a", "b"] * 10), 0.2, 7)[1]
    assert [example.id for example in dev] == ["0", "5", "15", "16"]
    made = texts([*"aabbc" * 4, "d"], [*[None] * 5, *"gghhii", *[None] * 10])
    dev = split_examples(made, 0.3, 2)[1]
    assert [example.id for example in dev] == ["1", "7", "8", "11", "13", "15"]


def test_mirrored_pairs_stay_together_and_others_do_not():
    made = [QueryExample(str(n), f"a {n}", (f"b {n}",)) for n in range(20)]
    mirrored = [QueryExample(f"m{each.id}", each.positives[0], (each.query,)) for each in made]
    train, dev = split_examples(made + mirrored, 0.2, 1)
    assert len(dev) == 8
    assert sorted(f"m{each.id}" for each in dev if each.id.isdigit()) == sorted(
        each.id for each in dev if each.id.startswith("m"))
    chain = [QueryExample(str(n), f"a {n}", (f"a {n + 1}",)) for n in range(20)]
    assert len(split_examples(chain, 0.2, 1)[1]) == 4


def test_mrpc_holds_out_its_last_rows(shared):
    made = read_task("mrpc", str(shared / "data/mrpc/msr_paraphrase_train.txt"))
    assert split_examples(made, 0.1, 3, dev_last=True) == (made[:3668], made[3668:])
    for size, share, held_out in ((1499, 0.15, 225), (2, 0.01, 1), (2, 0.99, 1)):
        train, dev = split_examples(made[:size], share, 3, dev_last=True)
        assert (len(dev), train + dev) == (held_out, made[:size])


def test_a_text_is_known_composed_or_not():
    one, other = (TextExample("0", unicodedata.normalize(form, "영화를"))
                  for form in ("NFC", "NFD"))
    assert content_digests(one) == content_digests(other) != content_digests(TextExample("0", "a"))


def test_too_little_is_refused():
    with pytest.raises(UsageError, match="--dev FILE"):
        split_examples(texts(["0"]), 0.1, 0, dev_last=True)
    for made in (texts(["a"]), texts(["a", "b"], ["g", "g"]), texts("ab", names=["x", "x"])):
        with pytest.raises(UsageError, match="one document or have the same text.*--dev FILE"):
            split_examples(made, 0.1, 0)


def test_numbers_are_spread():
    train, dev = split_examples(texts([i / 100 for i in range(500)]), 0.2, 0)
    assert len(dev) == 100
    fifths = collections.Counter(int(example.label) for example in dev)
    assert set(fifths.values()) == {20}
    assert set(fifths) == set(range(5))


def test_sets_of_labels_are_spread():
    labels = [("a",), ("b",), ("b", "a"), ()] * 50
    labels[2::8] = [("a", "b")] * len(labels[2::8])
    dev = split_examples(texts(labels), 0.2, 0)[1]
    counts = collections.Counter(frozenset(example.label) for example in dev)
    assert set(counts.values()) == {10}


@settings(deadline=None, max_examples=50)
@given(st.integers(100, 300), st.floats(0.05, 0.5), SEEDS)
def test_texts_of_many_labels_have_their_share(size, share, seed):
    """Nearly every combination is of one text, and four labels are."""
    random = Random(seed)
    labels = [tuple(name for name in "abcdefghijkl" if random.random() < 0.4)
              for _ in range(size)]
    labels[:4] = [(*names, f"own {n}") for n, names in enumerate(labels[:4])]
    train, dev = split_examples(texts(labels), share, seed)
    assert abs(len(dev) - share * size) <= 1.5
    trained, measured = ({name for example in side for name in example.label}
                         for side in (train, dev))
    assert measured <= trained


@settings(deadline=None)
@given(examples(), SHARES, SEEDS)
def test_no_label_is_held_out_alone(made, share, seed):
    """Nor the rarer one of a group, unless every unit is the only one of some label."""
    units = collections.defaultdict(set)
    for example in made:
        units[example.group or example.text_a].add(example.label)
    counts = collections.Counter(name for names in units.values() for name in names)
    train, dev = split_examples(made, share, seed)
    assert {example.label for example in dev} <= {example.label for example in train} or \
        all(1 in map(counts.get, names) for names in units.values())
    chains = [(f"l{i}", f"l{(i + 1) // 2}") for i in range(30)]  # 15 and more are of one text
    for names in (chains, ["a", "b", "c", "c", "c"]):
        train, dev = split_examples(texts(names), share, seed)
        assert set().union(*(example.described_labels for example in dev)) <= set().union(
            *(example.described_labels for example in train))


def test_questions_without_answer_and_sentences_without_entity_are_spread():
    questions = [SpanExample(str(i), f"q{i}", "a", (("a", 0),) if i % 4 else (), not i % 4)
                 for i in range(200)]
    dev = split_examples(questions, 0.1, 0)[1]
    assert (len(dev), sum(example.is_impossible for example in dev)) == (20, 5)
    sentences = [TagExample(str(i), (f"w{i}", "x"), ("O", "O" if i % 4 else "B-a"), (True, False))
                 for i in range(200)]
    dev = split_examples(sentences, 0.1, 0)[1]
    assert (len(dev), sum("B-a" in example.tags for example in dev)) == (20, 5)


@pytest.mark.parametrize(("task", "file"), [
    ("squad_v2", "squad_v2/small_train.json"), ("korquad", "korquad/KorQuAD_v1.0_dev.json"),
    ("klue_nli", "klue/nli_a.json")])
def test_real_groups(shared, task, file):
    made = read_task(task, str(shared / "data" / file))
    train, dev = split_examples(made, 0.1, 0)
    assert not {example.group for example in train} & {example.group for example in dev}
    assert 0.08 < len(dev) / len(made) < 0.13


def test_queries_that_share_a_positive_stay_together():
    made = [QueryExample(str(i), f"q{i}", (f"own {i}", f"shared {i // 4}", f"two {i // 8}"))
            for i in range(160)]
    train, dev = split_examples(made, 0.2, 0)
    assert len(dev) == 32
    assert not {text for each in train for text in each.positives} & {
        text for each in dev for text in each.positives}
    pairs = [QueryExample(str(i), f"q{i}", ("the same",), scores=(i / 10,)) for i in range(10)]
    assert len(split_examples(pairs, 0.2, 0)[1]) == 2


def test_judged_passages_of_queries_stay_together(write_file):
    path = write_file("a.tsv", "query\tpassage\tlabel\n" + "".join(
        f"q{i}\tp{i // 4}\t1\nq{i}\tn{i}\t0\n" for i in range(40)))
    train, dev = split_examples(read_task("rank", path), 0.2, 0)
    assert len(dev) == 8
    assert not {each.positives for each in train} & {each.positives for each in dev}


def test_documents_of_conll_stay_whole(write_file):
    path = write_file("a.conll", "".join(
        f"-DOCSTART- O\n\nw{document} O\n\nx{document} B-a\n\n" for document in range(20)))
    made = read_task("conll", path)
    train, dev = split_examples(made, 0.25, 0)
    assert len(dev) == 10
    assert not {example.group for example in train} & {example.group for example in dev}

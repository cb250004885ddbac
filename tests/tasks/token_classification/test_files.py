"""Tagged words and characters: CoNLL, KLUE-NER, own tables; sound tags; what is refused."""

import collections
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.base.read_examples import read_examples
from bert_tf.tasks.registry import find_task, read_task
from bert_tf.tasks.token_classification.examples import TagExample
from bert_tf.tasks.token_classification.files import check_untagged, sound_tags

CONLL_2003 = """-DOCSTART- -X- O O

U.N. NNP I-NP I-ORG
official NN I-NP O

Ekeus NNP I-NP I-PER
Rolf NNP I-NP B-PER
\t
-DOCSTART- -X- O O

Baghdad NNP I-NP I-LOC
"""
KLUE = """## 음절 구분자 : \\n
## klue-ner-v1_dev_00001-nsmc\t<아 이:PS>가 #
아\tB-PS
 \tI-PS
이\tI-PS
가\tO
 \tO
#\tO
\t
## klue-ner-v1_dev_00002-nsmc\t<1:QT>
1\tB-QT
"""
TAGS = st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b", "B-c-d", "I-c-d"]), max_size=12)


def rows(examples):
    return [list(zip(example.words, example.tags, strict=True)) for example in examples]


@given(TAGS)
def test_sound_tags_hold_the_entities_that_seqeval_finds(tags):
    from seqeval.metrics.sequence_labeling import get_entities

    sound = sound_tags(tags)
    assert get_entities(sound) == get_entities(tags)
    assert sound_tags(sound) == sound
    for before, tag in zip(["O", *sound], sound, strict=False):
        assert not tag.startswith("I-") or before[2:] == tag[2:]


def test_text_and_starts():
    example = TagExample("0", ("서울", "에", "👩‍👧", "!"), ("B-L", "O", "O", "O"),
                         (False, True, False, False))
    assert example.text == "서울에 👩‍👧!"
    assert example.starts == [0, 2, 4, 7]


@pytest.mark.parametrize("name", ["a.conll", "a.txt.gz"])
@pytest.mark.parametrize("task", ["conll", "tag"])
def test_conll_2003(write_file, task, name):
    path = write_file(name, "\ufeff" + CONLL_2003.replace("\n", "\r\n"))
    examples = read_task(task, path)
    assert rows(examples) == [[("U.N.", "B-ORG"), ("official", "O")],
                              [("Ekeus", "B-PER"), ("Rolf", "B-PER")], [("Baghdad", "B-LOC")]]
    assert [example.text for example in examples] == ["U.N. official", "Ekeus Rolf", "Baghdad"]
    assert examples[0].group == examples[1].group != examples[2].group
    assert [example.where for example in examples] == [f"{path} line {line}" for line in (3, 6, 11)]
    assert [example.id for example in examples] == ["0", "1", "2"]


def test_comments_above_a_sentence_are_no_words(write_file):
    """As of MultiCoNER, GermEval and OntoNotes."""
    text = ("#begin document (a)\n# id 1\tdomain=en\nEU B-ORG\n# O\n\n#\thttp://a [2009]\n#\tO\n"
            "x\tO\n\n#end document\n\n#hash O\n\n#hash tag\n")
    path, skipped = write_file("a.conll", text), []
    examples = read_examples(find_task("conll"), path, skipped=skipped)
    assert rows(examples) == [[("EU", "B-ORG"), ("#", "O")], [("#", "O"), ("x", "O")],
                              [("#hash", "O")]]
    assert examples[0].where == f"{path} line 3" and len(skipped) == 1
    assert not examples[0].group
    with pytest.raises(UsageError, match="words with their tags"):
        check_untagged(write_file("b.txt", "# id 1\nEU B-ORG\nx O\n"))


def test_words_of_tabs_may_hold_blanks(write_file):
    example, = read_task("conll", write_file("a.conll", "New York\tB-loc\n👍🏽\tO"))
    assert rows([example]) == [[("New York", "B-loc"), ("👍🏽", "O")]]
    assert example.group is None


def test_words_of_columns_may_hold_other_spaces(write_file):
    example, = read_task("conll", write_file("a.conll", "10\xa0000  B-sum \neuro\u2009s  I-sum"))
    assert rows([example]) == [[("10\xa0000", "B-sum"), ("euro\u2009s", "I-sum")]]


@pytest.mark.parametrize(("file", "count", "begins"), [
    ("train.conll", 3394, {"corporation": 221, "creative-work": 140, "group": 264,
                           "location": 548, "person": 660, "product": 142}),
    ("dev.conll", 1009, {"corporation": 34, "creative-work": 105, "group": 39, "location": 74,
                         "person": 470, "product": 114}),
])
def test_real_wnut(shared, file, count, begins):
    path = shared / "data/wnut17" / file
    examples = read_task("conll", str(path))
    assert len(examples) == count
    assert collections.Counter(tag[2:] for example in examples for tag in example.tags
                               if tag.startswith("B-")) == begins
    lines = [line.split("\t") for line in path.read_text("utf-8").split("\n") if line.strip()]
    assert [list(row) for example in rows(examples) for row in example] == lines


def test_klue(write_file):
    path = write_file("a.tsv", KLUE)
    examples = read_task("klue_ner", path)
    assert rows(examples) == [[("아", "B-PS"), ("이", "I-PS"), ("가", "O"), ("#", "O")],
                              [("1", "B-QT")]]
    assert [example.text for example in examples] == ["아 이가 #", "1"]
    assert {example.unit for example in examples} == {"character"}
    assert [example.id for example in examples] == ["klue-ner-v1_dev_00001-nsmc",
                                                    "klue-ner-v1_dev_00002-nsmc"]
    assert examples[0].where == f"{path} line 3"


@pytest.mark.parametrize(("tags", "expected"), [
    (("O", "B-PS", "I-PS"), ("O", "B-PS")), (("B-PS", "B-PS", "I-PS"), ("B-PS", "B-PS")),
    (("B-PS", "O", "I-PS"), ("B-PS", "B-PS")), (("B-PS", "I-PS", "O"), ("B-PS", "O")),
])
def test_blanks_of_klue_with_tags_of_their_own(write_file, tags, expected):
    path = write_file("a.tsv", "".join(f"{character}\t{tag}\n" for character, tag
                                       in zip("가 나", tags, strict=True)))
    example, = read_task("klue_ner", path)
    assert (example.tags, example.spaces) == (expected, (True, False))


def test_real_klue(shared):
    path = shared / "data/klue/ner_a.tsv"
    examples = read_task("klue_ner", str(path))
    assert len(examples) == 4000
    lines = [line.split("\t") for line in path.read_text("utf-8").split("\n")
             if line.strip() and not line.startswith("##")]
    assert "".join(example.text for example in examples) == "".join(line[0] for line in lines)
    of_file = [line for line in lines if line[0] != " "]
    characters = [row for example in rows(examples) for row in example]
    assert [row[0] for row in characters] == [line[0] for line in of_file]
    # Two entities begin with a blank.
    assert sum(row != tuple(line) for row, line in zip(characters, of_file, strict=True)) == 2
    assert collections.Counter(tag for _, tag in characters if tag.startswith("B-")) == {
        "B-PS": 3587, "B-QT": 2511, "B-DT": 1839, "B-OG": 1738, "B-LC": 1346, "B-TI": 438}


@pytest.mark.parametrize(("file", "text", "expected", "shown"), [
    ("a.tsv", "text\ttags\nIn New York\tO B-l I-l\n",
     [("In", "O"), ("New", "B-l"), ("York", "I-l")], "In New York"),
    ("a.csv", 'text,tags\n"In  it, now",O O O\n',
     [("In", "O"), ("it,", "O"), ("now", "O")], "In  it, now"),
    ("a.jsonl", {"text": ["New York", "!"], "tags": ["B-l", "O"]},
     [("New York", "B-l"), ("!", "O")], "New York !"),
    ("a.jsonl", {"text": "가 나", "tags": ["B-l", "I-l", "I-l"]},
     [("가", "B-l"), ("나", "I-l")], "가 나"),
    ("a.json", [{"text": "가나", "tags": "B-l O"}], [("가", "B-l"), ("나", "O")], "가나"),
])
def test_own_tables(write_file, file, text, expected, shown):
    text = text if isinstance(text, str) else json.dumps(text)
    example, = read_task("tag", write_file(file, text))
    assert rows([example]) == [expected]
    assert example.text == shown
    assert (example.unit == "character") == all(len(word) == 1 for word in example.words)


def test_own_columns(write_file):
    path = write_file("a.tsv", "x1\ta b\tO B-p\n")
    example, = read_task("tag", path, {"id": 0, "text": 1, "label": 2})
    assert (example.id, example.tags) == ("x1", ("O", "B-p"))


def test_entities_in_place_of_tags(write_file):
    text = " Ann  Lee이 👍Rome"
    entities = [{"start": 12, "end": 16, "label": "L", "text": "Rome"},
                {"start": 1, "end": 9, "label": "full name", "score": 0.5},
                {"start": 11, "end": 12, "label": "L"}]
    sloppy = [{"start": 0, "end": 2, "label": "L"}]
    path = write_file("a.json", json.dumps([{"text": text, "spans": spans} for text, spans in (
        ("none", []), (text, entities), ("a b", sloppy))]))
    none, example, blank = read_task("tag", path, {"label": "spans"})
    assert {each.unit for each in (none, example, blank)} == {"character"}
    assert (none.tags, blank.tags) == (("O",) * 4, ("B-L", "O"))
    assert example.text == text
    assert example.tags == ("B-full name", *["I-full name"] * 5, "O", "B-L", "B-L", *["I-L"] * 3)


@pytest.mark.parametrize(("entity", "message"), [
    ({"start": 2, "end": 4}, "line 2: entity 'c ' at 2 to 4 overlaps another one; expected a char"),
    ({"start": 3, "end": 6}, "line 2: entity P at 3 to 6 of a text of 5 characters; expected both"),
    ({"start": -1, "end": 1}, "line 2: entity P at -1 to 1 of a text of 5"),
    ({"start": 0, "end": -1}, "line 2: entity P at 0 to -1 of a text of 5"),
    ({"start": 4, "end": 4}, "line 2: entity P at 4 to 4 is empty; expected the end exclusive"),
    ({"start": 3, "end": 4}, "line 2: entity P at 3 to 4 is empty"),
    ({"start": 4, "end": 5, "text": "d"}, "at 4 to 5 is 'e' there and 'd' in its object; expected"),
    ({"start": 4, "end": 5.0}, "line 2: entity .*5.0}; expected {.start.: 0, .end.: 3, .label"),
    ({"end": 5}, "line 2: entity {'label'"), ("B-P", "line 2: entity B-P; expected {"),
    ({"start": 4, "end": 5, "label": None}, "line 2: NoneType as label of an entity"),
])
def test_a_wrong_entity_is_refused_with_its_row(write_file, entity, message):
    right = {"start": 0, "end": 3, "label": "P"}
    wrong = {"label": "P", **entity} if isinstance(entity, dict) else entity
    path = write_file("a.jsonl", "\n".join(json.dumps({"text": "abc e", "tags": row})
                                           for row in ([right], [right, wrong])))
    with pytest.raises(BertTfError, match=message):
        read_task("tag", path)


@pytest.mark.parametrize(("task", "file", "text", "message"), [
    ("conll", "a.conll", "a O\nb\n", "line 2: one column; expected a word and, in the last"),
    ("conll", "a.conll", "a O\nb\tS-PER\n", "line 2: tag 'S-PER'; expected O, B-type or I-type"),
    ("conll", "a.conll", "a NN\n", "line 1: tag 'NN'"),
    ("conll", "a.conll", "a O\n \tO\n", "line 2: empty word"),
    ("conll", "a.conll", "a O\nb\0 O\n", "line 2: a NUL character in the word"),
    ("klue_ner", "a.tsv", "가\tO\n나다\tO\n", "line 2: '나다.*'; expected a character, a tab"),
    ("klue_ner", "a.tsv", "가 O\n", "line 1: '가 O'"),
    ("klue_ner", "a.tsv", "가\tPS\n", "line 1: tag 'PS'"),
    ("klue_ner", "a.tsv", "가\tB-XX\n", "line 1: tag 'B-XX'; expected one of B-PS, I-PS"),
    ("klue_ner", "a.tsv", " \tO\n", "line 1: blanks only"),
    ("tag", "a.tsv", "text\ttags\na b\tO\n",
     "line 2: 1 tags for 2 words or 3 characters; expected one for each"),
    ("tag", "a.tsv", "text\ttags\na b\tO O O O\n", "line 2: 4 tags for 2 words or 3 char"),
    ("tag", "a.tsv", "text\ttags\na\tO\nab c\tO O\nab\tO O\n", "line 4: 2 tags for 1 words; "),
    ("tag", "a.tsv", "text\ttags\nab\tO O\nab c\tO O\n", "line 3: 2 tags for 4 characters; "),
    ("tag", "a.tsv", "text\ttags\na b\tO X\n", "line 2: tag 'X'"),
    ("tag", "a.tsv", "text\ttags\n \tO\n", "line 2: empty text"),
    ("tag", "a.tsv", "word\ttag\na\tO\n", "line 1: no column 'text'"),
    ("tag", "a.jsonl", '{"text": ["a", ""], "tags": ["O", "O"]}', "line 1: empty word"),
    ("tag", "a.jsonl", '{"text": ["a", 1], "tags": ["O", "O"]}', "line 1: int as word"),
    ("tag", "a.jsonl", '{"text": [], "tags": []}', "line 1: no words"),
    ("tag", "a.jsonl", '{"text": ["a"], "tags": ["O", "O"]}', "line 1: 2 tags for 1 words"),
    ("tag", "a.jsonl", '{"text": "a", "tags": [1]}', "line 1: tag '1'"),
    ("tag", "a.jsonl", '{"text": "a", "tags": {}}', "line 1: dict as tags"),
    ("tag", "a.jsonl", '{"text": "a", "tags": [[0, 1, "P"]]}',
     "line 1: tag .*; expected O, B-type or I-type; try entities such as {"),
    ("tag", "a.jsonl", '{"text": ["a"], "tags": [{"start": 0, "end": 1, "label": "P"}]}',
     "line 1: list as text of entities"),
    ("tag", "a.json", '[{"text": "a", "tags": [{"start": 0, "end": 1, "label": "P"}]}, '
     '{"text": "a", "tags": "O"}]', "item 2: str as entities; expected a list"),
    ("tag", "a.json", '[{"text": "a b", "tags": "O O"}, {"text": "a b", "tags": []}]',
     "item 2: 0 tags for 2 words; expected one"),
])
def test_a_wrong_file_is_refused_with_its_line(write_file, task, file, text, message):
    with pytest.raises(BertTfError, match=message):
        read_task(task, write_file(file, text))


def test_wrong_sentences_are_counted_and_left_out_whole(write_file):
    left_out = []
    path = write_file("a.conll", "a O\nb\n\nc B-x\n\nd NN\ne O\n")
    examples = read_task("conll", path, skipped=left_out)
    assert [example.words for example in examples] == [("c",)]
    assert [str(error).split(";")[0] for error in left_out] == [
        f"{path} line 2: one column", f"{path} line 6: tag 'NN'"]


def test_a_sentence_of_100_000_characters(write_file):
    path = write_file("a.tsv", "가\tB-PS\n" * 100_000)
    assert len(read_task("klue_ner", path)[0].text) == 100_000


@pytest.mark.parametrize(("name", "text", "tagged"), [
    ("a.txt", CONLL_2003, True), ("a.txt.gz", KLUE, True), ("a.conll", "", True),
    ("a.txt", "Blood type O\n", False), ("a.txt", "vitamin B-12\nand then\n", False),
    ("a.tsv", "Ann\tB-PER\nis\tO\n", False), ("a.tsv", KLUE, True), ("a.tsv", "", False)])
def test_tagged_words_are_known_where_texts_are_expected(write_file, name, text, tagged):
    expected = pytest.raises(UsageError, match="words with their tags; expected a text a line")
    with expected if tagged else contextlib.nullcontext():
        check_untagged(write_file(name, text))

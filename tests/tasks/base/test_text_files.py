"""Texts with labels: the files of the tasks as published, own tables, and what is refused."""

import collections
import json
import unicodedata

import pytest

from bert_tf.data.table_form import TableForm
from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.base.read_examples import read_examples
from bert_tf.tasks.registry import find_task, read_task

# The header and a row of each GLUE file, and what is read of it.
GLUE = {
    "cola": ("", "gj04\t0\t*\tMany of \"them\".", ('Many of "them".', None, "0")),
    "mrpc": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t7\t8\t"A" b\tC "d',
             ('"A" b', 'C "d', "1")),
    "sst2": ("sentence\tlabel", "a gem \t1", ("a gem ", None, "1")),
    "stsb": ("index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\t"
             "score",
             "4\tmain\tMSR\t2012\t1\tnone\tnone\tA.\tB.\t4.25", ("A.", "B.", 4.25)),
    "qqp": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "5\t1\t2\tA?\tB?\t0",
            ("A?", "B?", "0")),
    "mnli": ("index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
             "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
             "0\t31193\t31193n\tslate\t( A )\t( B )\t(A)\t(B)\tA.\tB.\tneutral\tneutral",
             ("A.", "B.", "neutral")),
    "qnli": ("index\tquestion\tsentence\tlabel", "0\tA?\tB.\tnot_entailment",
             ("A?", "B.", "not_entailment")),
    "rte": ("index\tsentence1\tsentence2\tlabel", "0\tA.\tB.\tentailment",
            ("A.", "B.", "entailment")),
    "wnli": ("index\tsentence1\tsentence2\tlabel", "0\tA.\tB.\t1", ("A.", "B.", "1")),
}
NSMC = "id\tdocument\tlabel\n"
TABLE = "text\tlabel\n"


def summary(examples):
    return [(example.text_a, example.text_b, example.label) for example in examples]


@pytest.mark.parametrize("name", GLUE)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_glue(write_file, name, ending):
    header, row, expected = GLUE[name]
    lines = ([header] if header else []) + [row]
    path = write_file("a.tsv", "\ufeff" + "".join(line + ending for line in lines))
    examples = read_task(name, path)
    assert summary(examples) == [expected]
    assert examples[0].where == f"{path} line {len(lines)}"
    assert find_task(name).pair == (expected[1] is not None)


def test_labels_are_composed(write_file):
    """긍정 and 긍정 in jamo, as macOS names files, are one label."""
    rows = "".join(f"a\t{unicodedata.normalize(form, '긍정')}\n" for form in ("NFC", "NFD"))
    examples = read_task("classify", write_file("a.tsv", TABLE + rows))
    assert {example.label for example in examples} == {unicodedata.normalize("NFC", "긍정")}


def test_mnli_mismatched_has_more_labels(write_file):
    header, row, expected = GLUE["mnli"]
    header = header.replace("\tgold_label", "\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label")
    row = row.removesuffix("\tneutral") + "\tneutral" * 4 + "\tneutral"
    assert summary(read_task("mnli", write_file("a.tsv", f"{header}\n{row}\n"))) == [expected]


@pytest.mark.parametrize(("name", "file", "counts", "first", "last"), [
    ("cola", "cola/in_domain_train.tsv", {"0": 2528, "1": 6023},
     "Our friends won't buy this analysis, let alone the next one we propose.",
     "What all did you get for Christmas?"),
    ("cola", "cola/in_domain_dev.tsv", {"0": 162, "1": 365},
     "The sailors rode the breeze clear of the rocks.", "Anson became a muscle bound."),
    ("mrpc", "mrpc/msr_paraphrase_train.txt", {"0": 1323, "1": 2753},
     'Amrozi accused his brother, whom he called "the witness", of deliberately distorting his '
     "evidence.", "The 30-year bond US30YT=RR rose 22/32 for a yield of 4.31 percent, versus 4.35 "
     "percent at Wednesday's close."),
    ("nsmc", "nsmc/ratings_dev.txt.gz", {"0": 12500, "1": 12500}, "1보다 못한, 없느니만 못한...",
     "쿵푸와 힙합으로 영화 만든다면? 10초내 떠오르는 줄거리 그대로 제작된 허접영화."),
    ("klue_nli", "klue/nli_a.json", {"contradiction": 801, "neutral": 800, "entailment": 799},
     "흡연자분들은 발코니가 있는 방이면 발코니에서 흡연이 가능합니다.",
     "중국의 경우, 아프리카 대륙의 많은 국가들이 중국의 자본에 의지하기 때문에 오콘조이웨알라 "
     "후보를 지지한다는 의견이 나왔다."),
])
def test_real_files(shared, name, file, counts, first, last):
    examples = read_task(name, str(shared / "data" / file))
    assert collections.Counter(example.label for example in examples) == counts
    assert (examples[0].text_a, examples[-1].text_a) == (first, last)


def test_real_polarity(shared):
    examples = read_task("polarity", str(shared / "data/polarity/reviews_a.tsv.gz"))
    assert collections.Counter(example.label for example in examples) == {"0": 797, "1": 792}
    assert sum(len(example.text_a.split()) for example in examples) / len(examples) > 700


def test_real_klue_sts(shared):
    path = shared / "data/klue/sts_a.json"
    examples = read_task("klue_sts", str(path))
    items = json.loads(path.read_text("utf-8"))
    assert summary(examples) == [(item["sentence1"], item["sentence2"],
                                  item["labels"]["real-label"]) for item in items]
    assert examples[0].id == "klue-sts-v1_dev_00000"


@pytest.mark.parametrize(("name", "text", "columns", "expected"), [
    ("classify", "text\tlabel\ngood\tpos\n", None, ("good", None, "pos")),
    ("classify", "good\t x \tpos\n", {"text": 0, "label": 2}, ("good", None, "pos")),
    ("classify", "a\tb\tc\n1\t2\t3\n", {"text": "a", "text_b": "b", "label": "c"}, ("1", "2", "3")),
    ("pair", "text_a\ttext_b\tlabel\n1\t2\tx\n", {"label": None}, ("1", "2", "x")),
    ("regress", "text\tlabel\n1\t-2.5e1\n", None, ("1", None, -25.0)),
])
def test_own_tables(write_file, name, text, columns, expected):
    assert summary(read_task(name, write_file("a.tsv", text), columns)) == [expected]


@pytest.mark.parametrize(("row", "expected"), [
    ({"text": "a", "label": 1}, "1"), ({"text": "a", "label": True}, "true"),
    ({"text": "a", "label": " x y "}, "x y"),
])
def test_labels_of_json(write_file, row, expected):
    assert read_task("classify", write_file("a.jsonl", json.dumps(row)))[0].label == expected


@pytest.mark.parametrize(("file", "text", "separator", "expected"), [
    ("a.tsv", TABLE + "t\tb, a,,b\nu\t\n", None, [("b", "a"), ()]),
    ("a.tsv", TABLE + "t\tb,c|a\n", "|", [("b,c", "a")]),
    ("a.csv", 'text,label\nt,"b,a"\n', None, [("b", "a")]),
    ("a.jsonl", '{"text": "t", "label": ["b,c", "a"]}\n{"text": "u", "label": []}\n', None,
     [("b,c", "a"), ()]),
])
def test_several_labels(write_file, file, text, separator, expected):
    found = find_task("classify", multi_label=True)
    columns = {"separator": separator} if separator else None
    examples = read_examples(found, write_file(file, text), columns)
    assert [example.label for example in examples] == expected


@pytest.mark.parametrize("text", [
    "👩‍👩‍👧 ok 👍🏽", "שלום עולם‏ مرحبا", "x" * 100_000, "가" * 100_000,
    "a\x0bb\u2028c\u0085d", "𐍈 e\u0301",
])
@pytest.mark.parametrize("file", ["a.tsv", "a.jsonl"])
def test_any_text_is_kept_as_it_is(write_file, text, file):
    table = TABLE + text + "\t1\n" if file == "a.tsv" else json.dumps({"text": text, "label": 1})
    assert read_task("classify", write_file(file, table))[0].text_a == text


@pytest.mark.parametrize(("name", "text", "message"), [
    ("nsmc", NSMC + "1\tgood\t2\n", "line 2: label='2' is unknown; expected one of 0, 1"),
    ("rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailmnt\n",
     "line 2: .*try label='entailment'"),
    ("stsb", f"{GLUE['stsb'][0]}\n{GLUE['stsb'][1]}1\n" + GLUE["stsb"][1] + "\n",
     r"line 3: id '4' again, first in .* line 2"),
    ("stsb", f"{GLUE['stsb'][0]}\n{GLUE['stsb'][1].replace('4.25', '5.5')}\n",
     "line 2: label 5.5; expected 0 to 5"),
    ("classify", TABLE + "a\tx\n \tx\n", "line 3: empty text; try removing the row"),
    ("classify", TABLE + "a\t \n", "line 2: empty label"),
    ("classify", TABLE + "a\0b\tx\n", "line 2: a NUL character in the text"),
    ("regress", TABLE + "a\tnan\n", "line 2: label 'nan'; expected a finite number"),
    ("regress", TABLE + "a\thigh\n", "line 2: label 'high'"),
    ("regress", TABLE + "a\t1e999\n", "line 2: label '1e999'"),
    ("cola", "index\tsentence\n0\ta\n", "line 1: no column '3' among 2 columns"),
    ("sst2", "text\tlabel\na\t1\n", "line 1: no column 'sentence' among text, label; try --task "
     "classify with --text_column and --label_column$"),
    ("mrpc", "a\tb\n", "try --task pair with --text_column, --text_b_column and --label_column$"),
    ("stsb", "a\tb\n", "; try --task regress with --text_column, --text_b_column and --label_"),
])
def test_a_wrong_file_is_refused_with_its_line(write_file, name, text, message):
    with pytest.raises(BertTfError, match=message):
        read_task(name, write_file("a.tsv", text))


@pytest.mark.parametrize(("row", "message"), [
    ({"text": 1, "label": "x"}, "line 1: int as text; expected a string"),
    ({"text": "a", "label": None}, "line 1: NoneType as label"),
    ({"text": "a", "label": 1.5}, "line 1: float as label"),
    ({"text": "\ud83d", "label": "x"}, "line 1: half a surrogate pair in the text"),
    ({"text": "a\0", "label": "x"}, "line 1: a NUL character"),
])
def test_wrong_values_of_json_are_refused(write_file, row, message):
    with pytest.raises(BertTfError, match=message):
        read_task("classify", write_file("a.jsonl", json.dumps(row)))


def test_fields_of_a_named_task_that_no_object_has_are_those_of_another_task(write_file):
    row = json.dumps({"text": "a", "label": 1}) + "\n"
    with pytest.raises(BertTfError, match="line 1: no field 'document' among text, label; try "
                                          "--task classify with --text_column and --label_column$"):
        read_task("nsmc", write_file("a.jsonl", row * 2))


def test_wrong_numbers_of_json_are_refused(write_file):
    for value in ("NaN", "true", "[1]", "null"):
        with pytest.raises(BertTfError, match="line 1: label .*; expected a finite number"):
            read_task("regress", write_file("a.jsonl", f'{{"text": "a", "label": {value}}}'))


def test_wrong_lists_of_labels_are_refused(write_file):
    path = write_file("a.jsonl", '{"text": "a", "label": 1}')
    with pytest.raises(BertTfError, match="line 1: int as labels"):
        read_examples(find_task("classify", multi_label=True), path)


@pytest.mark.parametrize(("several", "given", "label", "probabilities"), [
    (False, {"no": 0.25, "yes": 0.75}, "yes", {"no": 0.25, "yes": 0.75}),
    (False, {" no ": 3, "yes": 1, "maybe": 0}, "no", {"no": 0.75, "yes": 0.25, "maybe": 0.0}),
    (False, {"no": None, "yes": 0.5}, "yes", {"no": 0.0, "yes": 1.0}),
    (True, {"x": 0.5, "y": 1, "z": 0.1}, ("x", "y"), {"x": 0.5, "y": 1.0, "z": 0.1}),
    (True, {"x": 0.4}, (), {"x": 0.4}),
])
def test_soft_labels(write_file, several, given, label, probabilities):
    """Votes are divided by their sum; of several labels each has its own probability."""
    path = write_file("a.jsonl", json.dumps({"text": "t", "label": given}))
    [example] = read_examples(find_task("classify", multi_label=several), path)
    assert (example.label, example.probabilities) == (label, probabilities)


@pytest.mark.parametrize(("several", "given", "message"), [
    (False, {}, "soft label {}; expected a probability for each name"),
    (False, {"x": 0, "y": 0.0}, "soft label"),
    (False, {"x": 1.5, "y": -0.5}, "soft label"),
    (False, {"x": 1e308, "y": 1e308}, "soft label"),
    (False, {"x": 0.5, " x": 0.5}, "soft label"),
    (True, {"x": 1.5}, "soft label"),
    (False, {"x": True, "y": 0}, "label True; expected a finite number"),
    (True, {"x": "likely"}, "label 'likely'; expected a finite number"),
    (False, {" ": 1}, "empty label"),
])
def test_wrong_soft_labels_are_refused(write_file, several, given, message):
    path = write_file("a.jsonl", json.dumps({"text": "t", "label": given}))
    with pytest.raises(BertTfError, match=f"line 1: {message}"):
        read_examples(find_task("classify", multi_label=several), path)


def test_soft_labels_have_the_names_of_the_task(write_file):
    row = {"id": "1", "document": "t", "label": {"0": 0.1, "2": 0.9}}
    with pytest.raises(BertTfError, match="line 1: label='2' is unknown; expected one of 0, 1"):
        read_task("nsmc", write_file("a.jsonl", json.dumps(row)))


def test_broken_rows_of_published_files_are_left_out_and_counted(write_file, capsys):
    path = write_file("a.txt", NSMC + "1\tgood\t1\n2\t\t0\n3\tcut\n4\tbad\t0\n")
    assert [example.id for example in read_task("nsmc", path)] == ["1", "4"]
    assert capsys.readouterr().err == (
        f"{path}: 2 of 4 examples skipped; the first: {path} line 3: empty text; try removing the "
        "row\n")


@pytest.mark.parametrize(("rows", "first"), [
    (["review,stars", "fine,5", "dull,1"], "fine"),  # a word among numbers
    (["review,stars", "fine,5", "review,stars", "dull,1"], "fine"),
    (["0,1", "fine,1", "dull,0"], "fine"),  # the numbers themselves
    (["fine,pos", "dull,neg", "great,pos"], "fine"),
    (["fine,3", "dull,1", "great,2"], "fine"),
])
def test_a_header_over_columns_by_number_is_told(write_file, rows, first, capsys):
    path = write_file("a.csv", "\n".join(rows) + "\n")
    examples = read_task("classify", path, {"text": 0, "label": 1}, skipped=[])
    assert examples[0].text_a == first
    said = "the first row is read as a header, with the names " + ", ".join(
        map(repr, rows[0].split(","))) + "; --no-header if it is an example"
    assert (said in capsys.readouterr().err) == (not rows[0].startswith(first))
    assert {example.label for example in examples}.isdisjoint({"stars"})


def test_a_header_that_cannot_be_told_is_asked_for(write_file):
    path = write_file("a.csv", "review,verdict\nfine,pos\ndull,neg\ngreat,pos\n")
    columns = {"text": 0, "label": 1}
    with pytest.raises(UsageError, match="line 1: the label 'verdict' is in no other row: .*; "
                                         "try --header or --no-header"):
        read_task("classify", path, columns)
    for header, count in ((True, 3), (False, 4)):
        assert len(read_task("classify", path, columns, TableForm(header=header))) == count


def test_all_wrong_rows_are_counted_and_the_first_named(write_file, capsys):
    rows = ["a\tx", "", "b", *["\tx"] * 7, "c\tx", "text\tlabel", "d\ty"]
    path = write_file("a.tsv", TABLE + "\n".join(rows) + "\n")
    with pytest.raises(BertTfError) as raised:
        read_task("classify", path)
    lines = str(raised.value).split("\n  ")
    assert lines[0] == (f"{path}: 9 of 12 examples are invalid; try correcting them, or "
                        "--skip_bad_rows")
    assert lines[1].startswith(f"{path} line 4: 1 columns") and len(lines) == 7
    assert lines[2].startswith(f"{path} line 5: empty text") and lines[-1] == "and 4 more"
    left_out = []
    examples = read_task("classify", path, skipped=left_out)
    assert [example.text_a for example in examples] == ["a", "c", "d"] and len(left_out) == 9
    assert f"{path}: 9 of 12 examples skipped; the first: " in capsys.readouterr().err
    with pytest.raises(BertTfError, match="empty text"):
        read_task("classify", write_file("b.tsv", TABLE + "\tx\n"), skipped=[])


def test_korean_windows_files_are_told_by_their_encoding(write_file):
    path = write_file("a.tsv", "text\tlabel\n정말 재미있는 영화였다\t긍정\n".encode("cp949"))
    with pytest.raises(BertTfError, match="line 2: byte 0xc1 at column 1 is not UTF-8, but may be "
                                          "CP949; try .* iconv -f CP949 .*, or --encoding CP949"):
        read_task("classify", path)
    examples = read_task("classify", path, form=TableForm(encoding="cp949"))
    assert summary(examples) == [("정말 재미있는 영화였다", None, "긍정")]
    path = write_file("b.tsv", "text\tlabel\nété à côté, déjà vu\tpos\n".encode("cp1252"))
    with pytest.raises(BertTfError, match="line 2: byte 0xe9 .* UTF-8; .*or --encoding NAME"):
        read_task("classify", path)

"""Rankings and Spearman's correlation: against SciPy on cosines of single sentences."""

import html.parser
import json

import numpy as np
import pytest
from scipy import stats
from tiny_encoder import CONFIG, SENTENCES, cosine, encoder, save, sentence_vectors, tokenizer

from bert_tf import cli, visualize
from bert_tf.data.term_weights import learn_term_weights
from bert_tf.errors import BertTfError
from bert_tf.tasks.base.examples import TextExample
from bert_tf.visualization.ranking import compare_poolings, rank, write_ranking_page
from bert_tf.visualization.vectors import choices, embed

PAIRS = [("The river bank.", "the river, the tree", 3.2), ("bank rates", "money", 4.1),
         ("walking", "walks", 4.8), ("은행에서 돈", "the bank", 2.0), ("the rate", "나무", 0.2),
         ("tree, tree", "the tree", 4.9), ("money", "the river", 0.5)]


class Cells(html.parser.HTMLParser):
    """Text of the cells of every table row, and all tags."""

    def __init__(self, path):
        super().__init__()
        self.rows, self.tags, self.titles, self.in_cell = [], [], [], False
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.titles += [value for name, value in attributes if name == "title"]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        self.in_cell &= tag not in ("td", "th")

    def handle_data(self, data):
        if self.in_cell:
            self.rows[-1][-1] += data


def test_ranks_are_those_of_single_sentences():
    query = "walks, walks the river"
    wanted = choices(CONFIG, layers=[0, -1])
    ranked = rank(encoder(), tokenizer(), query, SENTENCES, wanted)
    expected = sentence_vectors([query, *SENTENCES])
    assert [(each["pooling"], each["layer"]) for each in ranked] == wanted
    for each in ranked:
        first, *others = expected[each["pooling"], each["layer"]]
        cosines = [cosine(first, other) for other in others]
        np.testing.assert_allclose(each["cosines"], cosines, atol=2e-5)
        assert (np.diff(each["cosines"][each["order"]]) <= 0).all()
        assert sorted(each["order"]) == list(range(len(SENTENCES)))


def test_spearman_is_that_of_the_cosines_of_single_sentences():
    texts = [text for pair in PAIRS for text in pair[:2]]
    pairs = [TextExample(str(number), *pair) for number, pair in enumerate(PAIRS)]
    scores = compare_poolings(encoder(), tokenizer(), pairs, choices(CONFIG))
    expected = sentence_vectors(texts)
    assert len(scores) == len(expected)
    for score in scores:
        vectors = expected[score["pooling"], score["layer"]]
        cosines = [cosine(*vectors[place:place + 2]) for place in range(0, len(texts), 2)]
        gold = [pair[2] for pair in PAIRS]
        if np.ptp(cosines) < 1e-5:  # [CLS] before the first layer is the same everywhere
            assert score["spearman"] == 0
        else:
            assert score["spearman"] == pytest.approx(stats.spearmanr(gold, cosines).statistic)
    told = [score["spearman"] for score in scores]
    assert told == sorted(told, reverse=True) and len(set(told)) > 5


def test_labels_that_are_all_the_same_compare_nothing():
    pairs = [TextExample(str(number), *pair[:2], 1.0) for number, pair in enumerate(PAIRS)]
    with pytest.raises(BertTfError, match="7 pairs, all with the label 1.0"):
        compare_poolings(encoder(), tokenizer(), pairs, choices(CONFIG, layers=[0]))


def test_weights_are_those_of_the_corpus():
    corpus = learn_term_weights(["the the", "the bank", "the river"], tokenizer())
    wanted = ("mean_idf", 2)
    found = embed(encoder(), tokenizer(), SENTENCES, [wanted], weights=corpus)[wanted]
    assert np.abs(found - sentence_vectors(SENTENCES)[wanted]).max() > 0.01


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(tmp_path_factory.mktemp("model"))


def test_page(model, tmp_path, capsys):
    evil = "bank <script>alert(1)</script> & \"bank\""
    (tmp_path / "sentences.txt").write_text("\n".join([*SENTENCES, evil]))
    (tmp_path / "pairs.tsv").write_text("one\ttwo\tscore\n" + "".join(
        f"{left}\t{right}\t{score}\n" for left, right, score in PAIRS))
    command = ["ranking", "--model", model, "--query", "<script>bank", "--input",
               str(tmp_path / "sentences.txt"), "--pairs", str(tmp_path / "pairs.tsv"),
               "--text_column", "one", "--text_b_column", "two", "--label_column", "score",
               "--layers", "-1", "--poolings", "mean", "cls_pooled", "mean_bm25", "--output"]
    for name in ("a.html", "a.json"):
        assert cli.run(visualize.main, [*command, str(tmp_path / name)]) == 0
    written = json.loads((tmp_path / "a.json").read_text())
    scores, rankings = written["poolings"], written["rankings"]
    assert written["num_pairs"] == len(PAIRS) and written["sentences"][-1] == evil
    page = Cells(tmp_path / "a.html")
    assert "script" not in page.tags and "link" not in page.tags and "img" not in page.tags
    _, best, *_, header = page.rows[:len(scores) + 2]
    assert best == ["1", scores[0]["pooling"], "layer 2", f"{scores[0]['spearman']:.3f}",
                    f"{scores[0]['pearson']:.3f}", "best"]
    # Columns follow the table, rows the best pooling.
    assert header == ["sentence", *(f"{score['pooling']}layer 2" for score in scores)]
    columns = [next(each for each in rankings if each["pooling"] == score["pooling"])
               for score in scores]
    assert page.rows[len(scores) + 2:] == [
        [written["sentences"][number], *(str(each["order"].index(number) + 1) for each in columns)]
        for number in columns[0]["order"]]
    number = columns[0]["order"][0]
    assert page.titles[:3] == [f"cosine {each['cosines'][number]:.4f}" for each in columns]
    printed = capsys.readouterr().out
    assert f"  {scores[0]['spearman']:.3f}  {scores[0]['pooling']} of layer 2" in printed

    for each in rankings:
        each.update(cosines=np.array(each["cosines"]), order=np.array(each["order"]))
    write_ranking_page(str(tmp_path / "b.html"), "", written["sentences"], rankings, scores, [],
                       top=1)
    shown = Cells(tmp_path / "b.html").rows[len(scores) + 2:]
    assert {row[0] for row in shown} == {written["sentences"][each["order"][0]]
                                         for each in rankings}


@pytest.mark.long  # that the tasks' files are read: tests/tasks
def test_klue_sts(model, shared, tmp_path):
    output = tmp_path / "a.json"
    assert cli.run(visualize.main, [
        "ranking", "--model", model, "--task", "klue_sts", "--poolings", "mean", "mean_idf",
        "--pairs", str(shared / "data" / "klue" / "sts_a.json"), "--output", str(output)]) == 0
    written = json.loads(output.read_text())
    assert written["num_pairs"] == 415 and len(written["poolings"]) == 4


@pytest.mark.parametrize(("flags", "message"), [
    ([], "nothing to rank; expected --query with --input, or --pairs"),
    (["--query", "a"], "one of --query and --input"),
    (["--query", "a", "--input", "a.txt", "--text_column", "t"], "--text_column without --pairs"),
    (["--pairs", "p.json", "--task", "sts"], "invalid choice: 'sts'"),
    (["--pairs", "p.json", "--task", "stsb", "--label_column", "a"], "have fixed columns"),
])
def test_errors(model, flags, message, tmp_path, capsys):
    command = ["ranking", "--model", model, "--output", str(tmp_path / "a.html"), *flags]
    assert cli.run(visualize.main, command) == 2
    assert message in capsys.readouterr().err

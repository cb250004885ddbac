"""Pages of docs/: the command line is that of the parsers, names are those of the code."""

import importlib.util
import pathlib
import re
import types

import pytest
import yaml

import bert_tf
from bert_tf import cli

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml; Python objects named in it stay names."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, name, node: name)


def _module(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _pages(nav):
    for entry in nav:
        for value in entry.values():
            yield from _pages(value) if isinstance(value, list) else [value]


def test_the_page_of_the_command_line_is_what_the_parsers_say(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    page = _module("command_line").page()
    assert (DOCS / "command_line.md").read_text() == page, "try `make docs`"
    assert re.findall(r"^## (\w+)$", page, flags=re.M) == list(cli.COMMANDS)


def test_commands_of_several_lines_can_be_copied():
    page = (DOCS / "command_line.md").read_text()
    wrong = r"^    python.*[^\\\n]\n     +-.*|^    python.*\S {2,}\S.*"
    assert re.findall(wrong, page, flags=re.M) == []


def test_what_has_nothing_by_default_shows_no_default():
    assert re.findall(r"\(default: (?:\(\))?\)", (DOCS / "command_line.md").read_text()) == []


def test_every_flag_of_a_command_is_in_its_table():
    module = _module("command_line")
    parser = module.find_parser("pretrain")
    table = "\n".join(module.table(parser))
    flags = [flag for action in parser._actions for flag in action.option_strings]
    assert {"--train_steps", "--no-lower_case"} < set(flags)
    assert [flag for flag in flags if not re.search(rf"[` ]{flag}[,` ]", table)] == [
        "-h", "--help"]


def test_the_page_says_the_default_of_each_command():
    module = _module("command_line")
    found = {command: re.findall(r"--num_processes.*\(default: (.*)\)",
                                 "\n".join(module.table(module.find_parser(command))))
             for command in ("create_data", "predict")}
    assert found == {"create_data": ["the number of cores"], "predict": ["1"]}


def test_every_page_is_on_the_site_once():
    config = _Loader((ROOT / "mkdocs.yml").read_text()).get_single_data()
    pages = list(_pages(config["nav"]))
    assert len(set(pages)) == len(pages)
    assert {path.name for path in DOCS.glob("*.md")} <= set(pages)


@pytest.mark.parametrize("korean", [
    str(path.relative_to(ROOT)) for folder in (ROOT, DOCS, ROOT / "serving")
    for path in sorted(folder.glob("*.ko.md"))])
def test_korean_pages_have_the_code_of_the_english_ones(korean):
    def code(path):
        return re.findall(r"^```[\s\S]*?^```$|(?<=\n\n)(?:^    .*\n)+", path.read_text(),
                          flags=re.M)

    path = ROOT / korean
    blocks = code(path)
    assert blocks == code(path.with_name(path.name.replace(".ko.md", ".md")))
    assert blocks


def test_files_that_contributors_are_sent_to_exist():
    paths = re.findall(r"`((?:bert_tf|tests|benchmarks)/[^`]*)`",
                       (ROOT / "CONTRIBUTING.md").read_text())
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_glossary_names_what_keras_hub_has():
    folder, = importlib.util.find_spec("keras_hub").submodule_search_locations
    words = set()
    for path in pathlib.Path(folder).rglob("*.py"):
        words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    rows = [line.split(" | ") for line in (DOCS / "glossary.md").read_text().splitlines()]
    theirs = {name for row in rows if len(row) == 5 and "of Keras" not in row[3]
              for code in re.findall(r"`([^`]+)`", row[3]) for name in re.findall(r"\w+", code)}
    assert len(theirs) > 30
    assert theirs - words == set()


def test_the_reference_has_the_client_and_its_methods():
    place = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="api.md"))
    page = _module("hooks").on_page_markdown("", place, None, None)
    for name in ("Client", "AsyncClient", "RequestError", "Tls", "methods.Methods"):
        assert f"::: bert_tf.serving.client.{name}\n" in page


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_has_every_public_name(tmp_path):
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path)))
    page = (tmp_path / "api.html").read_text()
    modules = {name: importlib.import_module(module) for name, module in bert_tf.PUBLIC.items()}
    for name, module in modules.items():
        assert f'id="{module.__name__}.{name}"' in page, name

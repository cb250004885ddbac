"""Pages of docs/: the command line is that of the parsers, every page is on the site."""

import importlib.util
import pathlib
import re

import pytest
import yaml

import bert_tf
from bert_tf import cli

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml; Python objects named in it stay names."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, name, node: name)


def _command_line():
    spec = importlib.util.spec_from_file_location("command_line", DOCS / "command_line.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _pages(nav):
    for entry in nav:
        for value in entry.values():
            yield from _pages(value) if isinstance(value, list) else [value]


def test_the_page_of_the_command_line_is_what_the_parsers_say(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    page = _command_line().page()
    assert (DOCS / "command_line.md").read_text() == page, "try `make docs`"
    assert re.findall(r"^## (\w+)$", page, flags=re.M) == list(cli.COMMANDS)


def test_every_flag_of_a_command_is_in_its_table():
    module = _command_line()
    parser = module.find_parser("pretrain")
    table = "\n".join(module.table(parser))
    flags = [flag for action in parser._actions for flag in action.option_strings]
    assert {"--train_steps", "--no-lower_case"} < set(flags)
    assert [flag for flag in flags if not re.search(rf"[` ]{flag}[,` ]", table)] == [
        "-h", "--help"]


def test_every_page_is_on_the_site_once():
    config = _Loader((ROOT / "mkdocs.yml").read_text()).get_single_data()
    pages = list(_pages(config["nav"]))
    assert len(set(pages)) == len(pages)
    assert {path.name for path in DOCS.glob("*.md")} <= set(pages)


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_has_every_public_name(tmp_path):
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path)))
    page = (tmp_path / "api.html").read_text()
    modules = {name: importlib.import_module(module) for name, module in bert_tf._PUBLIC.items()}
    for name, module in modules.items():
        assert f'id="{module.__name__}.{name}"' in page, name

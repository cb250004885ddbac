"""What mkdocs asks while it builds the pages: the project's own pages, links, the API reference."""

import itertools
import logging
import os
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

import bert_tf
from bert_tf.serving import client
from bert_tf.serving.client.methods import Methods

_ROOT = pathlib.Path(__file__).resolve().parents[1]
# Pages of the site that stand elsewhere in the repository.
_PROJECT = {"index.md": "README.md", "serving.md": "serving/README.md",
            "serving.ko.md": "serving/README.ko.md", "deployment.md": "serving/DEPLOYMENT.md",
            "deployment.ko.md": "serving/DEPLOYMENT.ko.md",
            **{name: name for name in ("BUILD.md", "BUILD.ko.md", "CHANGELOG.md",
                                       "CONTRIBUTING.md", "SECURITY.md", "SECURITY.ko.md")}}
_PAGES = {path: name for name, path in _PROJECT.items()}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_log = logging.getLogger("mkdocs.plugins.bert_tf")


def on_files(files, config):
    """Add the pages that stand beside docs/."""
    for name, path in _PROJECT.items():
        files.append(File.generated(config, name, abs_src_path=str(_ROOT / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links to where their targets stand on the site, and write the API reference."""
    place = page.file.src_uri
    folder = posixpath.dirname(_PROJECT.get(place, f"docs/{place}"))
    markdown = _LINK.sub(lambda link: _relink(link, folder, place), markdown)
    return markdown + _reference() if place == "api.md" else markdown


def _relink(link, folder, place):
    """A link between files of the repository, as one between pages of the site."""
    text, path, anchor = link[1], link[2], link[3] or ""
    target = posixpath.normpath(posixpath.join(folder, path))
    if target.startswith("docs/"):
        return f"[{text}]({target.removeprefix('docs/')}{anchor})"
    if target in _PAGES:
        return f"[{text}]({_PAGES[target]}{anchor})"
    if not os.path.exists(_ROOT / target):
        _log.warning("%s: there is no %s", place, path)
    return text if text.startswith("`") else f"{text} (`{target}`)"


def _reference():
    """A directive of mkdocstrings for every public name, the client's too, by module."""
    lines = []
    names = {**dict.fromkeys(client.__all__, client.__name__), "Methods": Methods.__module__,
             **bert_tf.PUBLIC}
    names = sorted(names.items(), key=lambda item: item[1])
    for module, items in itertools.groupby(names, key=lambda item: item[1]):
        lines += ["", f"## {module}", ""]
        lines += [f"::: {module}.{name}\n" for name, _ in items]
    return "\n".join(lines)

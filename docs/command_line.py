"""Write command_line.md, the page of all commands and flags, from the commands' own parsers.

    python docs/command_line.py

Flags come from the parser that each command's `main` builds, so that the page says what `--help`
does, whatever the width of a terminal.
"""

import argparse
import importlib
import pathlib
import re
from unittest import mock

from bert_tf import cli, index, visualize
from bert_tf.options import FORMER_NAMES
from bert_tf.storage import files

PAGE = pathlib.Path(__file__).with_suffix(".md")
# Defaults that differ from machine to machine, by command and flag.
_BY_MACHINE = {("serve", "grpc_max_threads"): "four for each core",
               **{(command, "num_processes"): "the number of cores"
                  for command in ("create_data", "pretrain", "adapt")}}
# Commands whose first word has flags of its own.
_PARTS = {"visualize": (visualize, visualize.VIEWS), "index": (index, index.ACTIONS)}
_INTRODUCTION = """# Command line

Written from the parsers by `docs/command_line.py`: what each command's `--help` says.

`python -m bert_tf COMMAND …` and `bert-tf COMMAND …` are the same as `python -m bert_tf.COMMAND …`.
A flag means the same in every command, and may have `-` for `_`. Where a flag is given again, the
texts and paths of one like `--input GLOB [GLOB ...]` add up; numbers and choices are replaced by
the later ones, unless the flag says otherwise.
The former names of some work as well: {former}.

Paths may be in an object store: `s3://…`, `gs://…`. Exit codes: 0 done, 1 wrong data or a failure
of the machine, 2 invalid usage, 130 stopped by Ctrl-C or SIGTERM.
"""


class _Built(Exception):
    """Carries the parser that a command is about to use."""


def find_parser(command, arguments=()):
    """Build the parser of `python -m bert_tf.<command> <arguments>`."""
    def stop(parser, *_):
        raise _Built(parser)

    main = importlib.import_module(f"bert_tf.{command}").main
    with mock.patch.object(cli.Parser, "parse_args", stop):
        try:
            main(list(arguments))
        except _Built as built:
            return built.args[0]
    raise RuntimeError(f"bert_tf.{command} parses no arguments")


def table(parser):
    """Tabulate a parser's arguments in Markdown, as `--help` describes them; a list of lines."""
    formatter = parser._get_formatter()
    rows = []
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.dest != "help"
                   and action.help is not argparse.SUPPRESS]
        if not actions:
            continue
        if rows:
            rows.append("")
        if group not in (parser._positionals, parser._optionals):
            rows += [f"**{group.title[:1].upper()}{group.title[1:]}**", ""]
        rows += ["| argument | meaning |", "|---|---|"]
        rows += [f"| `{_name(action, formatter)}` | {_meaning(action, formatter, parser.prog)} |"
                 for action in actions]
    return rows


def _name(action, formatter):
    values = ""
    if not action.option_strings:
        values = formatter._format_args(action, action.metavar or action.dest)
    elif action.nargs != 0:
        metavar = formatter._get_default_metavar_for_optional(action)
        values = " " + formatter._format_args(action, metavar)
    return (", ".join(action.option_strings) + values).replace("|", r"\|")


def _meaning(action, formatter, prog):
    text = formatter._get_help_string(action) or ""
    values = {**vars(action), "prog": prog}
    flag = prog.rpartition(".")[2], action.dest
    values["default"] = _BY_MACHINE.get(flag, action.default)
    text = text % values
    if action.required and action.option_strings:
        text += " (required)"
    return text.replace("|", r"\|").replace("<", "&lt;").strip()


def _section(level, name, parser):
    return [f"{'#' * level} {name}", "", parser.description.strip(), "", *table(parser), ""]


def page():
    """Compose the page; its Markdown."""
    former = ", ".join(f"`--{before}` for `--{name}`" for name, before in FORMER_NAMES.items())
    lines = [_INTRODUCTION.format(former=former)]
    for command in cli.COMMANDS:
        if command not in _PARTS:
            lines += _section(2, command, find_parser(command))
            continue
        module, parts = _PARTS[command]
        lines += [f"## {command}", "", module.__doc__.strip(), ""]
        for part in parts:
            lines += _section(3, f"{command} {part}", find_parser(command, [part]))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    files.write_text(str(PAGE), page())

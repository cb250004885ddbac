"""A chat template (Jinja) as the texts around a query and a passage.

A template comes with a folder and may be hostile. So what runs is a part of the language in which
no text grows but where it is written out, in Jinja's sandbox, and what it writes and how often it
repeats is limited.
"""

import itertools

from bert_tf.errors import UsageError, explain, needs
from bert_tf.tokenization.pair_template import NAMES, ORDERS, check_template, named

_LONGEST = 20_000  # characters of a template, and of what it writes
_MOST_ROUNDS = 200  # of its loops
# Filters that make no longer text of one; of `map` the one by attributes alone, as its `default`
# could be joined texts, which a loop would keep.
_FILTERS = {"count", "d", "default", "first", "last", "length", "list", "map", "rejectattr",
            "selectattr", "trim"}
_CALLS = {"namespace", "raise_exception", "endswith", "lstrip", "rstrip", "startswith", "strip"}
_NODES = {"Template", "Output", "TemplateData", "Name", "NSRef", "Const", "Assign", "If", "For",
          "CondExpr", "Getattr", "Getitem", "Slice", "Filter", "Test", "Call", "Keyword", "Compare",
          "Operand", "And", "Or", "Not", "Neg", "Add", "Sub", "Concat"}
# Texts by which a template shows what it does with them: around the first ones is all that
# `str.strip` takes away, then what a template may take away alone.
_WHITE = "".join(filter(str.isspace, map(chr, range(0x3001))))
_AROUND = ((_WHITE + _WHITE[::-1],) * 2, *((each, each) for each in _WHITE))
_PROBES = (*((a + "<Frage & 'q'> {{ 1 }} 질문" + a, b + "Antwort \"b\"\\n <b>답</b>." + b)
             for a, b in _AROUND),
           ("x" * 300 + "?", "y. " * 100), ("\u2042", ""), ("", "\u2042"), ("", ""))
_ROLES = ("query", "document")  # of the messages that are `text_a` and `text_b`


def around_pairs(source, messages_of, variables, where):
    """Return what a chat template writes of two texts, as of `pair_template.check_template`.

    Args:
        source: the template.
        messages_of: function of a query and a passage to the list of messages, plain values.
        variables: dict of what else it is given.
        where: what errors call it.

    Raises:
        UsageError: it changes the two, but for white space around one, repeats them or leaves one
            out, it needs more of Jinja than is run here, or the package jinja2 is not installed.
    """
    write = _compiled(source, where)
    written = [write(messages=messages_of(*pair), **variables) for pair in _PROBES]
    texts = [*map(named, _PROBES)]
    for first, second in ORDERS:
        before, _, rest = written[0].partition(texts[0][first])
        between, _, after = rest.partition(texts[0][second])
        if written == [before + each[first] + between + each[second] + after for each in texts]:
            return [before, first, between, second, after]
    raise UsageError(explain(f"{where}: what it makes of a query and a document",
                             "the two once each, whatever they are, as they are or without the "
                             "white space around them"))


def as_chat_template(template):
    """Return the chat template of which `around_pairs` gives `template`, as of `check_template`."""
    said = {name: '(messages | selectattr("role", "eq", "' + _ROLES[place] + '") | first).content'
                  + " | trim" * strip for name, (place, strip) in NAMES.items()}
    return "".join("{{ " + (said[part] if index % 2 else _quoted(part)) + " }}"
                   for index, part in enumerate(check_template(template)) if part)


def _quoted(text):
    """Return a text as Jinja has it in quotation marks."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escaped)
    return f'"{text}"'


def _compiled(source, where):
    """Return a function of variables to what the template writes."""
    with needs("convert", "a chat template needs the package jinja2, which is not installed"):
        import jinja2
        from jinja2 import nodes
        from jinja2.sandbox import ImmutableSandboxedEnvironment

    failures = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError,
                RecursionError, SyntaxError, TypeError, ValueError)
    if len(source) > _LONGEST:
        raise UsageError(explain(f"{where} of {len(source):,} characters",
                                 f"at most {_LONGEST:,}"))
    rounds = itertools.count(1)

    def counted(values):
        for value in values:
            if next(rounds) > _MOST_ROUNDS:
                raise jinja2.TemplateError(f"more than {_MOST_ROUNDS} rounds of its loops")
            yield value

    def refuse(message):
        raise jinja2.TemplateError(message)

    # As transformers has it.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals = {"namespace": jinja2.utils.Namespace, "raise_exception": refuse}
    environment.filters["counted"] = counted
    try:
        tree = environment.parse(source)
        for node in [tree, *tree.find_all(nodes.Node)]:
            if what := _unknown(node, nodes):
                raise UsageError(explain(f"{where} line {node.lineno}: {what}",
                                         "texts, what messages hold, conditions and loops"))
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "counted", [], [], None, None, lineno=loop.lineno)
        template = environment.from_string(tree)
    except failures as error:
        raise UsageError(f"{where} is no template: {_said(error)}") from error

    def write(**variables):
        parts, length = [], 0
        try:
            for part in template.generate(**variables):
                parts.append(part)
                length += len(part)
                if length > _LONGEST:
                    refuse(f"it writes more than {_LONGEST:,} characters")
        except failures as error:
            raise UsageError(f"{where} cannot be run: {_said(error)}") from error
        return "".join(parts)

    return write


def _said(error):
    return f"{type(error).__name__} {error}"[:200].partition("\n")[0]


def _unknown(node, nodes):
    """Return what of a node is not run, None of one that is."""
    kind = type(node).__name__
    if kind not in _NODES:
        return kind
    if kind == "Filter" and (node.name not in _FILTERS or node.name == "map" and (
            node.args or [each.key for each in node.kwargs] != ["attribute"])):
        return f"the filter {node.name}"
    if kind == "Call" and _called(node.node) not in _CALLS:
        return f"a call of {_called(node.node)}"
    if kind in ("Filter", "Test", "Call") and (node.dyn_args or node.dyn_kwargs):
        return "arguments with asterisks"
    if kind == "For" and node.recursive:
        return "a recursive loop"
    # Texts that are joined and kept could be joined again, and again.
    if kind == "Assign" and node.find((nodes.Add, nodes.Concat)):
        return "joined texts that are kept"
    return None


def _called(node):
    return getattr(node, "attr", getattr(node, "name", "an expression"))

"""Chat templates as texts around pairs; those that want more than that are refused, at once."""

import pytest

from bert_tf.converters.chat_template import around_pairs, as_chat_template
from bert_tf.errors import UsageError
from bert_tf.tokenization.pair_template import check_template

QUERY, DOCUMENT = "{{ messages[1].content }}", "{{ messages[2].content }}"
PAIR = QUERY + DOCUMENT


def messages_of(query, passage):
    return [{"role": "system", "content": "S"}, {"role": "query", "content": query},
            {"role": "document", "content": passage}]


def parts_of(source):
    given = {"add_generation_prompt": True, "eos_token": "E"}
    return around_pairs(source, messages_of, given, "t.jinja")


@pytest.mark.parametrize(("source", "parts"), [
    # As Qwen's; one line break at the end goes away, as everywhere in Jinja.
    ('{%- set asked = messages | selectattr("role", "eq", "query") | map(attribute="content") |'
     ' first -%}\n<{{ messages | selectattr("role", "eq", "system") | map(attribute="content") |'
     f' first | default("x") }}}}>\nQ: {{{{ asked }}}}\nD: {DOCUMENT}<end>\n\n',
     ["<S>\nQ: ", "text_a", "\nD: ", "text_b", "<end>\n"]),
    ("{% for m in messages %}{% if m.role == 'system' %}\n[{{ m['content'] | trim }}]\n"
     "{% else %}\n{{ m.role + ': ' ~ m.content }}\n{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}!{{ eos_token }}{% endif %}",
     ["[S]\nquery: ", "text_a", "\ndocument: ", "text_b", "\n!E"]),
    (PAIR, ["", "text_a", "", "text_b", ""]), (DOCUMENT + QUERY, ["", "text_b", "", "text_a", ""]),
    ("{{ messages[1].content | trim }} " + DOCUMENT, ["", "text_a.strip()", " ", "text_b", ""]),
    ("<{% for m in messages[1:] %}{{ m.content.strip() }}\n{% endfor %}",
     ["<", "text_a.strip()", "\n", "text_b.strip()", "\n"]),
    (" {{ messages[2].content.strip() ~ QUERY }}".replace("QUERY", "messages[1].content"),
     [" ", "text_b.strip()", "", "text_a", ""])])
def test_what_is_around_pairs(source, parts):
    assert parts_of(source) == parts
    assert parts_of(as_chat_template(parts)) == parts


def test_any_text_is_written():
    parts = ['\\n "{{ 1 }}" {% x %}\r\n', "'\\' {# a #}\n", "\u3000\n\n"]
    assert parts_of(as_chat_template(parts)) == check_template(parts)


@pytest.mark.parametrize("source", [
    QUERY, "", QUERY + DOCUMENT * 2, DOCUMENT + PAIR, QUERY * 2, "{{ messages }}",
    "{{ messages[1].content.lstrip() }}" + DOCUMENT, QUERY + "{{ messages[2].content.rstrip() }}",
    "{{ messages[1].content.strip('\\r') }}" + DOCUMENT,
    "{{ messages[1].content.strip('\n') }}" + DOCUMENT, "{{ messages[1].content | trim('\t') }}" +
    DOCUMENT, QUERY + "{{ messages[2].content.strip(' \n') }}",
    "{{ (messages[1].content ~ messages[2].content) | trim }}",
    "{{ messages[1].content[:200] }}" + DOCUMENT,
    PAIR + "{% if not messages[2].content %}.{% endif %}"])
def test_changed_texts_are_refused(source):
    with pytest.raises(UsageError, match="t.jinja: what it makes of a query and a doc"):
        parts_of(source)


@pytest.mark.parametrize(("source", "message"), [
    ("{% for i in range(10) %}{% endfor %}", "a call of range"),
    ("\n{{ 'a' * 10**10 }}", "line 2: Mul"),
    ("{% set x = 'a' %}" + "{% set x = x ~ x %}" * 60 + "{{ x }}", "joined texts that are kept"),
    ("{% set n = namespace(x='a') %}{% for c in messages[1].content %}{% set n.x = n.x + n.x %}"
     "{% endfor %}", "joined texts that are kept"),
    ("{% for m in messages %}" + "{% for c in messages[1].content %}" * 3 + "{% endfor %}" * 4,
     "more than 200 rounds"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "Macro"),
    ("{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}", "a recursive loop"),
    ("{{ 'a' | center(10000000000) }}", "the filter center"),
    ("{{ messages | map('center', 10000000000) | list }}", "the filter map"),
    ("{% set n = namespace(x='a') %}{% for m in messages %}"
     "{% for y in messages | map(attribute='no', default=n.x ~ n.x) %}{% set n.x = y %}"
     "{% endfor %}{% endfor %}" + PAIR, "the filter map"),
    ("{{ 'a'.ljust(10000000000) }}", "a call of ljust"), ("{{ lipsum() }}", "a call of lipsum"),
    ("{{ 'a' | default(*messages) }}", "asterisks"), ("{{ [messages, messages] }}", "List"),
    ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__'"),
    ("{% include '/etc/passwd' %}", "Include"), ("{{", "is no template: TemplateSyntaxError"),
    ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "is no template: RecursionError"),
    ("{% if a %}" * 200 + "{% endif %}" * 200, "is no template: "),
    ("{{ raise_exception('not for pairs') }}", "cannot be run: TemplateError not for pairs"),
    ("{{ " + "+".join([f"'{'a' * 100}'"] * 100) + " }}" + "{{ messages[1].content }}" * 100,
     "writes more than 20,000 characters"),
    ("a" * 30_000, "of 30,000 characters")])
def test_hostile_templates_are_refused(source, message):
    with pytest.raises(UsageError, match=f"t.jinja.*{message}"):
        parts_of(source)

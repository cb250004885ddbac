"""Commands that a run ends with mean, pasted into a shell, what they were made of."""

import shlex
import subprocess

import pytest

from bert_tf import export, query
from bert_tf.saved_model import next_commands
from bert_tf.serving.server import config

FOLDER = "it's $HOME/my models/a b"


def pasted(command):
    """The words that a shell makes of a command."""
    words = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True,
                           text=True, check=True).stdout.split("\0")[:-1]
    assert words == shlex.split(command) and words[:2] == ["python", "-m"]
    return words[2], words[3:]


@pytest.mark.parametrize(("text", "flags"), [
    ("a [MASK] `date` it's \"so\" $HOME \\", {}),
    ("--flag", {"pair": "--x y"}),
    ("-5\n  degrees", {"question": "-who?", "pair": None}),
    ("word " * 100, {})])
def test_a_text_is_asked_whatever_is_in_it(text, flags):
    module, words = pasted(next_commands.query_command(FOLDER, text, **flags))
    asked = query._parser().parse_args(words)
    assert (module, asked.model) == ("bert_tf.query", "a b")
    (told,) = asked.texts
    assert " ".join(text.split()).startswith(told) and len(told) <= 200 and told
    assert (asked.pair, asked.question) == (flags.get("pair"), flags.get("question"))


def test_folders_are_quoted(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    module, words = pasted(next_commands.serve_command(f"/{FOLDER}"))
    flags = config.parser("").parse_args(words)
    assert (module, flags.model_name, flags.model_base_path) == (
        "bert_tf.serve", "a b", f"/{FOLDER}")
    _, words = pasted(next_commands.python_command("export", "--model", FOLDER))
    assert export._parser().parse_args(words).model == FOLDER
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert next_commands.serve_command("saved/a").startswith("tensorflow_model_server --port=8500")
    assert next_commands.serve_command("s3://b/a").startswith("python -m bert_tf.serve")

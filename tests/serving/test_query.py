"""`python -m bert_tf.query` against served models of every task."""

import functools
import json
import os
import subprocess
import sys

import pytest
from server_harness import REPOSITORY

from bert_tf import cli, query
from bert_tf.serving.client import Client


@pytest.fixture(params=["address", "rest"])
def address(request, task_models):
    return getattr(task_models.server, request.param)


@pytest.fixture
def run_at(capsys):
    """`run_at(address, *arguments)` -> the results, a dict for each text."""
    def run(address, *arguments):
        assert cli.run(query.main, [*arguments, "--address", address, "--format", "json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return run


@pytest.fixture
def run(address, run_at):
    return functools.partial(run_at, address)


def test_the_task_follows_from_the_model(run, address):
    def ask(model, method, *arguments, **inputs):
        with Client(address, model) as client:
            return getattr(client, method)(*arguments, **inputs)

    [one, other] = run("classifier", "a fox", "the 😀")
    assert (one["text"], other["text"]) == ("a fox", "the 😀")
    assert one["probabilities"] == pytest.approx(
        ask("classifier", "classify", "a fox")["probabilities"], rel=1e-5)
    [pair] = run("several", "a fox", "--pair", "the dog")
    assert pair["chosen"] == ask("several", "classify", "a fox", "the dog")["chosen"]
    [answer] = run("span", "The fox jumps", "--question", "the fox")
    assert answer["answer"] == ask("span", "answer", "the fox", "The fox jumps")["answer"]
    [tags] = run("morphemes", "the lazy dog")
    expected = ask("morphemes", "tag", "the lazy dog")
    assert [each["text"] for each in tags["entities"]] == [each["text"] for each in expected]
    [filled] = run("bert", "The [MASK] fox")
    assert [each["token"] for each in filled["masks"][0]] == [
        each["token"] for each in ask("bert", "fill_mask", "The [MASK] fox")[0]]
    [vector] = run("bert", "The fox")
    assert vector["embedding"] == pytest.approx(
        ask("bert", "embed", "The fox").tolist(), rel=1e-5)
    [pair] = run("bert", "The fox", "--pair", "a dog")
    assert pair["probability"] == pytest.approx(ask(
        "bert", "predict", "next_sentence", text_a=["The fox"], text_b=["a dog"])[0]["probability"],
        rel=1e-5)
    [encoded] = run("bert", "The fox", "--signature", "encode")
    assert encoded["tokens"] == ["[CLS]", "the", "fox", "[SEP]"]


@pytest.mark.long
def test_numbers_and_continuations(run_at, more_task_models):
    address = more_task_models.server.address
    [number] = run_at(address, "regressor", "a fox")
    [continued] = run_at(address, "gpt", "The fox")
    with Client(address, "regressor") as client:
        assert number["score"] == pytest.approx(client.regress("a fox"))
    with Client(address, "gpt") as client:
        assert continued["continuation"] == client.predict("generate", text=["The fox"])[0]["text"]
    assert continued["text"] == "The fox"


def test_lines_of_standard_input(task_models):
    lines = [f"the fox {number}\ta dog" for number in range(40)]
    result = subprocess.run(
        [sys.executable, "-m", "bert_tf.query", "several", "--address",
         task_models.server.address, "--format", "json", "--batch_size", "2"],
        input="\n".join(lines), capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    results = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["text"] for each in results] == lines
    assert result.stderr == "note: every line is asked of the signature predict\n"
    with Client(task_models.server.address, "several") as client:
        told = client.classify(*map(list, zip(*(line.split("\t") for line in lines), strict=True)))
    assert [each["label"] for each in results] == [each["label"] for each in told]


def test_a_table_for_people(task_models, capsys):
    address = ["--address", task_models.server.address]
    assert cli.run(query.main, ["classifier", "a fox", *address]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "a fox"
    assert lines[0].split(": ")[0] == "  label" and "probabilities: no " in lines[2]
    assert cli.run(query.main, ["span", "The fox jumps", "--question", "fox", *address]) == 0
    assert "answers: answer " in capsys.readouterr().out
    assert cli.run(query.main, ["bert", "a [MASK]", *address]) == 0
    assert "mask 1: " in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [
    (["span", "a"], "span answers questions; expected --question"),
    (["bert", "a", "--question", "b"], "--question for the signature serving_default"),
    (["classifier", "a", "--pair", "b"], "--pair for the signature serving_default"),
    (["several", "a"], "expected --pair, or two texts with a tab between them"),
    (["bert", "a", "--signature", "embed_ids"], "expected a signature of text"),
    (["bert", "a", "--signature", "tags"], "--signature tags; expected one of count_tokens")])
def test_what_does_not_fit_the_model(task_models, arguments, message, capsys):
    assert cli.run(query.main, [*arguments, "--address", task_models.server.address]) == 2
    assert message in capsys.readouterr().err


def test_what_the_server_says(task_models, capsys):
    assert cli.run(query.main, ["nothing", "a", "--address", task_models.server.address]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "nothing" in error and "NOT_FOUND" in error


@pytest.mark.parametrize("flag", ["--api_key_file", "--ca_file"])
def test_an_empty_key_file(flag, capsys):
    assert cli.run(query.main, ["m", "a", "--address", "localhost:1", f"{flag}="]) == 2
    assert f"{flag}: an empty path; expected that of a file" in capsys.readouterr().err


def test_no_server(capsys):
    assert cli.run(query.main, ["m", "a", "--address", "localhost:1"]) == 1
    assert "error: no server answers at localhost:1" in capsys.readouterr().err

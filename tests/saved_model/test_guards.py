"""What tells an export whose inputs are guarded from one whose are not."""

import pytest
import tensorflow as tf

from bert_tf import cli, export
from bert_tf.errors import BertTfError
from bert_tf.saved_model import verify
from bert_tf.saved_model.guards import check_guards, unguarded

VECTOR = tf.TensorSpec([None], tf.string, "text")


def ensured(text, shape=(None,)):
    return tf.raw_ops.EnsureShape(input=text, shape=tf.TensorShape(shape))


def save(folder, **signatures):
    module = tf.Module()
    tf.saved_model.save(module, str(folder), signatures={
        name: tf.function(function, autograph=False).get_concrete_function(VECTOR)
        for name, function in signatures.items()})
    return str(folder)


@tf.function
def inner(text):
    return tf.strings.length(ensured(text))


@tf.function
def passed_on(text):
    return tf.identity(text)


def test_what_is_read_before_a_guard_is_found(tmp_path):
    folder = save(
        tmp_path,
        guarded=lambda text: {"n": tf.strings.length(ensured(text))},
        in_a_function=lambda text: {"n": inner(tf.identity(text))},
        unread=lambda text: {"n": tf.constant([1])},
        plain=lambda text: {"n": tf.strings.length(text)},
        beside=lambda text: {"n": tf.strings.length(ensured(text)), "size": tf.size(text)},
        through_a_function=lambda text: {"n": tf.strings.length(passed_on(text))},
        in_a_branch=lambda text: {"n": tf.cond(tf.constant(True), lambda: tf.strings.length(text),
                                               lambda: tf.constant([0]))})
    assert unguarded(folder) == {name: ["text"] for name in (
        "beside", "in_a_branch", "plain", "through_a_function")}


def test_graphs_of_tensorflow_1_are_told_apart(tmp_path):
    v1 = tf.compat.v1
    for name, guard in (("with", ensured), ("without", tf.identity)):
        with tf.Graph().as_default(), v1.Session() as session:
            text = v1.placeholder(tf.string, [None])
            v1.saved_model.simple_save(session, str(tmp_path / name), {"x": text},
                                       {"y": tf.strings.length(guard(text))})
    assert unguarded(str(tmp_path / "with")) == {}
    assert unguarded(str(tmp_path / "without")) == {"serving_default": ["x"]}


def test_the_command_tells_an_older_export(tmp_path, exported, capsys):
    version = exported("bert").version
    assert cli.run(export.main, ["--check", version]) == 0
    assert capsys.readouterr().out == (
        f"{version}: every input of every signature checks its shape\n")
    older = save(tmp_path / "1", serving_default=lambda text: {"n": tf.strings.length(text)},
                 embed=lambda text: {"n": tf.strings.length(text)})
    assert cli.run(export.main, ["--check", older]) == 1
    error = capsys.readouterr().err
    assert older in error and "embed: text; serving_default: text" in error
    assert "exporting the model again" in error


def test_ids_beyond_the_vocabulary_are_told_without_escapes(exported):
    export = exported("bert")
    ids, size = tf.constant([[0, 2**31 - 1]]), export.model.config.vocab_size
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=f"input_word_ids must be 0 to {size - 1}, the vocabulary of the mod"):
        export.call.signatures["encode_ids"](
            input_word_ids=ids, input_mask=tf.ones_like(ids), input_type_ids=tf.zeros_like(ids))


@pytest.mark.parametrize(("content", "message"), [
    (None, "saved_model.pb"), (b"\xff" * 20, "damaged"), (b"", "0 graphs")])
def test_what_is_no_saved_model_is_named(content, message, tmp_path, capsys):
    if content is not None:
        (tmp_path / "saved_model.pb").write_bytes(content)
    assert cli.run(export.main, ["--check", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err


def test_an_export_that_lacks_a_guard_is_not_run(tmp_path, monkeypatch):
    older = save(tmp_path / "1", serving_default=lambda text: {"n": tf.strings.length(text)})
    monkeypatch.setattr(tf.saved_model, "load", lambda folder: pytest.fail("was loaded"))
    with pytest.raises(BertTfError, match="serving_default: text"):
        verify.verify(None, older, 0)
    with pytest.raises(BertTfError, match="serving_default: text"):
        check_guards(older)


@pytest.mark.parametrize(("name", "inputs"), [
    ("text", {"text": ["a", "b"], "seed": [1, 2]}),
    ("input_mask", {"input_mask": [[1, 1], [1, 0]]})])
def test_a_signature_that_takes_what_is_wrong_is_not_published(name, inputs):
    inputs = {key: tf.constant(value) for key, value in inputs.items()}

    def ranks_alone(**given):
        for key, value in given.items():
            ensured(value, [None] * inputs[key].shape.rank)

    with pytest.raises(BertTfError, match=f"accepts an invalid `{name}`"):
        verify._refuses(ranks_alone, "any", inputs)

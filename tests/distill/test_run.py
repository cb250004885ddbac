"""Distillation from its command line: what it learns and leaves, going on, refusing."""

import io
import json
import os
import types

import numpy as np
import pytest
import tensorflow as tf
from sentiment import config, examples
from teachers import embedder
from tiny_model import only_signatures

from bert_tf import cli, distill, side_by_side
from bert_tf.distill import run as run_module
from bert_tf.distill import teacher as teacher_module
from bert_tf.distill.complete import complete
from bert_tf.errors import BertTfError, DivergedError, UsageError
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.load import from_pretrained
from bert_tf.storage import files, manifest, variables
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training import loop, step


def arguments(folder, *words, teacher="embedder", name="run"):
    text = [] if "--input" in words else ["--input", str(folder / "texts.txt")]
    return ["--teacher", str(folder / teacher), *text, "--output_dir", str(folder / name),
            "--export_dir", str(folder / "saved" / name), "--dev", "0.1", "--batch_size", "16",
            *words]


def weights_of(folder, name="run"):
    return variables.read_variables(str(folder / name / "model" / "model"))


def test_a_static_student_learns_and_is_served(folder):
    words = ("--static", "--hidden_size", "12", "--epochs", "3", "--learning_rate", "1e-2",
             "--objectives", "output")
    with only_signatures("describe", "embed"):
        result = distill.distill(distill.DistillConfig(**vars(distill._parser().parse_args(
            arguments(folder, *words)))))
    assert result.metrics["cosine"] > 0.9
    assert sorted(os.listdir(folder / "run")) == [
        "logs", "metrics.jsonl", "model", "results.json", "run.json", "train_config.json"]
    lines = [json.loads(line) for line in files.read_lines(str(folder / "run" / "metrics.jsonl"))]
    evaluations = [line["loss"] for line in lines if line["split"] == "eval"]
    assert evaluations[-1] < 0.5 * evaluations[0] and len(evaluations) >= 10
    student = from_pretrained(str(folder / "run"))
    texts = [each.text_a for each in examples(9, seed=5)]
    signature = tf.saved_model.load(result.saved_model).signatures["embed"]
    np.testing.assert_allclose(signature(text=tf.constant(texts))["embedding"],
                               student.embed(texts), atol=1e-5)
    taught = embedder().embed(texts)
    own, theirs = student.embed(texts) @ student.embed(texts).T, taught @ taught.T
    off = ~np.eye(len(texts), dtype=bool)
    assert np.corrcoef(own[off], theirs[off])[0, 1] > 0.5  # texts that it has not seen


@pytest.mark.long
def test_a_stopped_run_ends_with_the_same_bytes(folder, monkeypatch, eager):
    few = [each.text_a for each in examples(40, seed=3)]
    (folder / "few.txt").write_text("\n".join(few))
    words = ("--num_hidden_layers", "1", "--objectives", "output", "hidden", "relations",
             "--input", str(folder / "few.txt"), "--epochs", "2")
    monkeypatch.setattr(run_module, "export_run", lambda run, export: export)
    distill.main(arguments(folder, *words, name="whole"))
    save, left = loop.Checkpoints.save, 0

    def stop(*given, **options):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return save(*given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Checkpoints, "save", stop)
        for saves in (2, 3):
            left = saves
            with pytest.raises(KeyboardInterrupt):
                distill.main(arguments(folder, *words, name="stopped"))
    asked = os.listdir(folder / "stopped" / "teacher" / "train")
    monkeypatch.setattr(teacher_module, "in_order", None)  # the teacher is not asked again
    distill.main(arguments(folder, *words, name="stopped"))
    whole, resumed = weights_of(folder, "whole"), weights_of(folder, "stopped")
    assert asked == ["000000000.npy"] and whole.keys() == resumed.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(value, resumed[name])


@pytest.mark.long
def test_similarities_are_those_of_the_whole_batch(folder, monkeypatch):
    monkeypatch.setattr(run_module, "export_run", lambda run, export: export)
    found, parts, part_of = [], [], step._part_of
    monkeypatch.setattr(step, "_part_of", lambda *given: parts.append(given) or part_of(*given))
    for name, strategy, at_once in (("one", "one_device", 1), ("two", "mirrored", 1),
                                    ("halves", "one_device", 2)):
        monkeypatch.setattr(side_by_side, "at_once", lambda count=at_once: count)
        distill.main(arguments(folder, "--static", "--strategy", strategy, name=name))
        lines = map(json.loads, files.read_lines(str(folder / name / "metrics.jsonl")))
        found.append([line["loss"] for line in lines])
        assert bool(parts) == (at_once > 1)
    assert len(found[0]) >= 10
    for others in found[1:]:
        np.testing.assert_allclose(found[0], others, rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("teacher, words, metric", [
    ("classifier", (), "agreement"),
    ("classifier", ("--num_hidden_layers", "2", "--objectives", "output", "relations",
                    "--dtype", "bfloat16"), "agreement"),
    ("embedder", ("--hidden_size", "8", "--objectives", "output", "hidden", "relations",
                  "--num_devices", "2"), "cosine"),
])
def test_kinds_of_students(folder, teacher, words, metric):
    name = f"{teacher}_{len(words)}"
    result = distill.distill(distill.DistillConfig(**vars(distill._parser().parse_args(
        arguments(folder, *words, "--epochs", "4", "--learning_rate", "2e-3", teacher=teacher,
                  name=name)))))
    assert result.metrics[metric] > 0.8
    assert from_pretrained(str(folder / name)).saved_as == teacher


@pytest.mark.parametrize("words, code, message", [
    (("--input", "{folder}/one.txt"), 1, "has 1 different text"),
    (("--input", "{folder}/absent.txt"), 2, "absent.txt"),
    (("--teacher", "{folder}/absent"), 1, "absent"),
    (("--teacher", "{folder}/tagger"), 2, "a model for tagger"),
    (("--teacher", "{folder}/exported"), 2, "a SavedModel of the task 'classifier'; expected the"),
    (("--max_seq_length", "500"), 2, "--max_seq_length 500"),
    (("--static", "--teacher", "{folder}/classifier"), 2, "predicts labels"),
    (("--teacher", "{folder}/tokens"), 2, "gives a vector for each token"),
    (("--teacher", "{folder}/short", "--init", "{folder}/other"), 2,
     "vectors of 16 and a teacher with vectors of 8"),
    (("--static", "--objectives", "similarities", "hidden"), 2, "could learn hidden"),
    (("--temperature", "8"), 2, "--temperature 8 with a teacher that predicts no labels"),
    (("--static", "--temperature", "8"), 2, "--temperature 8 without the objective output"),
    (("--hidden_size", "10", "--relation_heads", "4"), 2,
     "--relation_heads 4 without the objective relations; omit it"),
    *(pytest.param(*row, marks=pytest.mark.long) for row in (
        (("--hidden_size", "10", "--objectives", "relations", "--relation_heads", "4"), 2,
         "a number that divides them"),
        (("--init", "{folder}/other", "--objectives", "hidden"), 2,
         "tokens are not the teacher's"),
        (("--objectives", "similarities", "--teacher", "{folder}/classifier"), 2,
         "an embedder"))),
])
def test_what_is_refused(words, code, message, folder, capsys, eager, monkeypatch):
    monkeypatch.setattr(run_module, "teacher_outputs", None)  # it is not asked
    (folder / "one.txt").write_text("the film\n\nthe film\n")
    if not (folder / "tagger").exists():
        TokenClassifier(config(), labels=["O", "B-X"]).save_pretrained(str(folder / "tagger"))
        (folder / "exported" / "assets.extra").mkdir(parents=True)
        (folder / "exported" / "saved_model.pb").touch()
        (folder / "exported" / "assets.extra" / "task.json").write_text('{"task": "classifier"}')
        embedder(1, pooling="none").save_pretrained(str(folder / "tokens"))
        embedder(2, dense={"units": 8, "act": "linear", "use_bias": True}).save_pretrained(
            str(folder / "short"))
        other = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "film", "the"]))
        SentenceEmbedder(config().replace(vocab_size=7), preprocessor=TextPreprocessor(other, 16)
                         ).save_pretrained(str(folder / "other"))
    words = [word.replace("{folder}", str(folder)) for word in words]
    found = cli.run(distill.main, arguments(folder, *words, name="refused"))
    error = capsys.readouterr().err
    assert (found, error.count("error: ")) == (code, 1) and message in error, error


def test_a_batch_that_does_not_divide_is_refused_before_the_teacher_is_read(folder):
    options = complete(distill.DistillConfig(
        teacher="teacher", input="texts", output_dir="run", batch_size=64))
    replicas = types.SimpleNamespace(num_replicas_in_sync=3)
    with pytest.raises(UsageError, match="batch_size=64 over 3 replicas"):
        run_module.DistillationRun(options, replicas).train({})


def test_a_text_is_left_to_train_on(folder):
    options = complete(distill.DistillConfig(
        teacher="teacher", input="texts", output_dir="run", dev=0.999))
    texts = run_module.DistillationRun(options, None).read_texts([str(folder / "texts.txt")])
    assert len(texts["train"]) == 1 and len(texts["dev"]) > 1


def _out_of_memory(*arguments, **options):
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")


def _of_few_texts(folder, name):
    """Options of a quick run called `name`."""
    (folder / "few.txt").write_text("the film\n\nthe end\n\na film\n")
    return distill.DistillConfig(**vars(distill._parser().parse_args(arguments(
        folder, "--static", "--input", str(folder / "few.txt"), name=name))))


@pytest.mark.parametrize(("name", "message"), [
    ("load_teacher", "the teacher does not fit .*; try a smaller teacher or"),
    ("build_student", "the model .*; try a smaller model or")])
def test_a_model_that_does_not_fit_is_told(name, message, monkeypatch):
    options = complete(distill.DistillConfig(teacher="teacher", input="texts", output_dir="run"))
    run = run_module.DistillationRun(options, tf.distribute.get_strategy())
    run.seq_length = run.features = lambda *arguments: None
    monkeypatch.setattr(run_module, "load_teacher", lambda *arguments, **options: None)
    monkeypatch.setattr(run_module, name, _out_of_memory)
    with pytest.raises(BertTfError, match=f"out of memory: {message}"):
        run.train({})


def test_answers_that_do_not_fit_are_told(folder, monkeypatch, eager):
    monkeypatch.setattr(run_module, "teacher_outputs", _out_of_memory)
    with pytest.raises(BertTfError, match="out of memory: asking the teacher does not fit .*; try "
                                          "a smaller teacher, a smaller --max_seq_length or"):
        distill.distill(_of_few_texts(folder, "asked_too_much"))


def test_what_has_failed_takes_no_memory_after_it(folder, monkeypatch, eager):
    """Several distillations of one process would add up, on each of two devices."""
    held, load = [], run_module.load_teacher

    def load_teacher(*arguments, **options):
        held.extend((teacher := load(*arguments, **options)).weights)
        return teacher

    def train(model, optimizer, *arguments, **options):
        held.extend([*model.weights, *optimizer.variables])
        raise BertTfError("the machine failed")

    monkeypatch.setattr(run_module, "load_teacher", load_teacher)
    monkeypatch.setattr(run_module, "train", train)
    with pytest.raises(BertTfError, match="the machine failed"):
        distill.distill(_of_few_texts(folder, "failed").replace(num_devices=2))
    parts = [part for variable in held for part in getattr(
        variable.value, "values", [variable.value])]
    assert len(parts) > len(held) and all(part.read_value().shape == () for part in parts)


def test_what_was_good_before_a_run_diverged_is_kept(folder, monkeypatch, capsys, eager):
    train, ends = run_module.train, iter([False, True])

    def trained(model, *given, **options):
        found = train(model, *given, **options)
        if not next(ends):
            return found
        for variable in model.trainable_variables:
            variable.assign(np.nan * variable)
        error = DivergedError("it overflowed")
        error.best = found["best"]
        raise error

    monkeypatch.setattr(run_module, "train", trained)
    monkeypatch.setattr(run_module, "export_run", lambda run, export: export)
    for name in ("whole", "diverged"):
        distill.distill(_of_few_texts(folder, name))
    assert "later it diverged: it overflowed" in capsys.readouterr().out
    results = files.read_json(str(folder / "diverged" / "results.json"))
    assert results["diverged_later"] == "it overflowed" and results["metrics"]["step"] > 0
    kept = weights_of(folder, "diverged")
    for name, value in weights_of(folder, "whole").items():
        np.testing.assert_array_equal(kept[name], value)


def test_a_training_that_never_was_good_is_no_student(folder, monkeypatch, eager):
    def trained(*given, **options):
        error = DivergedError("it overflowed")
        error.best = {"step": 1, "loss": float("nan")}
        raise error

    monkeypatch.setattr(run_module, "train", trained)
    with pytest.raises(DivergedError, match="it overflowed"):
        distill.distill(_of_few_texts(folder, "never"))
    assert not (folder / "never" / "results.json").exists()


def test_what_the_teacher_said_is_no_work_to_lose(folder):
    options = complete(distill.DistillConfig(
        teacher=str(folder / "embedder"), input="texts", output_dir=str(folder / "asked")))
    run_module.DistillationRun(options, None).claim([])
    faster = run_module.DistillationRun(options.replace(learning_rate=1e-2), None)
    faster.claim([])  # nothing was made
    answers = folder / "asked" / "teacher" / "train" / "000000000.npy"
    files.write_text(str(answers), "")
    with pytest.raises(UsageError, match="learning_rate was 0.01, now 0.0001"):
        run_module.DistillationRun(options, None).claim([])
    faster.claim([])
    assert answers.exists()


def test_what_the_teacher_would_say_again_stays_for_another_student(folder):
    run = folder / "again"
    options = complete(distill.DistillConfig(
        teacher=str(folder / "embedder"), input="texts", output_dir=str(run)))
    texts = [str(folder / "texts.txt")]
    run_module.DistillationRun(options, None).claim(texts)
    answers = run / "teacher" / "train" / "000000000.npy"
    files.write_text(str(answers), "")
    files.write_text(str(run / "train_config.json"), "")
    other = options.replace(overwrite=True, learning_rate=1e-2, num_hidden_layers=1)
    run_module.DistillationRun(other, None).claim(texts)
    assert answers.exists() and not (run / "train_config.json").exists()
    run_module.DistillationRun(other.replace(dev=0.1), None).claim(texts)
    assert not answers.exists()


def test_other_text_from_standard_input_is_refused_before_it_replaces_any(folder, monkeypatch):
    run = folder / "piped"
    (run / "checkpoints/step_00000012").mkdir(parents=True)
    manifest.write(str(run / "run.json"), {"objectives": None})
    spool = run / "stdin.txt"
    for before in (None, "some text\n"):  # nor does it leave any
        if before:
            spool.write_text(before)
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(b"other text\n")))
        with pytest.raises(UsageError, match="12 steps of training would be lost"):
            run_module.DistillationRun(distill.DistillConfig(
                teacher=str(folder / "embedder"), input="-", output_dir=str(run), overwrite=True),
                None).finish()
        assert (spool.read_text() if spool.exists() else None) == before


def test_the_answers_of_another_teacher_go_after_a_kill_too(folder, monkeypatch):
    run = folder / "killed"
    options = complete(distill.DistillConfig(
        teacher=str(folder / "embedder"), input="texts", output_dir=str(run)))
    run_module.DistillationRun(options, None).claim([])
    answers = run / "teacher" / "train" / "000000000.npy"
    files.write_text(str(answers), "")
    other = run_module.DistillationRun(options.replace(overwrite=True, dev=0.1), None)
    with monkeypatch.context() as patch:
        patch.setattr(run_module.DistillationRun, "keep_answers", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            other.claim([])
    assert answers.exists()
    other.claim([])
    assert not answers.exists()


def test_when_a_run_is_evaluated_is_part_of_what_it_is(folder):
    options = complete(distill.DistillConfig(
        teacher=str(folder / "embedder"), input="texts", output_dir=str(folder / "evaluated")))
    run_module.DistillationRun(options, None).claim([])
    files.write_text(str(folder / "evaluated" / "train_config.json"), "")
    with pytest.raises(UsageError, match="eval_every of the best was None, now 5"):
        run_module.DistillationRun(options.replace(eval_every=5), None).claim([])


def test_a_run_of_finetune_is_left_alone(folder):
    run = str(folder / "finetuned")
    files.make_folder(os.path.join(run, "trials"))
    manifest.write(os.path.join(run, "run.json"), FinetuneConfig(
        task="embed", train="pairs.tsv", dev="0.1", output_dir=run).stored())
    options = complete(distill.DistillConfig(
        teacher=str(folder / "embedder"), input="-", output_dir=run, overwrite=True))
    with pytest.raises(UsageError, match="already holds run.json, not written by this command"):
        run_module.DistillationRun(options, None).finish()  # and reads no standard input before

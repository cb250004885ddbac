"""Students: what they have of the teacher, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf
from sentiment import config, examples, tokenizer
from teachers import classifier, embedder

from bert_tf.config import ModelConfig
from bert_tf.data.task_input import Features, Ragged
from bert_tf.data.term_weights import learn_term_weights
from bert_tf.distill.complete import complete
from bert_tf.distill.config import DistillConfig
from bert_tf.distill.distiller import Distiller
from bert_tf.distill.projection import principal_axes
from bert_tf.distill.run import DistillationRun
from bert_tf.distill.student import (
    build_student,
    fill_table,
    kept_layers,
    scale_table,
    student_config,
)
from bert_tf.distill.teacher import teacher_outputs
from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXTS = [each.text_a for each in examples(20)]
COUNTS = np.arange(16)  # of the tokens of `sentiment`


def options(**values):
    return complete(DistillConfig(teacher="teacher", input="texts", output_dir="run", **values))


def build(teacher, **values):
    return build_student(teacher, options(**values), "float32")


def static(teacher, counts=COUNTS):
    """A static student of the teacher's width, and its table."""
    student, _ = build(teacher, static=True)
    fill_table(student, teacher, counts, np.eye(teacher.width))
    return student, *student.encoder.weights


def test_layers_are_spaced_evenly_and_end_with_the_last():
    assert kept_layers(6, 3) == (1, 3, 5) and kept_layers(12, 12) == tuple(range(12))
    for count in range(1, 25):
        for number in range(1, count + 1):
            kept = kept_layers(count, number)
            assert kept[-1] == count - 1 and sorted(set(kept)) == list(kept) and kept[0] >= 0


@pytest.mark.parametrize("make", [embedder, classifier])
def test_a_student_of_all_layers_says_what_the_teacher_says(make, eager):
    teacher = make(2)
    student, kept = build(teacher, num_hidden_layers=2)
    assert kept == (0, 1) and student is not teacher
    np.testing.assert_array_equal(student.predict(TEXTS, verbose=0),
                                  teacher.predict(TEXTS, verbose=0))


@pytest.mark.parametrize(("problem", "labels"), [
    ("multi_label", ["a", "b"]), ("regression", ["x"])])
def test_a_student_of_all_layers_loses_nothing_whatever_is_predicted(problem, labels):
    teacher = Classifier(config(num_hidden_layers=2), labels, problem, seed=1,
                         preprocessor=TextPreprocessor(tokenizer(), 16))
    student, layers = build(teacher, num_hidden_layers=2)
    batch = dict(teacher.preprocessor(tf.constant(TEXTS)))
    batch |= {"teacher_output": teacher(batch), "example_weights": tf.ones(len(TEXTS))}
    model = Distiller(student, teacher, options(), layers)
    assert abs(float(model.loss_sums(model(batch), batch)["output"])) < 1e-4


def test_layers_are_those_that_were_asked_for():
    teacher = embedder(4, layers=(1, -1))
    student, kept = build(teacher, keep_layers=(0, 3))
    assert kept == (0, 3) and student.pooling.layer_numbers == (1, 2)
    for new, old in enumerate(kept):
        for one, other in zip(student.encoder.backbone.encoder.blocks[new].weights,
                              teacher.encoder.backbone.encoder.blocks[old].weights, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(UsageError, match="pools layer 1, which the student lacks.*with 0"):
        build(teacher, keep_layers=(1, 3))


@pytest.mark.parametrize("values", [{"num_hidden_layers": 1}, {"hidden_size": 8}])
def test_a_student_of_a_classifier_on_frozen_layers_learns_as_a_whole(values):
    teacher = classifier(2, features={"layers": [1, 2], "lstm_size": 8})
    asked = options(objectives=("output", "relations"), **values)
    student, layers = build_student(teacher, asked, "float32")
    assert student.encoder.trainable_weights and student.feature_lstm is None
    inputs = dict(teacher.preprocessor(tf.constant(TEXTS)))
    logits = student(inputs)
    assert logits.shape == (len(TEXTS), 2)
    outputs = Distiller(student, teacher, asked, layers)(inputs)
    np.testing.assert_allclose(outputs["output"], logits, atol=1e-5)


def test_a_narrower_student_keeps_the_scalar_products_of_embeddings():
    teacher = embedder(2)
    table = teacher.encoder.backbone.embeddings.word_embeddings.numpy()
    student, layers = build(teacher, hidden_size=8, num_hidden_layers=1)
    assert layers == (1,) and student.width == 8
    values, _ = np.linalg.eigh(table.T @ table)  # what is lost is what PCA must lose
    small = student.encoder.backbone.embeddings.word_embeddings.numpy()
    assert np.sum(small**2) == pytest.approx(values[-8:].sum(), rel=1e-4)


def test_a_static_student_is_the_mean_of_weighed_token_vectors():
    teacher = embedder(2)
    student, table = static(teacher)
    vocabulary = teacher.preprocessor.tokenizer.vocabulary
    for token in (5, 9):
        ids = np.array([[vocabulary.cls_id, token, vocabulary.sep_id]])
        alone = teacher({"input_word_ids": ids, "input_mask": np.ones_like(ids),
                         "input_type_ids": np.zeros_like(ids)})[0]
        weight = 1e-3 / (1e-3 + COUNTS[token] / COUNTS.sum())
        np.testing.assert_allclose(table[token], weight * alone, rtol=1e-4, atol=1e-7)
    mean = table.numpy()[tokenizer().tokenize([TEXTS[0]])[0].numpy()].mean(0)
    np.testing.assert_allclose(student.embed(TEXTS[0]), mean / np.linalg.norm(mean), rtol=1e-4,
                               atol=1e-6)


def test_a_student_of_other_layers_has_vectors_of_the_last_one_and_no_longer_than_the_teachers():
    shorter = embedder(2, dense={"units": 8, "act": "linear", "use_bias": True})
    assert build(shorter, static=True)[0].width == 8
    several = embedder(2, layers=(1, -1))
    student, _ = build(several, hidden_size=8)
    assert student.pooling.layer_numbers == (2,) and several.width == 32
    assert build(several, static=True)[0].width == 16


def weighing():
    """A teacher that weighs terms by a corpus."""
    teacher = embedder(2, weighting="idf", mask_specials=True)
    teacher.set_term_weights(learn_term_weights(TEXTS, tokenizer()))
    return teacher


def test_a_narrower_student_weighs_terms_as_the_teacher_does():
    teacher = weighing()
    student, _ = build(teacher, hidden_size=8)
    for one, other in zip(student.pooling.term_weights.get_weights(),
                          teacher.pooling.term_weights.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_student_with_a_tokenizer_of_its_own_has_special_tokens_and_statistics_of_it(tmp_path):
    own = Tokenizer(Vocabulary(["film", "the", *SPECIAL_TOKENS]))
    SentenceEmbedder(config(num_hidden_layers=1).replace(vocab_size=7, padding_id=2),
                     preprocessor=TextPreprocessor(own, 16)).save_pretrained(str(tmp_path))
    teacher, asked = weighing(), options(init=str(tmp_path))
    student, _ = build_student(teacher, asked, "float32")
    assert student.options()["special_ids"] == [own.vocabulary.cls_id, own.vocabulary.sep_id]
    DistillationRun(asked, None).own_features({"train": TEXTS}, student, teacher, None)
    idf, _ = student.pooling.term_weights.get_weights()
    np.testing.assert_array_equal(idf, learn_term_weights(TEXTS, own, 16).idf)


def test_a_student_of_fewer_positions_reads_less_of_a_text(tmp_path):
    SentenceEmbedder(config(num_hidden_layers=1, max_position_embeddings=4),
                     preprocessor=TextPreprocessor(tokenizer(), 4)).save_pretrained(str(tmp_path))
    teacher, asked = embedder(1), options(init=str(tmp_path))
    student, _ = build(teacher, init=str(tmp_path))
    run = DistillationRun(asked, None)
    found = run.own_features({"train": TEXTS}, student, teacher, None)["train"]
    assert max(map(len, found.rows["input_word_ids"])) == 4
    for values, message in (({"objectives": ("hidden",)}, "4 tokens .*try --max_seq_length 4"),
                            ({"max_seq_length": 5}, "--max_seq_length 5 with .*3 to 4")):
        with pytest.raises(UsageError, match=message):
            DistillationRun(asked.replace(**values), None).own_features(
                {"train": TEXTS}, student, teacher, None)


def test_a_student_reads_as_many_tokens_as_it_learns_from(capsys):
    teacher = embedder(2)  # of 32 positions, which reads 16
    for values, window, message in (
            ({}, 16, "to 16 tokens"), ({"max_seq_length": 20}, 20, ""),
            ({"max_seq_length": 4, "hidden_size": 8}, 4, "20 of 20 texts are truncated to 4 tok"),
            ({"max_seq_length": 4}, 16, "learns from 4 tokens of a text and will read 16")):
        run = DistillationRun(options(**values), None)
        student, length = build(teacher, **values)[0], run.seq_length(teacher, "teacher")
        features = run.features(["the film " * 8] * 20, teacher, length)
        assert max(features.lengths) == min(length, 18)
        run.fit_window(student, teacher, {"train": features}, length)
        assert student.preprocessor.seq_length == window
        assert message in capsys.readouterr().out


def test_a_teacher_that_reads_the_end_of_long_texts_is_asked_about_it():
    teacher = embedder(1)
    teacher.preprocessor.long = "head_tail"
    features = DistillationRun(options(), None).features(["the " * 20 + "end"], teacher, 8)
    assert features.truncated == 1
    end = teacher.preprocessor.tokenizer.vocabulary.id("end")
    assert features.rows["input_word_ids"][0][-2] == end


def test_principal_axes_are_the_singular_vectors():
    vectors = np.random.default_rng(1).normal(size=(50, 6)) * [1, 9, 3, 2, 5, 1]
    axes = principal_axes(vectors, 3)
    _, _, right = np.linalg.svd(vectors)
    np.testing.assert_allclose(np.abs(axes.T @ right[:3].T), np.eye(3), atol=1e-5)


@pytest.mark.parametrize("values, message", [
    ({"static": True, "keep_layers": (0,)}, "--keep_layers beside --static"),
    ({"static": True, "objectives": ("hidden",)}, "no layers that could learn hidden"),
    ({"keep_layers": (0,), "num_hidden_layers": 1}, "omitting --num_hidden_layers"),
    ({"init": "other", "hidden_size": 8}, "omitting --hidden_size"),
    ({"objectives": ("output", "output")}, "each once"),
    ({"output_dir": "teacher"}, "holds the model of --teacher"),
])
def test_options_that_contradict_each_other(values, message):
    with pytest.raises(UsageError, match=message):
        complete(DistillConfig(**{"teacher": "teacher/model", "input": "texts",
                                  "output_dir": "run", **values}))


@pytest.mark.parametrize("values, message", [
    ({"num_hidden_layers": 7}, "--num_hidden_layers 7 of a teacher with 6 layers"),
    ({"keep_layers": (1, 6)}, "ascending numbers from 0 to 5"),
    ({"keep_layers": (3, 1)}, "ascending numbers"),
    ({"hidden_size": 48}, "a teacher of 48"),
    ({"hidden_size": 41}, "no heads near the teacher's 4 divide; expected a multiple of 4"),
])
def test_students_that_cannot_be(values, message):
    teacher = ModelConfig(vocab_size=30, num_hidden_layers=6, hidden_size=48)
    with pytest.raises(UsageError, match=message):
        student_config(teacher, options(**values))


@pytest.mark.parametrize("family, width, heads", [
    ("bert", 312, 6), ("bert", 75, 1), ("bert", 384, 6), ("modernbert", 400, 8)])
def test_heads_of_a_narrower_student_are_about_as_wide_as_the_teachers(family, width, heads):
    teacher = ModelConfig.from_dict({"family": family, "vocab_size": 30, "padding_id": 0,
                                     "hidden_size": 768, "num_attention_heads": 12})
    assert student_config(teacher, options(hidden_size=width))[0].num_attention_heads == heads


def test_heads_whose_positions_rotate_have_an_even_width():
    teacher = ModelConfig.from_dict({"family": "modernbert", "vocab_size": 30, "padding_id": 0,
                                     "hidden_size": 768, "num_attention_heads": 12})
    for width, expected in ((75, "a multiple of 64"), (9, "an even number")):
        with pytest.raises(UsageError, match=f"of an even width near.*expected {expected}"):
            student_config(teacher, options(hidden_size=width))


@pytest.mark.parametrize("values", [{"intra_bottleneck_size": 16}, {"trigram_input": True}])
def test_parts_of_mobilebert_are_not_made_narrower(values):
    teacher = ModelConfig.from_dict({"family": "mobilebert", "vocab_size": 30, "hidden_size": 48,
                                     "num_attention_heads": 4, "embedding_size": 24,
                                     "intra_bottleneck_size": 0,
                                     "key_query_shared_bottleneck": False,
                                     "trigram_input": False, **values})
    with pytest.raises(UsageError, match="bottlenecks or trigrams; try --keep_layers"):
        student_config(teacher, options(hidden_size=32))


@pytest.mark.parametrize("written, found", [(768, 256), (128, 128)])
def test_embeddings_as_wide_as_the_layers_are_so_in_a_narrower_student(written, found):
    """Published files of ELECTRA name the width of embeddings even where it is the layers'."""
    teacher = ModelConfig.from_dict({"family": "electra", "vocab_size": 30, "hidden_size": 768,
                                     "embedding_size": written})
    assert student_config(teacher, options(hidden_size=256))[0].embedding_width == found


def test_windows_stay_windows():
    teacher = ModelConfig.from_dict({
        "family": "modernbert", "vocab_size": 30, "num_hidden_layers": 6, "hidden_size": 48,
        "padding_id": 0})
    with pytest.raises(UsageError, match="the others a window.*--keep_layers 0 1 2"):
        student_config(teacher, options(keep_layers=(1, 3, 5)))
    assert student_config(teacher, options(keep_layers=(0, 1, 5)))[1] == (0, 1, 5)


def test_a_narrower_static_student_begins_along_the_axes_that_it_learns(eager):
    teacher = embedder(2)
    student, _ = build(teacher, static=True, hidden_size=8)
    answers = teacher.embed(TEXTS)
    taught, axes = DistillationRun(options(), None).projected(
        {"train": answers, "dev": answers}, student)
    fill_table(student, teacher, COUNTS, axes)
    cosines = np.sum(student.embed(TEXTS) * taught["train"], 1)  # of vectors of length 1
    assert cosines.mean() > 0.8


def test_a_student_that_begins_from_a_static_one_stays_one(tmp_path):
    static(embedder(2))[0].save_pretrained(str(tmp_path))
    teacher = embedder(2, pooling="cls")
    student, layers = build(teacher, init=str(tmp_path))
    assert layers == () and student.pooling.pooling == "mean"  # of [CLS] all texts have one vector
    assert student.options()["mask_specials"] and len(student.encoder.weights) == 1
    with pytest.raises(UsageError, match="has no layers that could learn relations"):
        build(teacher, init=str(tmp_path), objectives=("output", "relations"))


def test_answers_that_are_not_finite_are_not_kept_and_damaged_ones_not_read(tmp_path):
    teacher, run = embedder(1), DistillationRun(options(), None)
    features = run.features(TEXTS, teacher, 16)
    assert teacher_outputs(teacher, features, str(tmp_path / "kept")).shape == (len(TEXTS), 16)
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(BertTfError, match="npy is damaged; try deleting it"):
        teacher_outputs(teacher, features, str(tmp_path / "kept"))
    table = teacher.encoder.backbone.embeddings.word_embeddings
    table.assign(np.full(table.shape, np.inf))
    with pytest.raises(BertTfError, match="the teacher gives answers that are not finite"):
        teacher_outputs(teacher, features, str(tmp_path / "none"))
    assert not list((tmp_path / "none").iterdir())


def test_a_static_teacher_has_no_layers_to_give():
    teacher, _ = static(embedder(2))
    for values in ({}, {"hidden_size": 8}, {"num_hidden_layers": 1}, {"keep_layers": (0,)}):
        with pytest.raises(UsageError, match="a static teacher.*try --static"):
            build(teacher, **values)
    assert build(teacher, static=True, hidden_size=8)[0].width == 8


def test_rows_that_no_token_is_of_stay_empty_in_a_static_student():
    small = embedder(2)
    teacher = SentenceEmbedder(small.config.replace(vocab_size=small.config.vocab_size + 3),
                               seed=2, preprocessor=small.preprocessor)
    _, table = static(teacher, np.append(COUNTS, [0, 0, 0]))
    assert not table[-3:].numpy().any() and table[:-3].numpy().any(1).all()


def test_means_of_a_static_students_vectors_become_as_long_as_the_teachers():
    teacher = embedder(2)
    student, table = static(teacher)
    student.pooling.normalize = False
    before = table.numpy()
    random = np.random.default_rng(1)
    special = teacher.preprocessor.tokenizer.vocabulary
    rows = [[special.cls_id, *random.integers(5, len(before), 4), special.sep_id]
            for _ in range(20)]
    means = np.stack([before[row[1:-1]].mean(0) for row in rows])
    scale_table(student, Features({"input_word_ids": Ragged.of_rows(rows)}, np.arange(20)),
                2.5 * means)
    np.testing.assert_allclose(table.numpy(), 2.5 * before, rtol=1e-5)

"""`--pretokenize morphemes` through the stages: as if the text had come cut into morphemes."""

import json
import os

import pytest

from bert_tf import analyse, cli, create_data, learn_vocab

SUBJECTS = ("영화는", "배우가", "감독은", "이야기가", "음악도")
PREDICATES = ("재미있었다.", "지루했습니다", "좋았고 또 보고싶다!", "별로예요ㅠㅠ", "최고였다ㅋㅋ")
LINES = [f"{subject} {adverb} {predicate}" for subject in SUBJECTS
         for adverb in ("정말", "너무") for predicate in PREDICATES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With `raw.txt`, `analysed.txt`, and vocabularies learned of both, `of_raw`, `of_analysed`."""
    folder = tmp_path_factory.mktemp("morphemes")
    for name, lines in (("raw", LINES), ("analysed", analyse(LINES))):
        documents = ["\n".join(lines[start::4]) for start in range(4)]
        (folder / f"{name}.txt").write_text("\n\n".join(documents) + "\n")
        flags = ["--pretokenize", "morphemes"] if name == "raw" else []
        assert cli.run(learn_vocab.main, [
            "--input", str(folder / f"{name}.txt"), "--vocab_size", "200", *flags,
            "--output", str(folder / f"of_{name}" / "vocab.txt")]) == 0
    return folder


def _shards(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)
            if name.endswith(".tfrecord")}


def _make(folder, text, vocabulary, output, *flags):
    return cli.run(create_data.main, [
        "--input", str(folder / f"{text}.txt"), "--vocab", str(folder / vocabulary / "vocab.txt"),
        "--output_dir", str(folder / output), "--seq_length", "32", *flags])


def test_a_vocabulary_is_that_of_the_analysed_text(folder, capsys):
    assert (folder / "of_raw/vocab.txt").read_text() == (
        folder / "of_analysed/vocab.txt").read_text()
    assert json.loads((folder / "of_raw/tokenizer_config.json").read_text()) == {
        "lower_case": False, "strip_accents": False, "normalization": "nfc",
        "pretokenize": "morphemes"}
    assert "pretokenize" not in (folder / "of_analysed/tokenizer_config.json").read_text()
    assert cli.run(learn_vocab.main, ["--input", str(folder / "raw.txt"),
                                      "--output", str(folder / "of_raw" / "other.txt")]) == 2
    assert "of_raw has pretokenize=morphemes, not None; try --output" in capsys.readouterr().err


def test_examples_are_those_of_the_analysed_text(folder):
    assert _make(folder, "raw", "of_raw", "data") == 0
    assert _make(folder, "analysed", "of_analysed", "data_analysed") == 0
    assert _shards(folder / "data") == _shards(folder / "data_analysed") != {}
    options = json.loads((folder / "data/manifest.json").read_text())["options"]
    assert options["pretokenize"] == "morphemes"
    options = json.loads((folder / "data_analysed/manifest.json").read_text())["options"]
    assert options.get("pretokenize") is None


def test_a_flag_against_the_folder_is_refused(folder, capsys):
    flags = ("--pretokenize", "morphemes")
    assert _make(folder, "raw", "of_analysed", "refused", *flags) == 2
    assert "pretokenize=morphemes, but" in capsys.readouterr().err
    assert _make(folder, "raw", "of_raw", "data", *flags) == 0
    assert "reusing" in capsys.readouterr().err


def test_a_damaged_statement_is_refused(folder, tmp_path):
    from bert_tf.errors import UsageError
    from bert_tf.tokenization.tokenizer import Tokenizer, read_options

    path = str(tmp_path / "tokenizer_config.json")
    (tmp_path / "tokenizer_config.json").write_text(
        '{"lower_case": true, "strip_accents": false, "pretokenize": "syllables"}')
    with pytest.raises(UsageError, match="pretokenize='syllables'; expected 'morphemes' or null"):
        read_options(path)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"lower_case": true, "strip_accents": false, "pretokenize": null}')
    assert read_options(path) == {"lower_case": True, "strip_accents": False}
    assert Tokenizer.load(str(folder / "of_raw")).pretokenize == "morphemes"
    Tokenizer.load(str(folder / "of_raw")).save(str(tmp_path))
    assert Tokenizer.load(str(tmp_path)).pretokenize == "morphemes"


@pytest.fixture
def flags(folder, tmp_path):
    """Options of finetune: a vocabulary of morphemes to start from."""
    return _flags(vocab=str(folder / "of_raw/vocab.txt"))


def test_finetuning_takes_it_from_the_vocabulary(folder, flags, tmp_path):
    from bert_tf.errors import UsageError
    from bert_tf.finetune.init import find_start

    def start(name, **changes):
        options = flags.replace(**changes)
        return find_start(options, str(tmp_path / name), lambda: LINES * 2).tokenizer

    assert start("given").pretokenize == "morphemes"
    assert start("agreeing", pretokenize="morphemes").pretokenize == "morphemes"
    with pytest.raises(UsageError, match="pretokenize=morphemes, but"):
        start("refused", pretokenize="morphemes", vocab=str(folder / "of_analysed/vocab.txt"))
    learned = start("learned", pretokenize="morphemes", vocab=None)
    assert learned.pretokenize == "morphemes"
    assert "영화" in learned.vocabulary.tokens and "영화는" not in learned.vocabulary.tokens
    # Found again by a run that goes on.
    assert start("learned", pretokenize="morphemes", vocab=None).pretokenize == "morphemes"


def test_labelled_texts_are_read_in_morphemes(folder):
    import numpy as np

    from bert_tf.data.term_weights import learn_term_weights
    from bert_tf.tasks.base.examples import TextExample
    from bert_tf.tasks.base.text_batches import text_batches
    from bert_tf.tasks.base.text_features import text_features
    from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
    from bert_tf.tokenization.load import load_tokenizer

    of_raw, of_analysed = (load_tokenizer(str(folder / name)) for name in ("of_raw", "of_analysed"))
    analysed = analyse(LINES)

    def ids(texts, tokenizer):
        examples = [TextExample(id=str(number), text_a=text, text_b=None, label="a", group=None,
                                where="here") for number, text in enumerate(texts)]
        preprocessor = TextPreprocessor(tokenizer, seq_length=32)
        return text_features(examples, preprocessor, ["a"],
                             "single_label").rows["input_word_ids"].values

    np.testing.assert_array_equal(ids(LINES, of_raw), ids(analysed, of_analysed))
    assert len(ids(LINES, of_analysed)) != len(ids(analysed, of_analysed))
    batches = text_batches(LINES, [0] * len(LINES), TextPreprocessor(of_raw, seq_length=32), 8,
                           seed=1)
    assert sorted(text.decode() for texts, _ in batches for text in texts.numpy()) == (
        sorted(analysed))
    np.testing.assert_array_equal(learn_term_weights(LINES, of_raw).idf,
                                  learn_term_weights(analysed, of_analysed).idf)


def test_tags_are_those_of_the_words_of_the_file(folder):
    from bert_tf.tasks.token_classification.examples import TagExample
    from bert_tf.tasks.token_classification.features import tag_features
    from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
    from bert_tf.tokenization.load import load_tokenizer

    labels = ["B-X", "I-X", "O"]
    example = TagExample("1", ("배우가", "정말", "영화", "는"), ("B-X", "O", "O", "B-X"),
                         (True, True, False, False))
    preprocessor = WordPreprocessor(load_tokenizer(str(folder / "of_raw")), seq_length=32)
    features = tag_features([example], preprocessor, labels)
    tokens = preprocessor.tokenizer.tokens(features.rows["input_word_ids"].values).numpy()
    told = [(token.decode(), labels[number] if number >= 0 else None) for token, number in zip(
        tokens, features.rows["label_ids"].values, strict=True)]
    assert told == [("[CLS]", None), ("배우", "B-X"), ("가", "I-X"), ("정말", "O"), ("영화", "O"),
                    ("는", "B-X"), ("[SEP]", None)]
    assert features.units[:, 0].tolist() == [0, 0, 1, 2, 3]


def test_answers_are_learned_in_analysed_text(folder):
    from bert_tf.tasks.question_answering.examples import SpanExample
    from bert_tf.tasks.question_answering.features import span_features
    from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
    from bert_tf.tokenization.load import load_tokenizer

    preprocessor = QuestionPreprocessor(load_tokenizer(str(folder / "of_raw")), seq_length=64)
    example = SpanExample("1", "배우가", "정말 영화는 최고였다", (("영화", 3),))
    rows = span_features([example], preprocessor, training=True).rows
    tokens = preprocessor.tokenizer.tokens(rows["input_word_ids"].values).numpy()
    assert [token.decode() for token in tokens[:8]] == [
        "[CLS]", "배우", "가", "[SEP]", "정말", "영화", "는", "최고"]
    assert (rows["start_positions"].tolist(), rows["end_positions"].tolist()) == ([5], [5])


def _flags(**given):
    from bert_tf.finetune.config import FinetuneConfig

    return FinetuneConfig(task="", train="", dev="", output_dir="", **given)


def test_entities_served_of_analysed_text_are_told_in_the_original():
    import tensorflow as tf

    from bert_tf.tasks.registry import find_task, make_type
    from bert_tf.tasks.token_classification.examples import TagExample

    def tag(text):
        """Finds 배우 and 영화 wherever they are words of what it is given."""
        (given,) = (one.decode() for one in text.numpy())
        assert given == "배우 가 정말 영화 를"
        return {"num_entities": tf.constant([2]), "starts": tf.constant([[0, 8]]),
                "ends": tf.constant([[2, 10]]), "labels": tf.constant([["X", "Y"]]),
                "scores": tf.constant([[0.5, 0.25]])}

    example = TagExample("1", ("배우가", "정말", "영화를"), ("O",) * 3, (True, True, False))
    (line,) = make_type(find_task("conll"), _flags()).predict_served(
        {"tag": tag}, {"pretokenize": "morphemes"}, [example])
    assert line["entities"] == [
        {"text": "배우", "label": "X", "start": 0, "end": 2, "score": 0.5},
        {"text": "영화", "label": "Y", "start": 7, "end": 9, "score": 0.25}]
    assert line["tags"] == ["B-X", "O", "B-Y"]


def test_answers_served_of_analysed_text_are_cut_from_the_original():
    import tensorflow as tf

    from bert_tf.tasks.question_answering.examples import SpanExample
    from bert_tf.tasks.registry import find_task, make_type

    def answer(question, context):
        assert question.numpy()[0].decode() == "무엇 을 봤 나 ?"
        assert context.numpy()[0].decode() == "나 는 영화 를 봤 다"
        return {"answers": tf.constant([["영화 를", ""]]), "starts": tf.constant([[4, 0]]),
                "ends": tf.constant([[8, 0]]), "scores": tf.constant([[0.75, 0.0]]),
                "no_answer_score": tf.constant([-1.0]), "has_answer": tf.constant([True])}

    example = SpanExample("1", "무엇을 봤나?", "나는 영화를 봤다", (("영화", 3),))
    (line,) = make_type(find_task("korquad"), _flags()).predict_served(
        {"answer": answer}, {"pretokenize": "morphemes", "null_threshold": None}, [example])
    assert line["answers"] == [{"text": "영화를", "start": 3, "end": 6, "score": 0.75}]
    assert line["answer"] == "영화를"


@pytest.mark.long
def test_an_export_says_that_text_must_be_analysed(folder, tmp_path):
    from bert_tf.config import ModelConfig
    from bert_tf.errors import UsageError
    from bert_tf.finetune.init import find_start
    from bert_tf.models.families import build_encoder
    from bert_tf.saved_model.save import EXPORT, export_saved_model
    from bert_tf.storage import files
    from bert_tf.tokenization.load import load_tokenizer

    noted = {}
    for name in ("of_raw", "of_analysed"):
        tokenizer = load_tokenizer(str(folder / name))
        config = ModelConfig(vocab_size=len(tokenizer.vocabulary), hidden_size=8,
                             num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                             max_position_embeddings=16)
        build_encoder(config).save_pretrained(str(tmp_path / name), tokenizer)
        version = export_saved_model(str(tmp_path / name), str(tmp_path / "exports" / name))
        extra = os.path.join(version, "assets.extra")
        noted[name] = " ".join(files.read_json(os.path.join(extra, EXPORT))["notes"])
        stated = files.read_json(os.path.join(extra, "tokenizer_config.json")).get("pretokenize")
        assert stated == tokenizer.pretokenize
    assert "split into morphemes" in noted["of_raw"]
    assert "morphemes" not in noted["of_analysed"]
    # --init takes it from the model folder, and from nowhere else.
    flags = _flags(init=str(tmp_path / "of_raw"))
    assert find_start(flags, str(tmp_path), None).tokenizer.pretokenize == "morphemes"
    flags = _flags(init=str(tmp_path / "of_analysed"), pretokenize="morphemes")
    with pytest.raises(UsageError, match="--pretokenize morphemes with the tokenizer in .*None"):
        find_start(flags, str(tmp_path), None)

"""The vectors that an export serves, against the Keras model's."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import SEQ_LENGTH, TEXTS, Caller, Traced, only_signatures, word_piece

import bert_tf
from bert_tf import cli, export
from bert_tf.errors import UsageError
from bert_tf.layers.term_weighting import WEIGHTINGS
from bert_tf.layers.vector_pooling import COMBINATIONS, POOLINGS
from bert_tf.retrieval.codes import VectorCode
from bert_tf.saved_model.save import export_saved_model
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder

CORPUS = ["the quick fox", "the lazy dog dog", "a fox"]


def weights():
    return bert_tf.learn_term_weights(CORPUS, word_piece(), SEQ_LENGTH)


def embedder(folder, **options):
    """The Keras model on the encoder in `folder`."""
    model = bert_tf.from_pretrained(folder, "embedder", dtype="float32",
                                    preprocessor=TextPreprocessor(word_piece(),
                                                                  SEQ_LENGTH), **options)
    if model.pooling.weighting:
        model.set_term_weights(weights())
    return model


@pytest.mark.long
@pytest.mark.parametrize("options", [
    {"pooling": "mean_max", "layers": (-1, 0), "mask_specials": True, "normalize": True,
     "weighting": "bm25"},
    {"pooling": "none", "layers": (0, 1), "combine": "sum"},
], ids=["weighted", "none"])
def test_any_model_is_exported_with_any_vector(options, model_folder):
    call = Traced(model_folder, embedding=options,
                  term_weights=weights() if "weighting" in options else None)
    model = embedder(model_folder, **options)
    expected = model(TEXTS).numpy()
    ids = {name: value.numpy() for name, value in model.read(tf.constant(TEXTS)).items()}
    answers = [call("serving_default", text=TEXTS), call("embed", text=TEXTS),
               call("embed_ids", **ids)]
    for answer in answers:
        np.testing.assert_allclose(answer["embedding"], expected, atol=1e-5)
    assert "fill_mask" in call.signatures  # as before
    (about,) = call("describe", text=[""])["description"]
    assert json.loads(about)["embedding"] == model.pooling.options()


@pytest.mark.long
def test_an_embedder_is_exported_as_it_is_but_for_what_is_asked(model_folder, tmp_path):
    folder = str(tmp_path / "model")
    embedder(model_folder, weighting="idf", normalize=True).save_pretrained(folder)
    assert set(Traced(folder).signatures) == {
        "serving_default", "embed", "embed_ids", "encode", "encode_ids", "count_tokens", "describe"}
    other = Traced(folder, embedding={"normalize": False, "weighting": "bm25"})
    np.testing.assert_allclose(other("embed", text=TEXTS)["embedding"],
                               embedder(model_folder, weighting="bm25").embed(TEXTS), atol=1e-5)


@pytest.mark.long
def test_a_long_text_is_read_in_the_windows_of_the_embedder(tmp_path, model_folder):
    folder = str(tmp_path / "model")
    model = embedder(model_folder)
    model.preprocessor = TextPreprocessor(word_piece(), 8, "windows")
    model.save_pretrained(folder)
    call = Traced(folder)
    np.testing.assert_allclose(call("embed", text=TEXTS)["embedding"], model(TEXTS), atol=1e-5)


def test_the_statistics_of_a_corpus_are_needed(model_folder, tmp_path):
    out = str(tmp_path / "out")
    with pytest.raises(UsageError, match="without the statistics of a corpus; try --corpus"):
        export_saved_model(model_folder, out, embedding={"weighting": "idf"})
    with pytest.raises(UsageError, match="term weights for a plain mean"):
        export_saved_model(model_folder, out, term_weights=weights())
    SentenceEmbedder(bert_tf.from_pretrained(model_folder).config, weighting="idf").save_pretrained(
        str(tmp_path / "unlearned"), word_piece())
    with pytest.raises(UsageError, match="without the statistics of a corpus; try --corpus"):
        export_saved_model(str(tmp_path / "unlearned"), out)


@pytest.mark.long
def test_the_command(model_folder, tmp_path, capsys):
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS))
    flags = ["--model", model_folder, "--export_dir", str(tmp_path / "out"),
             "--layers", "-1", "0", "--combine", "sum", "--mask_specials", "--normalize",
             "--weighting", "bm25", "--dimensions", "8"]
    with only_signatures("describe", "embed"):
        assert cli.run(export.main, [*flags, "--precision", "int8",
                                     "--corpus", str(tmp_path / "*.txt")]) == 0
    call = Caller(str(tmp_path / "out" / "1"))
    model = embedder(model_folder, layers=(-1, 0), combine="sum", mask_specials=True,
                     normalize=True, weighting="bm25")
    code = VectorCode(8, "int8").calibrated(model.embed(CORPUS))
    answer = call("embed", text=TEXTS)["embedding"]
    assert answer.dtype == np.int8
    assert np.abs(answer.astype(int) - code.encode(model.embed(TEXTS))).max() <= 1
    about = json.loads(call("describe", text=[""])["description"][0])["embedding"]
    served = VectorCode.from_options(about)
    assert (served.dimensions, served.precision) == (8, "int8")
    assert served.scale == pytest.approx(code.scale, rel=1e-4)
    capsys.readouterr()
    for wrong, message in [
            ([], "without the statistics of a corpus; try --corpus"),
            (["--corpus", "x", "--weighting", "none"], "expected --weighting idf or bm25"),
            (["--corpus", str(tmp_path / "absent")], "absent"),
            (["--pooling", "mode"], "mode"), (["--pooling", "max", "--weighting", "none",
                                               "--layers", "2"], "layer 2 of an encoder with 1")]:
        assert cli.run(export.main, [*flags, *wrong]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert line.startswith("error: ") and message in line


def test_the_flags_offer_what_there_is():
    choices = {action.dest: action.choices for action in export._parser()._actions}
    assert tuple(choices["pooling"]) == POOLINGS
    assert tuple(choices["combine"]) == COMBINATIONS
    assert tuple(choices["weighting"]) == ("none", *WEIGHTINGS)


@pytest.mark.long
def test_a_model_without_a_tokenizer_takes_ids(tmp_path, model_folder):
    folder = str(tmp_path / "model")
    model = bert_tf.from_pretrained(model_folder)
    model.tokenizer = None
    model.save_pretrained(folder)
    call = Traced(folder, embedding={"pooling": "sep"})
    assert "embed" not in call.signatures
    ids = {name: value.numpy() for name, value in TextPreprocessor(word_piece(), SEQ_LENGTH)(
        tf.constant(TEXTS)).items()}
    np.testing.assert_allclose(
        call("embed_ids", **ids)["embedding"],
        embedder(model_folder, pooling="sep")(TEXTS), atol=1e-5)
    with pytest.raises(UsageError, match="mask_specials without a tokenizer"):
        export_saved_model(folder, str(tmp_path / "out"), embedding={"mask_specials": True})


@pytest.mark.long
def test_vectors_of_bits(model_folder):
    vectors = embedder(model_folder, normalize=True).embed(TEXTS)
    bits = VectorCode(8, "bits")
    answer = Traced(model_folder, embedding={"normalize": True}, code=bits)(
        "embed", text=TEXTS)["embedding"]
    clear = bits.is_clear(vectors, 1e-5)
    assert clear.any() and (answer == bits.encode(vectors))[clear].all()


def test_codes_that_do_not_fit_are_refused(model_folder, tmp_path, capsys):
    flags = ["--model", model_folder, "--normalize", "--dimensions", "8",
             "--export_dir", str(tmp_path / "out")]
    for wrong, message in [(["--precision", "int8"], "int8 without texts"),
                           (["--dimensions", "17"], "dimensions=17 of vectors of 16"),
                           (["--dimensions", "9", "--precision", "bits"], "a multiple of 8"),
                           (["--pooling", "none", "--precision", "bits"], "pooling='none'")]:
        assert cli.run(export.main, [*flags, *wrong]) == 2
        assert message in capsys.readouterr().err

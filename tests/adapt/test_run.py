"""Adaptation from its command line: vocabulary, training, what stays, going on, refusing."""

import io
import re
import types

import numpy as np
import pytest
from adapting import TEXT, arguments, embedder, run
from sentiment import TINY

from bert_tf import adapt, cli
from bert_tf.adapt import run as run_module
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.load import from_pretrained
from bert_tf.models.families import build_encoder
from bert_tf.pretrain import training
from bert_tf.saved_model.source import find_source
from bert_tf.storage import files, manifest, variables
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens
from bert_tf.tokenization.load import load_tokenizer

TABLE = "bert/embeddings/word_embeddings"
TRAIN = ("--new_pieces", "9", "--train_steps", "4", "--batch_size", "4", "--max_seq_length", "16",
         "--num_processes", "1", "--checkpoint_every", "2", "--holdout", "0.2",
         "--eval_examples", "4")


def weights_of(folder, name):
    return variables.read_variables(str(folder / name / "model"))


def test_new_pieces_begin_as_the_mean_of_the_old_ones(folder, unexported):
    result = run(folder, "large", "--new_pieces", "9", "--train_steps", "0")
    before, after = weights_of(folder, "embedder"), weights_of(folder, "large/model")
    tokens = load_tokenizer(str(folder / "large" / "model")).vocabulary.tokens
    assert tokens[60:62] == ["✿", "##at"]  # of "cat", "sat" and "mat"; "✿" was unknown
    assert len(tokens) == 69 and result.vocabulary["pieces"]["added"] == 9
    place = tokens.index
    np.testing.assert_array_equal(after[TABLE][:60], before[TABLE])
    np.testing.assert_array_equal(
        after[TABLE][61], (before[TABLE][place("##a")] + before[TABLE][place("##t")]) / 2)
    assert all(after[name].tobytes() == value.tobytes() for name, value in before.items()
               if name != TABLE)
    tokens, unknown = result.vocabulary["tokens"], result.vocabulary["unknown"]
    assert tokens["after"] < 0.7 * tokens["before"] and unknown == {"before": 20, "after": 0}
    first, second = (from_pretrained(str(folder / name)) for name in ("embedder", "large"))
    old = ["the zoo", "quick fox"]  # none of these has a new piece
    assert first.embed(old).tobytes() == second.embed(old).tobytes()


def test_training_leaves_an_embedder(folder, unexported, capsys, eager):
    result = run(folder, "whole", *TRAIN)
    before, after = weights_of(folder, "whole/start"), weights_of(folder, "whole/model")
    assert before.keys() == after.keys()
    assert {name for name in before if (before[name] != after[name]).any()} > {TABLE}
    assert all((before[name] == after[name]).all() for name in before if name.startswith("cls/"))
    # A new head knows how frequent pieces are: after 4 steps it does better than chance.
    assert result.metrics["masked_lm_loss"] < np.log(69) - 0.3
    own, adapted = (from_pretrained(str(folder / name)) for name in ("embedder", "whole"))
    assert adapted.options() == own.options() and adapted.width == 5
    assert find_source(str(folder / "whole")).seq_length is None  # its own, not the examples'
    capsys.readouterr()
    assert run(folder, "whole", *TRAIN).metrics == result.metrics
    assert "this run is trained already" in capsys.readouterr().out
    for words, message in ((("--new_pieces", "8"), "new_pieces was 9, now 8"),
                           (("--learning_rate", "0.1"), "learning_rate was 0.0003, now 0.1")):
        assert cli.run(adapt.main, arguments(folder, "whole", *TRAIN, *words)) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(("words", "learns"), [
    ((), True), pytest.param(("--only_new_pieces",), False, marks=pytest.mark.long)])
def test_the_head_of_a_sparse_encoder_learns_with_it(words, learns, folder, unexported, eager):
    own = from_pretrained(str(folder / "embedder"))
    start, name = f"splade{len(words)}", f"adapted_splade{len(words)}"
    SparseEmbedder(own.config, preprocessor=own.preprocessor, seed=4).save_pretrained(
        str(folder / start))
    run(folder, name, *TRAIN, *words, model=start)
    before, after = weights_of(folder, f"{name}/start"), weights_of(folder, f"{name}/model")
    heads = [part for part in before if part.startswith("cls/predictions/")]
    assert heads and before.keys() == after.keys()
    assert all((before[part] != after[part]).any() == learns for part in heads)


@pytest.mark.parametrize("words", [("--drop_unused",), ("--new_pieces", "9")])
def test_a_sparse_encoder_keeps_the_weights_of_the_pieces_that_stay(words, folder, unexported,
                                                                    capsys):
    own = from_pretrained(str(folder / "embedder"))
    before, name = SparseEmbedder(own.config, preprocessor=own.preprocessor, seed=4), words[0][2:]
    before.save_pretrained(str(folder / f"{name}_of"))
    run(folder, name, *words, "--train_steps", "0", model=f"{name}_of")
    assert "note: this sparse encoder weighs pieces" in capsys.readouterr().out
    after = from_pretrained(str(folder / name))
    kept = {*after.preprocessor.tokenizer.vocabulary.tokens}
    kept &= {*own.preprocessor.tokenizer.vocabulary.tokens}
    first, second = ({piece: weight for piece, weight in model.sparse("the a").items()
                      if piece in kept} for model in (before, after))
    assert len(first) > 5 and second == pytest.approx(first, abs=1e-5)


def test_new_pieces_alone_learn(folder, unexported, eager):
    words = [*TRAIN, "--only_new_pieces", "--weight_decay", "0.5", "--learning_rate", "0.01"]
    result = run(folder, "alone", *words)
    before, after = weights_of(folder, "alone/start"), weights_of(folder, "alone/model")
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed == {TABLE}
    np.testing.assert_array_equal(after[TABLE][:60], before[TABLE][:60])
    assert (after[TABLE][60:] != before[TABLE][60:]).any(axis=1).sum() > 5
    assert result.metrics["masked_lm_loss"] < np.log(69) - 0.3
    old, texts = from_pretrained(str(folder / "embedder")), ["the zoo", "quick fox"]
    new = from_pretrained(str(folder / "alone"))
    assert old.embed(texts).tobytes() == new.embed(texts).tobytes()
    with pytest.raises(UsageError, match="new_rows was 9, now None"):
        run(folder, "alone", *TRAIN, "--weight_decay", "0.5", "--learning_rate", "0.01")


@pytest.mark.long
def test_rows_without_a_piece_are_left_out_where_the_model_is_trained(folder, unexported, eager):
    """Published tables are often padded to a round number of rows."""
    embedder(further_rows=4).save_pretrained(str(folder / "padded"))
    no_pieces = [*TRAIN, "--new_pieces", "0"]
    run(folder, "trimmed", *no_pieces, model="padded")
    first, after = weights_of(folder, "trimmed/start"), weights_of(folder, "trimmed/model")
    assert len(first[TABLE]) == len(after[TABLE]) == 60
    np.testing.assert_array_equal(first[TABLE], weights_of(folder, "padded")[TABLE][:60])


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--only_new_pieces",)])
def test_a_stopped_run_ends_with_the_same_bytes(words, folder, unexported, monkeypatch, eager):
    straight, part = (f"{name}{len(words)}" for name in ("straight", "part"))
    words = [*TRAIN, *words]
    run(folder, straight, *words)
    after = weights_of(folder, f"{straight}/model")
    write, train = run_module.write_adapted, training.train
    for module, name, working, last in ((run_module, "write_adapted", write, "start"),
                                        (training, "train", train, "checkpoints")):
        def killed(*given, working=working, last=last, **options):
            working(*given, **options)
            if last == "checkpoints":
                files.remove(str(folder / part / "checkpoints" / "step_00000004"))
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(module, name, killed)
            run(folder, part, *words)
        assert (folder / part / last).exists()
    run(folder, part, *words)
    again = weights_of(folder, f"{part}/model")
    assert all(again[name].tobytes() == value.tobytes() for name, value in after.items())


@pytest.mark.parametrize(("words", "code", "message"), [
    (["--train_steps", "0"], 2, "nothing to do; expected --new_pieces, --drop_unused"),
    (["--keep_at_least", "2"], 2, "--keep_at_least without --drop_unused"),
    (["--train_steps", "0", "--drop_unused", "--keep_at_least", "999"], 1,
     "no piece is more than 80 times"),
    (["--new_pieces", "-1"], 2, "-1; expected a whole number of at least 0"),
    (["--strategy", "multi_worker"], 2, "--strategy: invalid choice: 'multi_worker'"),
    (["--model", "nowhere"], 2, "nowhere does not exist"),
    (["--input", "nowhere*.txt"], 2, "nowhere*.txt"),
    (["--export_dir", "RUN"], 2, "is the run folder"),
    (["--output_dir", "MODEL"], 2, "holds the model of --model"),
    (["--max_seq_length", "99"], 2, "more than the model's 32 positions"),
    (["--objective", "rtd"], 2, "--objective rtd with --family bert"),
    (["--only_new_pieces", "--ema_decay", "0.9"], 2, "with --ema_decay, which averages whole"),
    (["--only_new_pieces", "--train_steps", "0", "--drop_unused"], 2,
     "--only_new_pieces without new pieces to train"),
    (["--input", "ONE"], 1, "--new_pieces 5: the text gives none"),
    ([*TRAIN, "--input", "MORE", "--only_new_pieces", "--drop_unused", "--keep_at_least", "90"], 1,
     "--only_new_pieces with --keep_at_least 90, which leaves all new pieces out"),
])
def test_what_is_refused_is_one_line_and_leaves_nothing(words, code, message, folder, tmp_path,
                                                        capsys):
    (tmp_path / "one.txt").write_text("a b the\n")
    (tmp_path / "more.txt").write_text(TEXT + " the" * 99)
    names = {"RUN": str(tmp_path / "run"), "MODEL": str(folder / "embedder"),
             "ONE": str(tmp_path / "one.txt"), "MORE": str(tmp_path / "more.txt")}
    given = arguments(folder, "none", "--output_dir", str(tmp_path / "run"), "--new_pieces",
                      "0" if "--train_steps" in words else "5",
                      *(names.get(word, word) for word in words))
    assert cli.run(adapt.main, given) == code
    *bars, error = capsys.readouterr().err.splitlines()
    assert message in error and error.startswith("error: ") and (code == 1 or not bars)
    assert code == 1 or not (tmp_path / "run").exists()


def test_other_models(folder, unexported, tmp_path, capsys):
    config = from_pretrained(str(folder / "embedder")).config
    build_encoder(config).save_pretrained(str(tmp_path / "bare"))
    capsys.readouterr()
    assert cli.run(adapt.main, arguments(tmp_path, "run", "--drop_unused", model="bare")) == 2
    assert "has no tokenizer" in capsys.readouterr().err
    tokenizer = load_tokenizer(str(folder / "embedder"))
    (tmp_path / "text.txt").write_text(TEXT)
    electra = ModelConfig.from_dict({**TINY, "family": "electra", "padding_id": 1,
                                     "vocab_size": config.vocab_size})
    ReplacedTokens(electra, electra, seed=1).save_pretrained(str(tmp_path / "pair"), tokenizer)
    result = run(tmp_path, "run", "--new_pieces", "500", "--drop_unused", "--keep_at_least", "3",
                 "--keep_characters", "--train_steps", "0", model="pair")
    (found,) = re.findall("--new_pieces 500: the text gives ([0-9]+) only", capsys.readouterr().out)
    # The words but "the" and "a", of which "a" is a letter, and the new character as a piece.
    words = {"cat", "sat", "on", "mat", "it", "saw", "dog", "by", "door", "✿"}
    tokens = load_tokenizer(str(tmp_path / "run" / "model")).vocabulary.tokens
    assert set(tokens[-10:]) == words and int(found) > 10
    assert result.vocabulary["pieces"]["added"] == 10
    pair = from_pretrained(str(tmp_path / "run"))
    assert pair.config.vocab_size == pair.generator.config.vocab_size == 5 + 52 + 1 + 10


def test_other_text_from_standard_input_is_refused_before_it_replaces_any(folder, monkeypatch):
    made = folder / "piped"
    (made / "checkpoints/step_00000012").mkdir(parents=True)
    manifest.write(str(made / run_module._RECORD), {"new_pieces": 0})
    spool = made / "stdin.txt"
    for before in (None, TEXT):  # nor does it leave any
        if before:
            spool.write_text(before)
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(b"other text\n")))
        with pytest.raises(UsageError, match="12 steps of training would be lost"):
            run(folder, "piped", "--input", "-", "--new_pieces", "9", "--train_steps", "0",
                "--overwrite")
        assert (spool.read_text() if spool.exists() else None) == before

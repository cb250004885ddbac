"""What every entry point says about a wrong command line: one line, exit code 2."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from bert_tf import (
    __version__,
    cli,
    convert,
    create_data,
    errors,
    evaluate,
    export,
    finetune,
    index,
    learn_vocab,
    pretrain,
    query,
    visualize,
)
from bert_tf.finetune.config import TrainingOptions
from bert_tf.tokenization.options import CasingOptions

CREATE = ["--input", "a", "--vocab", "b", "--output_dir", "c"]


@pytest.mark.parametrize(("main", "arguments", "message"), [
    (pretrain.main, ["--trian_steps", "4"], "unknown argument --trian_steps; try --train_steps"),
    (pretrain.main, ["--train_step=4"], "unknown argument --train_step=4; try --train_steps"),
    (pretrain.main, ["--zzz"], "unknown argument --zzz; try --help"),
    (pretrain.main, ["--lr", "1e-4"], "unknown argument --lr; try --learning_rate"),
    (pretrain.main, ["--init_checkpoint", "a"], "unknown argument --init_checkpoint; try --init"),
    (pretrain.main, ["--vocab_siz", "9"], "unknown argument --vocab_siz; try --vocab_size"),
    (finetune.main, ["--tsak", "cola"], "unknown argument --tsak; try --task"),
    (finetune.main, ["--bs=8"], "unknown argument --bs=8; try --batch_size"),
    (pretrain.main, ["--learning-rate=0"], "learning_rate=0.0; expected above 0"),
    (export.main, ["--top-k", "0"], "0; expected a whole number of at least 1"),
    (pretrain.main, ["--train_steps", "x"], "x; expected a whole number of at least 1"),
    (pretrain.main, ["--seed", "-1"], "-1; expected a whole number of at least 0"),
    (pretrain.main, ["--holdout", "1.5"], "1.5; expected a fraction in [0, 1)"),
    (pretrain.main, ["--short_seq_prob", "nan"], "nan; expected a fraction in [0, 1)"),
    (pretrain.main, ["--learning_rate", "0"], "learning_rate=0.0; expected above 0"),
    (pretrain.main, ["--learning_rate", "nan"], "learning_rate=nan; expected above 0"),
    (pretrain.main, ["--seq_length", "3"], "--max_seq_length 3; expected at least 8"),
    (pretrain.main, ["--seq_length", "513"], "try --max_seq_length 512"),
    (pretrain.main, ["--preset", "huge"], "invalid choice: 'huge' (choose from 'tiny'"),
    (pretrain.main, ["--batch_size", "4", "--batch_tokens", "9"], "leave one out"),
    (pretrain.main, ["--init", "a", "--preset", "tiny"], "--init brings its own sizes"),
    (pretrain.main, ["--format", "doc_sentences", "--objective", "mlm+nsp"], "needs pairs"),
    (pretrain.main, ["--batch_size", "4", "--accumulate_steps", "3"], "try batch_size=6"),
    (pretrain.main, ["--output_dir", "r", "--export_dir", "./r/"], "./r/ is the run folder"),
    (pretrain.main, ["--output_dir", "runs/a[1]"], "--export_dir saved_models/a[1]; expected no *"),
    (create_data.main, [], "required: --input, --vocab, --output_dir"),
    (create_data.main, [*CREATE, "--holdout", "1"], "1; expected a fraction in [0, 1)"),
    (create_data.main, [*CREATE[:-1], ""], "--output_dir: an empty path; expected that of a file"),
    (pretrain.main, ["--output_dir="], "--output_dir: an empty path; expected that of a file"),
    (learn_vocab.main, ["--input", "a", "--output", "new/"], "new/ is a folder; try --output new/"),
    (export.main, ["--model", "a", "--top_k", "0"], "0; expected a whole number of at least 1"),
])
def test_wrong_usage_is_one_line(main, arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(main, arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    assert message in printed.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("config", "message"), [
    ("3", "c.json: int; expected a JSON object"),
    ('{"vocab_size": 9, "hiden_size": 8}', "c.json: unknown key 'hiden_size'; try 'hidden_size'"),
    ('{"vocab_size": 9, "hidden_act": ["gelu"]}', "c.json: hidden_act=['gelu']; expected str"),
    ('{"vocab_size": 9, "hidden_size": 10, "num_attention_heads": 3}', "leaves a remainder"),
    ('{"vocab_size": 9, "initializer_range": Infinity}', "initializer_range=inf"),
    ('{"vocab_size": 9, "type_vocab_size": 1}', "try --format full_sentences"),
])
def test_wrong_model_configuration(config, message, capsys, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(config)
    assert cli.run(pretrain.main, ["--config", str(path), "--format", "segment_pair"]) == 2
    assert message in capsys.readouterr().err


def test_a_stop_says_how_to_go_on(capsys):
    def stopped(argv):
        raise KeyboardInterrupt

    assert cli.run(stopped) == 130
    assert capsys.readouterr().err == (
        "\nstopped: what is finished is kept, the same command goes on from there\n")


@pytest.mark.parametrize(("main", "words"), [
    (convert.main, []), (evaluate.main, []), (export.main, []), (index.main, ["search"]),
    (learn_vocab.main, []), (query.main, []), (visualize.main, ["positions"])])
def test_a_stop_of_what_keeps_nothing(main, words, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.Parser, "parse_args", stopped)
    assert cli.run(main, words) == 130
    assert capsys.readouterr().err == (
        "\nstopped: nothing is kept, the same command begins anew\n")


def test_an_error_commands_no_terminal(capsys):
    def main(_):
        raise errors.BertTfError("x.safetensors: \x1b[31ma\x9b\r\n다음\u3000줄\u202e\u2066\ud800")

    assert cli.run(main) == 1
    assert capsys.readouterr().err == (
        "error: x.safetensors: \\x1b[31ma\\x9b\\r\n다음\u3000줄\\u202e\\u2066\\ud800\n")


def test_notes_command_no_terminal(capsys):
    errors.print_note("a\x1b[31m", file=sys.stderr)
    assert capsys.readouterr().err == "note: a\\x1b[31m\n"
    package = pathlib.Path(errors.__file__).parent
    assert [path for path in package.rglob("*.py") if re.search(
        r'print\(f?"note: ', path.read_text(encoding="utf-8"))] == []


def test_output_that_nobody_takes(capsys, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    for file, error in ((writer, ""), ("/dev/full", "error: cannot write the output: No space left "
                                                    "on device\n")):
        with open(file, "w") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert cli.run(print, "few words") == 1
        assert capsys.readouterr().err == error


@pytest.mark.parametrize("main", [create_data.main, evaluate.main, export.main, finetune.main,
                                  learn_vocab.main, pretrain.main])
def test_help_ends_with_success(main, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "python -m bert_tf." in capsys.readouterr().out


def test_flags_stand_where_one_likes_and_have_hyphens_too():
    parser = cli.Parser("any", "")
    parser.add_argument("model")
    parser.add_argument("texts", nargs="*")
    parser.add_argument("--batch_size", type=int)
    cli.add_options(parser, CasingOptions)
    parsed = parser.parse_args(["m", "--batch-size", "3", "a", "--no-lower-case", "b-c", "--",
                                "--batch-size"])
    assert (parsed.model, parsed.texts) == ("m", ["a", "b-c", "--batch-size"])
    assert (parsed.batch_size, parsed.lower_case) == (3, False)


def test_the_version(capsys):
    for words in (["--version"], ["--model", "a", "--version"]):
        with pytest.raises(SystemExit) as ended:
            export.main(words)
        assert ended.value.code == 0
        assert capsys.readouterr().out == f"bert_tf {__version__}\n"
    with pytest.raises(SystemExit):
        visualize.main(["--version"])
    assert capsys.readouterr().out == f"bert_tf {__version__}\n"
    with pytest.raises(errors.UsageError, match="--version"):  # of the model that is asked
        query.main(["bert_tiny", "--version"])


@pytest.mark.parametrize(("words", "code", "says"), [
    (["--version"], 0, __version__), (["--help"], 0, "visualize"), ([], 2, "learn_vocab"),
    (["export", "--top_k", "0"], 2, "at least 1"),
    (["learn-vocab"], 2, "--input"), (["pretarin"], 2, "COMMAND='pretrain'")])
def test_the_package_is_a_command(words, code, says, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bert-tf", *words])
    assert cli.main() == code
    printed = capsys.readouterr()
    assert says in printed.out + printed.err


def test_the_package_is_run_by_its_name():
    done = subprocess.run([sys.executable, "-m", "bert_tf", "--version"], capture_output=True,
                          text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"bert_tf {__version__}\n")


def test_texts_of_a_flag_that_is_given_again_add_up_and_the_rest_is_replaced():
    """Also in `visualize`, whose views add their own flags."""
    parser = cli.Parser("name", "What it does.")
    parser.add_argument_group("texts").add_argument("--input", nargs="+", default=["c"])
    parser.add_argument("--size", type=int)
    parser.add_argument("--of", nargs="+", choices=["sum", "idf"])
    cli.add_options(parser, TrainingOptions)
    given = parser.parse_args(["--input", "a", "--size", "1", "--of", "sum", "--epochs", "6", "9",
                               "--input", "b", "--size", "2", "--of", "idf", "--epochs", "3"])
    assert (given.input, given.size, given.of, given.epochs) == (["a", "b"], 2, ["idf"], [3])
    assert parser.parse_args([]).input == ["c"]


@pytest.mark.parametrize("words", [
    ["layers", "--input", "a.json"], ["ranking", "--pairs", "./a.json"],
    ["sharing", "--input", "*.json"], ["training", "--run", "b", "a.json"]])
def test_visualize_replaces_no_file_that_it_reads(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    model = [] if words[0] == "training" else ["--model", "m"]
    assert cli.run(visualize.main, [*words, *model, "--output", "a.json"]) == 2
    assert "--output a.json is one of the files that are read" in capsys.readouterr().err
    assert (tmp_path / "a.json").read_text() == "{}"

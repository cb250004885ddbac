"""Curves of a run are the lines of its file that count, restarts and damage seen to."""

import json
import os
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import colors, image

from bert_tf import cli, visualize
from bert_tf.errors import BertTfError, UsageError
from bert_tf.visualization.training import curves, draw_runs, metric_names, running_median
from bert_tf.visualization.training_runs import positions, read_run

# Killed after step 40, went back to 20; stopped after step 50, which was saved.
LINES = """
{"step": 10, "split": "train", "loss": 9.0, "learning_rate": 0.1, "tokens_per_second": 100.0}
{"step": 20, "split": "train", "loss": 8.0, "learning_rate": 0.2, "tokens_per_second": 200.0}
{"step": 20, "split": "eval", "loss": 8.5, "accuracy": 0.25}
{"step": 30, "split": "train", "loss": 70.0, "learning_rate": 9.0, "tokens_per_second": 1.0}
{"step": 40, "split": "train", "loss": 60.0, "learning_rate": 9.0, "tokens_per_second": 1.0}
{"step": 40, "split": "eval", "loss": 65.0, "accuracy": 0.9}
{"restart": 20}
{"step": 30, "split": "train", "loss": 7.0, "learning_rate": 0.3, "tokens_per_second": 50.0}
{"step": 40, "split": "train", "loss": null, "learning_rate": 0.4, "tokens_per_second": 100.0}
{"step": 40, "split": "eval", "loss": 6.5, "accuracy": 0.5}
{"step": 50, "split": "train", "loss": 5.0, "learning_rate": 0.5, "tokens_per_second": 400.0}
{"restart": 50, "note": "2 replicas, 1 before"}
{"step": 55, "split": "eval", "loss": 5.5, "accuracy": 0.75}
""".strip().splitlines()


@pytest.fixture
def run_folder(tmp_path):
    """Function that writes lines as the run folder NAME, of 10 tokens a step."""
    def write(lines=LINES, name="run", end="\n"):
        folder = tmp_path / name
        (folder / "data").mkdir(parents=True)
        (folder / "metrics.jsonl").write_text("\n".join(lines) + end)
        (folder / "train_config.json").write_text('{"batch_size": 4}')
        (folder / "data" / "manifest.json").write_text(
            '{"splits": {"train": {"mean_tokens": 2.5}}}')
        return str(folder)
    return write


def test_what_was_made_again_counts_once(run_folder):
    run = read_run(run_folder())
    assert run["restarts"] == [20, 50] and run["lost"] == 3 and run["notes"] == []
    drawn = curves(run)
    assert list(drawn) == ["loss", "learning_rate", "tokens_per_second", "accuracy"]
    loss = drawn["loss"]
    assert loss["train"]["step"].tolist() == [10, 20, 30, 50]  # 40 has none
    assert loss["train"]["value"].tolist() == [9, 8, 7, 5]
    assert loss["eval"]["step"].tolist() == [20, 40, 55]
    assert loss["eval"]["value"].tolist() == [8.5, 6.5, 5.5]
    assert drawn["accuracy"].keys() == {"eval"}
    assert drawn["learning_rate"]["train"]["value"].tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert metric_names([run]) == ["loss", "accuracy", "learning_rate", "tokens_per_second"]


def test_axes(run_folder, tmp_path):
    run = read_run(run_folder())
    assert curves(run, "tokens")["accuracy"]["eval"]["x"].tolist() == [200, 400, 550]
    # 100 tokens at 100, 200, 50, 100 and 400 a second; what follows is as fast as the last.
    seconds = np.cumsum([1, 0.5, 2, 1, 0.25])
    found = curves(run, "seconds")
    np.testing.assert_allclose(found["learning_rate"]["train"]["x"], seconds)
    np.testing.assert_allclose(found["accuracy"]["eval"]["x"],
                               [seconds[1], seconds[3], seconds[4] + 50 / 400])
    np.testing.assert_allclose(positions(run, [0, 5, 25], "seconds"), [0, 0.5, 2.5])
    (tmp_path / "run" / "train_config.json").unlink()
    alone = read_run(str(tmp_path / "run" / "metrics.jsonl"))
    assert curves(alone)["loss"]["train"]["x"].tolist() == [10, 20, 30, 50]
    with pytest.raises(UsageError, match="--x tokens with .*metrics.jsonl.*--x steps"):
        curves(alone, "tokens")
    with pytest.raises(UsageError, match="x='epochs' is unknown"):
        curves(run, "epochs")


def test_a_first_training_is_told_and_has_its_own_curves(run_folder, tmp_path):
    path = run_folder()
    assert read_run(path)["notes"] == []
    run_folder(name=os.path.join("run", "masked_lm"))
    (tmp_path / "run/masked_lm/data/manifest.json").unlink()
    assert read_run(os.path.join(path, "masked_lm"))["tokens_per_step"] is None  # of another run
    (tmp_path / "run/run.json").touch()
    (note,) = read_run(path)["notes"]
    assert note.endswith(f"of --run {os.path.join(path, 'masked_lm')}")
    assert read_run(os.path.join(path, "masked_lm"))["tokens_per_step"] == 10
    (tmp_path / "run/metrics.jsonl").unlink()
    with pytest.raises(UsageError, match="in its first training; try --run .*masked_lm"):
        read_run(path)


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=12), st.integers(1, 9))
def test_running_median(values, size):
    expected = [statistics.median(values[max(place - (size - 1) // 2, 0):place + size // 2 + 1])
                for place in range(len(values))]
    np.testing.assert_allclose(running_median(values, size), expected)


def test_a_running_median_of_more_than_there_are_is_that_of_all():
    np.testing.assert_array_equal(running_median([4.0, 1.0, 2.0], 10**12), [2.0] * 3)


def test_a_last_line_that_is_cut_short(run_folder):
    for name, cut in (("a", '{"step": 60, "spl'), ("b", "\0\0\0"), ("c", '{"restart": 5')):
        run = read_run(run_folder([*LINES, cut], name, end=""))
        assert run["eval"]["step"].tolist() == [20, 40, 55]
        assert [note.partition("metrics.jsonl ")[2] for note in run["notes"]] == [
            "line 14 is truncated and skipped"]


@pytest.mark.parametrize(("line", "told"), [
    ('{"step": 30, "spl', "line 5: invalid JSON"),
    ("[1]", "line 5: not a line of metrics"),
    ('{"step": -1, "split": "train"}', "line 5: not a line of metrics"),
    ('{"step": 1.5, "split": "train"}', "line 5: not a line of metrics"),
    ('{"step": 30, "split": "test"}', "line 5: not a line of metrics"),
    ('{"step": 30, "split": "train", "loss": "9"}', "line 5: not a line of metrics"),
    ('{"step": 30, "split": "train", "loss": true}', "line 5: not a line of metrics"),
    (f'{{"step": {2**70}, "split": "train"}}', "line 5: not a line of metrics"),
    (f'{{"step": 30, "split": "train", "loss": {10**400}}}', "line 5: not a line of metrics"),
    ('{"step": 30, "split": "train", "loss": 1' + "0" * 5000 + "}", "line 5: invalid JSON"),
    ('{"step": 30, "split": "train", "\\ud800": 1}', "line 5: not a line of metrics"),
    ('{"step": 30, "split": "train", "restart": null}', "line 5: not a line of metrics"),
    ('{"restart": "5"}', "line 5: not a line of metrics"),
    ('{"step": 30, "split": "train", "loss": 9}', "line 5: step 30 after 30"),
    ("", "line 5: invalid JSON")])
def test_other_damage_is_named(run_folder, line, told):
    with pytest.raises(BertTfError, match=f"metrics.jsonl {told}"):
        read_run(run_folder([*LINES[:4], line, *LINES[4:]]))


def test_what_is_no_run(run_folder, tmp_path):
    for name, line in (("empty", '{"restart": 0}'), ("bare", '{"step": 1, "split": "train"}')):
        with pytest.raises(BertTfError, match="holds no metrics"):
            read_run(run_folder([line], name))
    with pytest.raises(BertTfError, match="no such file"):
        read_run(str(tmp_path / "none"))
    (tmp_path / "tuned" / "trials" / "first").mkdir(parents=True)
    with pytest.raises(UsageError, match="several trainings; expected one run; try .*first"):
        read_run(str(tmp_path / "tuned"))


def test_what_the_training_itself_writes(tmp_path):
    from bert_tf.training.metrics import MetricsLog

    for start, steps, end in ((0, (5, 10, 15), '{"step": 20, "sp'), (10, (15, 20), "")):
        log = MetricsLog(str(tmp_path), start, 20)
        for step in steps:
            log.write(step, "train", {"loss": float(start + step), "norm": float("nan")})
        log.write(steps[-1], "eval", {"loss": 1.0})
        log.close()
        with open(tmp_path / "metrics.jsonl", "a") as stream:
            stream.write(end)
    run = read_run(str(tmp_path))
    assert (run["restarts"], run["lost"], run["notes"]) == ([10], 2, [])
    assert curves(run)["loss"]["train"]["value"].tolist() == [5, 10, 25, 30]
    assert curves(run)["loss"]["eval"]["step"].tolist() == [20]
    assert curves(run)["norm"]["train"]["value"].size == 0


def test_panels(run_folder):
    lines = [line.replace('"accuracy"', '"$f1$"').replace('"restart": 20', '"restart": 40')
             for line in LINES if '"step": 30' not in line and '"step": 40' not in line]
    runs = {"first": read_run(run_folder()), "_2nd $x$": read_run(run_folder(lines, "other"))}
    figure = draw_runs(runs, smooth=3)
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}
    assert list(panels) == ["loss", "accuracy", "$f1$", "learning rate", "tokens per second"]

    def drawn(title):
        """Of each line: colour, marker, dashes, width."""
        return [(line.get_color(), line.get_marker(), line.get_linestyle(), line.get_xdata())
                for line in panels[title].lines]

    assert not panels["$f1$"].title.get_parse_math()
    assert {colour for colour, *_ in drawn("accuracy")} == {"C0"}
    assert {colour for colour, *_ in drawn("$f1$")} == {"C1"}
    assert {colour for colour, *_ in drawn("loss")} == {"C0", "C1"}
    restarts = [(colour, x[0]) for colour, _, dashes, x in drawn("loss") if dashes == "--"]
    assert restarts == [("C0", 20), ("C0", 50), ("C1", 40), ("C1", 50)]
    assert [list(x) for *_, dashes, x in drawn("$f1$") if dashes == "None"] == [[20, 55]]
    smooth = [line for line in panels["loss"].lines
              if line.get_alpha() is None and line.get_linestyle() == "-"]
    np.testing.assert_allclose(smooth[0].get_ydata(), [8.5, 8, 7, 6])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == [*runs, "held out", "restart"]


def test_the_command(run_folder, tmp_path, capsys):
    path, other = run_folder(), run_folder(LINES[:3], "other")

    def run(output, *flags):
        return cli.run(visualize.main, ["training", "--output", str(tmp_path / output), "--run",
                                        *flags])

    assert run("a.json", path, "--x", "tokens", "--smooth", "3", "--metric", "loss") == 0
    assert ("run: 55 steps, last loss 5.0000, held out 5.5000, restarted at 20, 50, 3 logged lines "
            "made again") in capsys.readouterr().out
    (told,) = json.loads((tmp_path / "a.json").read_text())["runs"]
    assert told["restarts"] == [20, 50] and told["tokens_per_step"] == 10
    assert told["metrics"] == {"loss": {
        "train": {"step": [10, 20, 30, 50], "x": [100, 200, 300, 500], "value": [9, 8, 7, 5],
                  "smooth": [8.5, 8, 7, 6]},
        "eval": {"step": [20, 40, 55], "x": [200, 400, 550], "value": [8.5, 6.5, 5.5]}}}
    assert run("a.png", path) == 0 == run("b.png", path, other)
    first, second = (image.imread(tmp_path / f"{name}.png")[..., :3] for name in "ab")
    for colour, shown in (("C0", (True, True)), ("C1", (False, True))):
        wanted = np.array(colors.to_rgb(colour))
        assert tuple(bool((np.abs(picture - wanted).max(axis=-1) < 0.02).any())
                     for picture in (first, second)) == shown
    assert run("a.png", path, "--metric", "los") == 2
    assert "metric='los' is unknown; expected one of loss, " in capsys.readouterr().err

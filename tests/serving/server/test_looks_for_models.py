"""Configurations and versions that come, go, fail and are mistyped while a server runs."""

import asyncio
import contextlib
import shutil
import threading

import pytest
from fake_models import (
    PRIVATE,
    Loaded,
    add_version,
    running,
    settings_of,
    states,
    write_config,
)
from server_harness import PATIENCE, wait_until

from bert_tf.serving.server import model_store
from bert_tf.serving.wire.request import ServingError, Spec

pytestmark = pytest.mark.usefixtures("fake_versions")


@pytest.fixture
def quick_looks(monkeypatch):
    """The server sleeps for hundredths of seconds."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, *rest: sleep(seconds / 100, *rest))


def test_what_loading_raises_ends_the_version_and_no_look_at_folders_is_the_last(
        tmp_path, quick_looks, monkeypatch, caplog):
    add_version(tmp_path / "m")
    find = model_store.find_versions
    with running(settings_of(tmp_path)) as (_, core):
        looks = []

        def fails(configs):
            looks.append(configs)
            raise RuntimeError(PRIVATE)

        monkeypatch.setattr(model_store, "find_versions", fails)
        wait_until(lambda: len(looks) > 2, "looks go on")
        monkeypatch.setattr(model_store, "find_versions", find)
        add_version(tmp_path / "m", 2, "fail")
        wait_until(lambda: states(core) == {1: "AVAILABLE", 2: "END"}, "version 2 has failed")
        (told, _) = core.status("m")
        assert told.problem.code == "INTERNAL" and "log says why" in told.problem.message
        assert PRIVATE in caplog.text and PRIVATE not in told.problem.message
        counted = core.metrics.text().decode()
        for number, status in ((1, "success"), (2, "fail")):
            assert (':tensorflow:cc:saved_model:load_attempt_count{model_path='
                    f'"{tmp_path}/m/{number}",status="{status}"}} 1.0') in counted
        add_version(tmp_path / "m", 3, "stay")
        wait_until(lambda: states(core) == {1: "END", 2: "END", 3: "AVAILABLE"}, "3 answers")
        shutil.rmtree(tmp_path / "m" / "3")  # of which unloading raises
        add_version(tmp_path / "m", 4)
        wait_until(lambda: states(core).get(3) == "END"
                   and states(core).get(4) == "AVAILABLE", "4 answers, 3 is gone")


def test_a_configuration_that_cannot_be_changes_nothing_and_is_tried_again(
        tmp_path, quick_looks, caplog):
    add_version(tmp_path / "m")
    with running(settings_of(tmp_path), watch=True) as (_, core):
        for text, expected in (("# empty\n", "names no model"),
                               ("model_config_list { config {", "not taken"),
                               ("model_config_list {}", "names no model")):
            caplog.clear()
            write_config(tmp_path, text=text)
            wait_until(lambda expected=expected: expected in caplog.text, expected)
            assert states(core) == {1: "AVAILABLE"}
        # A label that moves before its version is there: taken once it is.
        write_config(tmp_path, "m", more='version_labels { key: "new" value: 2 }')
        wait_until(lambda: "label" in caplog.text, "the label is refused")
        add_version(tmp_path / "m", 2)

        def labelled():
            with contextlib.suppress(ServingError):
                core.check(Spec("m", label="new"))
                return True

        wait_until(labelled, "the label is there")


def test_a_named_version_that_is_missing_is_told(tmp_path, quick_looks, caplog):
    add_version(tmp_path / "m")
    with running(settings_of(tmp_path), watch=True):
        for versions, missing in (("versions: [1, 7, 3]", "3 7"), ("versions: 7", "7")):
            write_config(tmp_path, "m",
                         more=f"model_version_policy {{ specific {{ {versions} }} }}")
            told = f"no version {missing} of m under {tmp_path / 'm'}, which its policy names"
            wait_until(lambda told=told: told in caplog.text, told)


def test_a_mistyped_path_is_corrected_while_it_is_waited_for(tmp_path, quick_looks):
    add_version(tmp_path / "m")
    add_version(tmp_path / "second")
    with running(settings_of(tmp_path), watch=True) as (_, core):
        text = (tmp_path / "models.config").read_text()
        other = 'config { name: "other" base_path: "%s" model_platform: "tensorflow" }\n}'
        write_config(tmp_path, text=text.removesuffix("}") + other % (tmp_path / "sceond"))
        wait_until(lambda: core.models() == ["m", "other"], "the configuration is taken")
        assert states(core, "other") == {}
        write_config(tmp_path, text=text.removesuffix("}") + other % (tmp_path / "second"))
        wait_until(lambda: states(core, "other") == {1: "AVAILABLE"}, "the model is loaded")
        # And one whose version failed there: the same number elsewhere is another version.
        add_version(tmp_path / "broken", 1, "fail")
        write_config(tmp_path, text=text.replace('"m"', '"n"').replace("/m", "/broken"))
        wait_until(lambda: states(core, "n") == {1: "END"}, "it has failed")
        write_config(tmp_path, text=text.replace('"m"', '"n"').replace("/m", "/second"))
        wait_until(lambda: states(core, "n") == {1: "AVAILABLE"}, "it is loaded from elsewhere")


def _with_base_path(folder, path):
    text = (folder / "models.config").read_text()
    write_config(folder, text=text.replace(f'"{folder / "m"}"', f'"{path}"'))


def test_the_same_number_under_another_base_path_is_told_and_not_loaded(
        tmp_path, quick_looks, caplog):
    for name in ("m", "other"):
        add_version(tmp_path / name)
    with running(settings_of(tmp_path), watch=True) as (_, core):
        _with_base_path(tmp_path, tmp_path / "other")
        told = (f"version 1 of m stays that of {tmp_path}/m/1: the one under {tmp_path}/other has "
                "the same number; try another number for it")
        wait_until(lambda: told in caplog.messages, told)
        assert core.folders() == [f"{tmp_path}/m/1"]
        add_version(tmp_path / "other", 2)
        wait_until(lambda: core.folders() == [f"{tmp_path}/other/2"], "the other number answers")
        assert caplog.messages.count(told) == 1


def test_what_is_told_of_another_base_path(tmp_path, quick_looks, caplog):
    def configure(more="", **paths):
        write_config(tmp_path, text="model_config_list {%s}" % " ".join(  # noqa: UP031 — braces
            f'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" {more} }}'
            for name, path in paths.items()))

    for name in ("m", "n", "other"):
        add_version(tmp_path / name)
    with running(settings_of(tmp_path), watch=True) as (_, core):
        configure(m=f"{tmp_path}//n/../m", n=tmp_path / "n")
        wait_until(lambda: states(core, "n") == {1: "AVAILABLE"}, "the configuration is taken")
        assert "stays that of" not in caplog.text  # it is the same folder
        configure(m=tmp_path / "other",
                  more="model_version_policy { specific { versions: [1, 7] } }")
        told = f"no version 7 of m under {tmp_path}/other, which its policy names"
        wait_until(lambda: told in caplog.messages, told)  # rather than that 1 stays


def test_a_version_that_comes_back_while_it_unloads_is_that_of_its_base_path(
        tmp_path, quick_looks, monkeypatch):
    for name in ("m", "n", "other"):
        add_version(tmp_path / name)
    with running(settings_of(tmp_path, models=("m", "n")), watch=True) as (_, core):
        both, may_end = (tmp_path / "models.config").read_text(), threading.Event()
        monkeypatch.setattr(Loaded, "close", lambda loaded: may_end.wait(PATIENCE))
        write_config(tmp_path, "n")
        wait_until(lambda: states(core) == {1: "UNLOADING"}, "m is unloading")
        write_config(  # at once: a look in between would take m/1 again, rightly
            tmp_path, text=both.replace(f'"{tmp_path / "m"}"', f'"{tmp_path / "other"}"'))
        wait_until(lambda: core.models() == ["m", "n"], "m is configured again")
        may_end.set()
        wait_until(lambda: f"{tmp_path}/other/1" in core.folders(), "the other one answers")

"""Versions of models come and go while requests are answered."""

import concurrent.futures
import shutil
import threading

import pytest
from server_harness import BINARY, PATIENCE, Held, arrays, refused
from small_model import save_small


def _factor(server, model, **which):
    response = server.predict(model, outputs=["score"], text=["x"], **which)
    return response.model_spec.version.value, arrays(response)["score"].tolist()


def test_a_new_version_takes_the_old_one_s_place_without_failing_a_request(models, server,
                                                                          tmp_path):
    one = models.add(save=save_small)
    models.reload()
    held, stop, begun = Held(tmp_path), threading.Event(), threading.Barrier(5)

    def ask():
        answers = [_factor(server, one.name)]
        begun.wait(PATIENCE)
        while not stop.is_set():
            answers.append(_factor(server, one.name))
        return [*answers, _factor(server, one.name)]

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        waiting = pool.submit(server.predict, one.name, "hold", text=[held.path])
        held.wait()
        asking = [pool.submit(ask) for _ in range(4)]
        try:
            begun.wait(PATIENCE)
            save_small(one.base_path, 2, factor=2)
            # What the old version has begun it may end.
            server.wait_for(one.name, v1="UNLOADING", v2="AVAILABLE")
            assert _factor(server, one.name) == (2, [2.0])
            with refused("NOT_FOUND", ", 1"):
                server.predict(one.name, version=1, text=["x"])
            held.release()
            assert waiting.result().model_spec.version.value == 1
            server.wait_for(one.name, v1="END", v2="AVAILABLE")
        finally:
            stop.set()
        answers = [answer for future in asking for answer in future.result()]
    assert set(map(str, answers)) == {"(1, [1.0])", "(2, [2.0])"}

    # And back, as a version is withdrawn.
    shutil.rmtree(f"{one.base_path}/2")
    server.wait_for(one.name, v1="AVAILABLE", v2="END")
    assert _factor(server, one.name) == (1, [1.0])


def test_a_version_that_is_wanted_again_while_it_unloads_is_loaded_again(models, server, tmp_path):
    one = models.add(save=save_small)
    save_small(one.base_path, 2, factor=2)
    one.model_version_policy.specific.versions.append(1)
    models.reload()
    held = Held(tmp_path)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.predict, one.name, "hold", text=[held.path])
        held.wait()
        one.model_version_policy.specific.versions[:] = [2]
        models.reload()
        server.wait_for(one.name, v1="UNLOADING", v2="AVAILABLE")
        one.model_version_policy.specific.versions[:] = [1]
        models.reload()
        held.release()
        assert waiting.result().model_spec.version.value == 1
    server.wait_for(one.name, v1="AVAILABLE", v2="END")
    assert _factor(server, one.name) == (1, [1.0])


def test_policies(models, server):
    one = models.add(save=save_small)
    for version in (2, 3):
        save_small(one.base_path, version, factor=version)
    models.reload()
    server.wait_for(one.name, v3="AVAILABLE")
    assert list(server.status(one.name)) == [3]

    one.model_version_policy.all.SetInParent()
    models.reload()
    server.wait_for(one.name, v1="AVAILABLE", v2="AVAILABLE", v3="AVAILABLE")
    assert _factor(server, one.name) == (3, [3.0])
    assert _factor(server, one.name, version=1) == (1, [1.0])

    one.model_version_policy.latest.num_versions = 2
    models.reload()
    server.wait_for(one.name, v1="END", v2="AVAILABLE", v3="AVAILABLE")

    one.model_version_policy.specific.versions.extend([1, 9])
    models.reload()
    server.wait_for(one.name, v1="AVAILABLE", v2="END", v3="END")
    assert _factor(server, one.name) == (1, [1.0])


def test_labels_name_loaded_versions(models, server):
    one = models.add(save=save_small)
    one.model_version_policy.all.SetInParent()
    one.version_labels["stable"] = 1
    with refused("FAILED_PRECONDITION", "version"):
        models.reload()
    one.version_labels.clear()
    models.reload()
    save_small(one.base_path, 2, factor=2)
    server.wait_for(one.name, v1="AVAILABLE", v2="AVAILABLE")
    one.version_labels["stable"], one.version_labels["canary"] = 1, 2
    models.reload()
    assert _factor(server, one.name, label="stable") == (1, [1.0])
    assert _factor(server, one.name, label="canary") == (2, [2.0])
    one.version_labels["stable"] = 2
    del one.version_labels["canary"]
    models.reload()
    assert _factor(server, one.name, label="stable") == (2, [2.0])
    with refused("INVALID_ARGUMENT", "label.*canary"):
        _factor(server, one.name, label="canary")


def test_a_broken_version_leaves_the_good_one_alone(models, server):
    one = models.add(save=save_small)
    models.reload()
    broken = save_small(one.base_path + "-broken", 2)
    (broken / "saved_model.pb").write_bytes(b"damaged")
    broken.rename(f"{one.base_path}/2")
    server.wait_for(one.name, v1="AVAILABLE", v2="END")
    _, code, message = server.status(one.name)[2]
    assert code != 0 and "saved_model.pb" in message
    assert _factor(server, one.name) == (1, [1.0])

    (save_small(one.base_path + "-other", 3) / "variables" / "variables.index").unlink()
    shutil.move(f"{one.base_path}-other/3", one.base_path)
    server.wait_for(one.name, v1="AVAILABLE", v3="END")
    assert server.status(one.name)[3][1] != 0
    assert _factor(server, one.name) == (1, [1.0])


def test_of_versions_wanted_no_more_the_newest_alone_stays_until_another_answers(models, server):
    one = models.add(save=save_small)
    one.model_version_policy.all.SetInParent()
    save_small(one.base_path, 2, factor=2)
    models.reload()
    server.wait_for(one.name, v1="AVAILABLE", v2="AVAILABLE")
    (save_small(one.base_path + "-broken", 3) / "saved_model.pb").write_bytes(b"damaged")
    shutil.move(f"{one.base_path}-broken/3", one.base_path)
    one.model_version_policy.latest.num_versions = 1
    models.reload()
    server.wait_for(one.name, v1="END", v2="AVAILABLE", v3="END")
    assert _factor(server, one.name) == (2, [2.0])


def test_a_model_without_a_version_that_loads_is_reported(models, server):
    one = models.add(save=save_small)
    with open(f"{one.base_path}/1/saved_model.pb", "wb"):
        pass
    with refused("UNKNOWN", "did not become available"):
        models.reload()
    assert server.status(one.name)[1][0] == "END"
    with refused("NOT_FOUND", "request|available"):
        _factor(server, one.name)
    assert _factor(server, "plain") == (1, [1.0])


def test_a_model_that_is_configured_no_more_is_unloaded(models, server):
    one = models.add(save=save_small)
    models.reload()
    name = one.name
    assert _factor(server, name) == (1, [1.0])
    models.remove(one)
    models.reload()
    server.wait_for(name, v1="END")
    with refused("NOT_FOUND", f"Latest.{name}"):
        _factor(server, name)


@pytest.mark.parametrize("change, pattern", [
    ({"base_path": "not/absolute"}, "absolute"),
    ({"base_path": "C:\\models"}, "absolute"),
    ({"model_platform": "other"}, "other"),
    ({"model_platform": ""}, "model_platform"),
    ({"name": "plain"}, "plain")])
def test_a_configuration_that_cannot_be_changes_nothing(models, server, change, pattern):
    one = models.add(save=save_small)
    for name, value in change.items():
        setattr(one, name, value)
    with refused("INVALID_ARGUMENT", pattern):
        models.reload()
    assert _factor(server, "plain") == (1, [1.0])


def _second_held_at_its_warm_up(models, tmp_path):
    """A model whose version 1 answers while version 2 loads until it is released."""
    held = Held(tmp_path)
    one = models.add(save=save_small)
    models.reload()
    save_small(one.base_path, 2, factor=2, warm_up={"hold": {"text": [held.path]}})
    held.wait()
    return one, held


def test_warm_up_runs_before_a_version_is_available(models, server, tmp_path):
    one, held = _second_held_at_its_warm_up(models, tmp_path)
    assert server.status(one.name)[2][0] == "LOADING"
    assert _factor(server, one.name) == (1, [1.0])
    held.release()
    server.wait_for(one.name, v1="END", v2="AVAILABLE")

    # A version that fails at its warm-up requests is none.
    save_small(one.base_path, 3, warm_up={"number": {"text": ["x"]}})
    server.wait_for(one.name, v2="AVAILABLE", v3="END")
    assert "could not correctly convert string" in server.status(one.name)[3][2]


@pytest.mark.skipif(BINARY is not None, reason="the binary looks for versions between loads only")
def test_a_version_that_is_superseded_before_its_turn_is_not_loaded(models, server, tmp_path):
    one, held = _second_held_at_its_warm_up(models, tmp_path)
    (save_small(one.base_path + "-broken", 3) / "saved_model.pb").write_bytes(b"damaged")
    shutil.move(f"{one.base_path}-broken/3", one.base_path)
    server.wait_for(one.name, v2="LOADING", v3="LOADING")
    save_small(one.base_path, 4, factor=4)
    server.wait_for(one.name, v4="LOADING")
    held.release()
    server.wait_for(one.name, v1="END", v2="END", v3="END", v4="AVAILABLE")
    assert server.status(one.name)[3][1] == 0  # it was never read

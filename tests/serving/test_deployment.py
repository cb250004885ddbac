"""The commands and requests of `serving/`, on a server that runs with its flags and files."""

import json
import os
import pathlib
import re
import shutil

import httpx
import pytest
import yaml
from server_harness import PATIENCE, Server, arrays, refused, wait_until
from tiny_model import export_once

from bert_tf.saved_model.server_config import write_configs
from bert_tf.serving.server.text_protos import read

# In make test: test_deploy_files, test_rest, server/test_versions.
pytestmark = pytest.mark.long

SERVING = pathlib.Path(__file__).resolve().parents[2] / "serving"


@pytest.fixture(scope="module")
def place(made_once, tmp_path_factory):
    """A folder with `saved_models/` and `serving/`, as the containers have them."""
    folder = tmp_path_factory.mktemp("place")
    for name, number, model in (("bert_tiny", 1, "bert"), ("bert_tiny", 2, "bert"),
                                ("reviews", 1, "classifier")):
        _, version = export_once(str(made_once), model)
        shutil.copytree(version, folder / "saved_models" / name / str(number))
    (folder / "serving").mkdir()
    write_configs(str(folder / "saved_models"))
    written = folder / "serving" / "models.config"  # not what exports left in this checkout
    for file in [written, *(file for file in SERVING.glob("*.config*")
                            if not file.name.startswith("models.") or "example" in file.name)]:
        text = file.read_text().replace('"/models/', f'"{folder}/saved_models/')
        (folder / "serving" / file.name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def server(place):
    """With the flags of `docker-compose.yml`, polling every second; warm-up takes long."""
    flags = yaml.safe_load((SERVING / "docker-compose.yml").read_text())[
        "services"]["serving"]["command"]
    flags = [flag.replace("/serving/", f"{place}/serving/").replace("_seconds=30", "_seconds=1")
             for flag in flags if "port=" not in flag]
    running = Server(*flags, "--enable_model_warmup=false")
    yield running
    running.stop()


@pytest.mark.parametrize("model", ["bert_tiny", "reviews"])
def test_the_first_commands_name_what_exports_left(model, place, server):
    named = re.findall(r"--model_config_file=\S*/serving/([\w.]+)",
                       (SERVING / "README.md").read_text())
    assert named == ["models.config", "models.local.config"]
    for name in named:
        models = read(str(place / "serving" / name), "ModelServerConfig").model_config_list.config
        assert {each.name: each.base_path for each in models} == {
            folder.name: str(folder) for folder in (place / "saved_models").iterdir()}
    assert httpx.get(f"{server.rest}/v1/models/{model}/metadata",
                     timeout=PATIENCE).status_code == 200


def requests_of(model):
    """`(path, body)` of the page's requests to a model, in their order."""
    return re.findall(rf"curl localhost:8501(/v1/models/{model}\S*) \\\n +-d '(.*)'",
                      (SERVING / "README.md").read_text())


@pytest.mark.parametrize("model", ["bert_tiny", "reviews"])
def test_the_requests_of_the_page_are_answered(model, server):
    asked = requests_of(model)
    assert len(asked) >= 3
    for path, body in asked:
        response = httpx.post(server.rest + path, content=body, timeout=PATIENCE)
        assert response.status_code == 200, (body, response.text)
        answer = response.json()
        rows = answer.get("predictions", answer.get("results", answer.get("outputs")))
        request = json.loads(body)
        given = request.get("instances", request.get("examples"))
        if given:
            assert len(rows) == len(given)


def test_a_classifier_says_the_same_to_every_api(server):
    def ask(method, **body):
        response = httpx.post(f"{server.rest}/v1/models/reviews:{method}", json=body,
                              timeout=PATIENCE)
        assert response.status_code == 200, response.text
        return response.json()

    (predicted,) = ask("predict", instances=["the fox"])["predictions"]
    (classified,) = ask("classify", signature_name="classify",
                        examples=[{"text": "the fox"}])["results"]
    assert [label for label, _ in classified] == predicted["labels"]
    assert [score for _, score in classified] == pytest.approx(predicted["probabilities"])
    assert predicted["score"] == pytest.approx(max(predicted["probabilities"]))
    (told,) = ask("predict", signature_name="describe", instances=["any"])["predictions"]
    assert json.loads(told)["labels"] == predicted["labels"]


def test_the_probes_and_metrics_are_where_the_manifests_say(server):
    manifest = yaml.safe_load((SERVING / "kubernetes/deployment.yaml").read_text())
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    paths = [container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe")]
    paths.append(yaml.safe_load((SERVING / "prometheus.yml").read_text())[
        "scrape_configs"][0]["metrics_path"])
    for path in paths:
        assert httpx.get(server.rest + path, timeout=PATIENCE).status_code == 200
    nothing = paths[1].replace("bert_tiny", "nothing")
    assert httpx.get(server.rest + nothing, timeout=PATIENCE).status_code == 404


def test_canary_forward_and_back(server, place):
    config = place / "serving" / "models.config"
    before = (place / "serving" / "models.config.example").read_text()

    def publish(text):
        (place / "serving" / "models.new.local.config").write_text(text)
        os.replace(place / "serving" / "models.new.local.config", config)

    def version_of(label):
        response = server.predict("bert_tiny", "embed", label=label, text=["fox"])
        assert arrays(response)["embedding"].shape[0] == 1
        return response.model_spec.version.value

    publish(before)
    server.wait_for("bert_tiny", v1="AVAILABLE", v2="END")
    assert version_of("stable") == 1
    with refused("INVALID_ARGUMENT", "label.*canary"):
        version_of("canary")
    canary = (place / "serving" / "models.canary.config.example").read_text()
    publish(canary)
    server.wait_for("bert_tiny", v1="AVAILABLE", v2="AVAILABLE")
    assert (version_of("stable"), version_of("canary")) == (1, 2)
    publish(canary.replace('"stable" value: 1', '"stable" value: 2', 1))
    wait_until(lambda: version_of("stable") == 2, "stable is version 2")
    publish(before)
    server.wait_for("bert_tiny", v1="AVAILABLE", v2="END")
    assert version_of("stable") == 1

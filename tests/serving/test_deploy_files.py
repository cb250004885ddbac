"""What `serving/` holds for TensorFlow Serving, Docker, Kubernetes and Prometheus."""

import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest
import yaml

from bert_tf.saved_model.server_config import BATCHING_PARAMS
from bert_tf.serving.server.config import parser
from bert_tf.serving.server.text_protos import read

check_jsonschema = pytest.importorskip("check_jsonschema.builtin_schemas")
kubernetes_validate = pytest.importorskip("kubernetes_validate")
pytest.importorskip("tensorflow_serving.config.model_server_config_pb2",
                    reason="the extra [serving] is not installed")

SERVING = pathlib.Path(__file__).parents[2] / "serving"
KUBERNETES = "1.30"  # the oldest that is checked; and the newest that the validator knows
IMAGE = "tensorflow/serving:2.20.0"
# The flags of TensorFlow Serving's model_servers/main.cc that our files and pages use.
FLAGS = {
    "port", "rest_api_port", "model_config_file", "model_config_file_poll_wait_seconds",
    "allow_version_labels_for_unavailable_models", "enable_batching", "batching_parameters_file",
    "enable_per_model_batching_parameters", "monitoring_config_file", "ssl_config_file",
    "tensorflow_intra_op_parallelism", "tensorflow_inter_op_parallelism", "grpc_channel_arguments",
    "max_num_load_retries", "model_name", "model_base_path", "enable_profiler",
    "grpc_max_threads", "rest_api_num_threads"}


def message(name, kind):
    return read(str(SERVING / name), kind)


def documents(name):
    return list(yaml.safe_load_all((SERVING / name).read_text()))


def manifests():
    """`{(kind, name): manifest}` of all Kubernetes files."""
    found = [each for path in sorted(SERVING.glob("kubernetes/*.yaml"))
             for each in documents(path.relative_to(SERVING))]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def flags_of(arguments):
    """`{flag: value}` of a server's arguments."""
    return dict(argument.removeprefix("--").split("=", 1) for argument in arguments)


COMPOSE = documents("docker-compose.yml")[0]
POD = manifests()["Deployment", "bert-serving"]["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]
SERVERS = {"compose": flags_of(COMPOSE["services"]["serving"]["command"]),
           "kubernetes": flags_of(CONTAINER["args"])}


@pytest.mark.parametrize(("name", "versions", "labels"), [
    ("models.config.example", {1}, {"stable": 1}),
    ("models.canary.config.example", {1, 2}, {"stable": 1, "canary": 2})])
def test_models(name, versions, labels):
    models = message(name, "ModelServerConfig").model_config_list.config
    assert [model.name for model in models] == ["bert_tiny"]  # what `make pretrain` makes
    for model in models:
        assert model.base_path == f"/models/{model.name}"
        assert model.model_platform == "tensorflow"
        policy = model.model_version_policy
        assert policy.WhichOneof("policy_choice") == "specific"
        # A label of a version that is not served is an error of the server.
        assert set(model.version_labels.values()) <= set(policy.specific.versions)
    assert set(models[0].model_version_policy.specific.versions) == versions
    assert dict(models[0].version_labels) == labels


def test_batching(tmp_path):
    common = message("batching.config", "BatchingParameters")
    (tmp_path / "batching_params.pbtxt").write_text(BATCHING_PARAMS)
    own = read(str(tmp_path / "batching_params.pbtxt"), "BatchingParameters")
    threads = common.num_batch_threads.value
    common.ClearField("num_batch_threads")
    assert own == common  # threads are the server's alone
    assert own.max_batch_size.value == 32 and own.max_enqueued_batches.value > 0
    assert own.HasField("batch_timeout_micros") and not own.enable_large_batch_splitting.value
    assert not own.pad_variable_length_inputs
    for flags in SERVERS.values():
        assert int(flags["tensorflow_intra_op_parallelism"]) == threads
        assert int(flags["tensorflow_inter_op_parallelism"]) == threads
        # A request of one row holds a thread while it waits, and while its batch runs.
        rows = own.max_batch_size.value
        assert int(flags["grpc_max_threads"]) > rows * (own.max_enqueued_batches.value + threads)
        assert int(flags["rest_api_num_threads"]) >= rows * threads
    assert float(COMPOSE["services"]["serving"]["deploy"]["resources"]["limits"]["cpus"]) == threads
    assert int(CONTAINER["resources"]["limits"]["cpu"]) == threads


def test_metrics_are_fetched_where_they_are():
    monitoring = message("monitoring.config", "MonitoringConfig").prometheus_config
    assert monitoring.enable
    (prometheus,) = documents("prometheus.yml")
    # Of Prometheus' configuration, the keys that are used and their forms.
    assert set(prometheus) == {"global", "scrape_configs"}
    assert set(prometheus["global"]) == {"scrape_interval"}
    assert re.fullmatch(r"\d+(ms|s|m|h)", prometheus["global"]["scrape_interval"])
    (job,) = prometheus["scrape_configs"]
    assert set(job) == {"job_name", "metrics_path", "static_configs"}
    assert job["metrics_path"] == monitoring.path
    port = SERVERS["compose"]["rest_api_port"]
    assert "serving" in COMPOSE["services"]
    assert job["static_configs"] == [{"targets": [f"serving:{port}"]}]
    annotations = POD["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == monitoring.path
    assert annotations["prometheus.io/port"] == SERVERS["kubernetes"]["rest_api_port"]


def test_tls(tmp_path):
    example = message("ssl.config.example", "SSLConfig")
    assert example.server_key.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert example.server_cert.startswith("-----BEGIN CERTIFICATE-----\n")
    # The commands of the page, on the machine's own openssl and Python.
    block = re.search(r"(?m)^    openssl .*\n(?:    .*\n)+", page("DEPLOYMENT.md")).group()
    (tmp_path / "serving").mkdir()
    subprocess.run(["bash", "-euc", re.sub(r"(?m)^    ", "", block)], cwd=tmp_path, check=True,
                   capture_output=True, timeout=120)
    written = read(str(tmp_path / "serving" / "ssl.local.config"), "SSLConfig")
    assert written.server_key == (tmp_path / "server.key").read_text()
    assert written.server_cert == (tmp_path / "server.crt").read_text()
    assert (tmp_path / "serving" / "ssl.local.config").stat().st_mode & 0o77 == 0


def test_the_compose_file_is_of_the_specification():
    schema = check_jsonschema.get_builtin_schema("vendor.compose-spec")
    jsonschema.validate(COMPOSE, schema)
    with pytest.raises(jsonschema.ValidationError):  # the schema is strict
        jsonschema.validate({**COMPOSE, "service": {}}, schema)


def test_containers_of_compose_may_do_no_more_than_they_must():
    serving = COMPOSE["services"]["serving"]
    assert serving["image"] == IMAGE
    for service in COMPOSE["services"].values():
        user, _, group = service["user"].partition(":")
        assert int(user) > 0 and int(group) > 0
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
        for volume in service["volumes"]:
            if volume["type"] == "bind":
                assert volume["read_only"] and (SERVING / volume["source"]).exists()
    mounted = {volume["target"]: volume["source"] for volume in serving["volumes"]}
    assert mounted == {"/models": "../saved_models", "/serving": "."}


@pytest.mark.parametrize("version", [KUBERNETES, kubernetes_validate.latest_version()])
def test_kubernetes_accepts_the_manifests(version):
    found = manifests()
    assert {kind for kind, _ in found} >= {
        "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"}
    for manifest in found.values():
        kubernetes_validate.validate(manifest, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**manifest, "surplus": 1}, version, strict=True)


def test_the_manifests_mean_each_other():
    found = manifests()
    labels = POD["metadata"]["labels"]
    deployment = found["Deployment", "bert-serving"]["spec"]
    budget = found["PodDisruptionBudget", "bert-serving"]["spec"]
    for selector in (deployment["selector"]["matchLabels"], budget["selector"]["matchLabels"],
                     *(each["spec"]["selector"] for (kind, _), each in found.items()
                       if kind == "Service")):
        assert selector.items() <= labels.items()
    others = [each for (kind, name), each in found.items() if kind == "Pod"]
    assert all(pod["metadata"]["labels"] != labels for pod in others)  # they get no requests
    scaler = found["HorizontalPodAutoscaler", "bert-serving"]["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment",
                                        "name": "bert-serving"}
    assert "replicas" not in deployment and scaler["minReplicas"] >= 2
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"grpc": int(SERVERS["kubernetes"]["port"]),
                     "rest": int(SERVERS["kubernetes"]["rest_api_port"])}
    for (kind, _), each in found.items():
        for port in each["spec"]["ports"] if kind == "Service" else ():
            assert ports[port["targetPort"]] == port["port"]
    volumes = {volume["name"]: volume for volume in POD["spec"]["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
    assert {mount["name"] for mount in mounts.values()} == set(volumes)
    assert mounts["/models"]["readOnly"] and mounts["/serving"]["readOnly"]
    claim = volumes[mounts["/models"]["name"]]["persistentVolumeClaim"]["claimName"]
    assert ("PersistentVolumeClaim", claim) in found


def test_a_pod_rolls_only_when_its_models_are_loaded():
    deployment = manifests()["Deployment", "bert-serving"]["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    served = {model.name for model in
              message("models.config.example", "ModelServerConfig").model_config_list.config}
    for probe in ("startupProbe", "readinessProbe"):
        asked = CONTAINER[probe]["httpGet"]
        assert asked["port"] == "rest"
        assert re.fullmatch(r"/v1/models/(\w+)(/metadata)?", asked["path"]).group(1) in served
    assert CONTAINER["livenessProbe"]["tcpSocket"] == {"port": "grpc"}
    pod = POD["spec"]
    assert CONTAINER["image"] == IMAGE
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    assert CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(CONTAINER["resources"]["limits"]) == {"cpu", "memory"}


def test_clients_leave_a_pod_before_it_ends():
    arguments = dict(each.split("=") for each in
                     SERVERS["kubernetes"]["grpc_channel_arguments"].split(","))
    oldest = 1.1 * int(arguments["grpc.max_connection_age_ms"]) / 1000  # gRPC adds up to a tenth
    ((sleep, seconds),) = [CONTAINER["lifecycle"]["preStop"]["exec"]["command"]]
    assert sleep == "sleep"
    # 10 seconds until all know that the pod goes, and for the requests under way.
    assert oldest + 10 <= int(seconds) <= POD["spec"]["terminationGracePeriodSeconds"] - 10


def test_who_reaches_the_servers():
    found = manifests()
    for name, labels in (("bert-serving", POD["metadata"]["labels"]),
                         ("bert-models", found["Pod", "bert-models"]["metadata"]["labels"])):
        policy = found["NetworkPolicy", name]["spec"]
        assert policy["podSelector"]["matchLabels"] == labels
        assert policy["policyTypes"] == ["Ingress", "Egress"] and policy["egress"] == []
    ports = {port["name"] for port in CONTAINER["ports"]}
    clients, prometheus = found["NetworkPolicy", "bert-serving"]["spec"]["ingress"]
    assert {port["port"] for port in clients["ports"]} == ports
    assert [port["port"] for port in prometheus["ports"]] == ["rest"]
    for rule in (clients, prometheus):  # an empty selector would let in everybody
        assert all(selector["matchLabels"] for who in rule["from"] for selector in who.values())
    assert found["NetworkPolicy", "bert-models"]["spec"]["ingress"] == []


def there(path):
    """Whether the checkout has a file of `serving/`, or exports and users make it."""
    return (SERVING / path).exists() or ".local." in path or path == "models.config"


def page(name):
    return (SERVING / name).read_text()


def test_the_embedded_server_takes_the_same_flags():
    known = {flag.removeprefix("--") for action in parser("")._actions
             for flag in action.option_strings}
    assert known >= FLAGS


@pytest.mark.parametrize("where", SERVERS)
def test_the_server_is_given_flags_and_files_that_there_are(where):
    flags = SERVERS[where]
    assert set(flags) <= FLAGS
    # The labels of models.config name versions that are still to load.
    assert flags["allow_version_labels_for_unavailable_models"] == "true"
    assert flags["enable_profiler"] == "false"
    for flag, value in flags.items():
        if flag.endswith("_file"):
            assert there(value.removeprefix("/serving/"))
    configured = set(re.findall(r"--from-file=serving/(\S+)", page("DEPLOYMENT.md")))
    assert configured == {value.removeprefix("/serving/") for flag, value in flags.items()
                          if flag.endswith("_file")}


@pytest.mark.parametrize("name", ["README.md", "DEPLOYMENT.md"])
def test_the_pages_name_flags_files_and_images_that_there_are(name):
    text = page(name)
    assert set(re.findall(r"tensorflow/serving:[\w.-]+", text)) <= {IMAGE}
    servers = re.findall(r"(?:tensorflow_model_server|serving:2\.20\.0)((?: *\\\n| +--\S+)+)", text)
    assert servers
    for arguments in servers:
        assert set(re.findall(r"--(\w+)", arguments)) <= FLAGS
        assert "--enable_profiler=false" in arguments
    for path in re.findall(r"(?<![\w/.])serving/([\w./-]+\w)", text):
        assert there(path), path
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (SERVING / link).exists(), link


def test_the_rolling_update_renames_the_version(tmp_path):
    """The page's `sed` moves one model on, policy and label, and no other."""
    command = re.search(r"(?m)^    (sed -i .*\\\n.*)$", page("DEPLOYMENT.md")).group(1)
    (tmp_path / "serving").mkdir()
    config = tmp_path / "serving" / "models.config"
    text = page("models.config.example")
    entry = text[text.index("  config {"):text.rindex("}")]
    config.write_text(text.replace(entry, entry + entry.replace("bert_tiny", "reviews")))
    subprocess.run(["bash", "-euc", command], cwd=tmp_path, check=True, timeout=60)
    models = read(str(config), "ModelServerConfig").model_config_list.config
    assert {model.name: (list(model.model_version_policy.specific.versions),
                         dict(model.version_labels)) for model in models} == {
        "bert_tiny": ([2], {"stable": 2}), "reviews": ([1], {"stable": 1})}


def test_the_patch_changes_the_configuration_alone():
    patch = json.loads(re.search(r"-p \\\n +'(.*)'", page("DEPLOYMENT.md")).group(1))
    ((volume,),) = [patch["spec"]["template"]["spec"].pop("volumes")]
    assert patch == {"spec": {"template": {"spec": {}}}}
    before = {each["name"]: each for each in POD["spec"]["volumes"]}[volume["name"]]
    assert set(volume) == set(before) and set(volume["configMap"]) == set(before["configMap"])
    made = re.findall(r"kubectl create configmap (\S+)", page("DEPLOYMENT.md"))
    assert made == [before["configMap"]["name"], volume["configMap"]["name"]]


def test_a_version_is_published_whole_and_once(tmp_path):
    """`publish.sh`, with a `kubectl` that runs what it is told on this machine."""
    (tmp_path / "kubectl").write_text(
        '#!/usr/bin/env bash\n[ "$1 $2 $3 $4" = "exec -i bert-models --" ] || exit 9\nshift 4\n'
        '{ head -c ${CUT:-1M}; cat >/dev/null; } | '
        f'"${{@//\\/models/{tmp_path}/volume}}"\n')
    (tmp_path / "kubectl").chmod(0o755)
    version = tmp_path / "saved_models" / "tiny" / "1"
    (version / "variables").mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"graph")
    (version / "variables" / "variables.index").write_bytes(b"index")
    volume = tmp_path / "volume"
    (volume / "tiny" / ".1" / "1").mkdir(parents=True)  # what broke off is not nested into

    def publish(number, **variables):
        return subprocess.run(
            [SERVING / "kubernetes" / "publish.sh", "tiny", number], cwd=tmp_path, timeout=60,
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}, capture_output=True,
            text=True)

    def found():
        return sorted(str(path.relative_to(volume)) for path in volume.rglob("*"))

    cut = publish("1", CUT="512")  # the folder's own head, after which tar misses nothing
    assert cut.returncode == 1 and "not what was sent" in cut.stderr and not (
        volume / "tiny" / "1").exists()
    assert publish("1").returncode == 0
    there = ["tiny", "tiny/1", "tiny/1/saved_model.pb", "tiny/1/variables",
             "tiny/1/variables/variables.index"]
    assert found() == there
    assert publish("1").returncode == 1  # what servers may read stays as it is
    assert found() == there
    assert publish("2").returncode != 0  # there is no such version here
    assert found() == [*there[:1], "tiny/.2", *there[1:]]

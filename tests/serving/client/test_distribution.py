"""`serving/client`, which makes a distribution of the client alone."""

import configparser
import importlib.metadata
import json
import os
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest
from packaging.requirements import Requirement
from server_harness import REPOSITORY

import bert_tf
from bert_tf.serving import client

FOLDER = REPOSITORY / "serving" / "client"
IMPORT_NAMES = {"google": "protobuf", "grpc": "grpcio"}


@pytest.fixture(scope="module")
def setup():
    """The names that `setup.py` defines."""
    return runpy.run_path(str(FOLDER / "setup.py"))


@pytest.fixture(scope="module")
def options():
    parser = configparser.ConfigParser()
    parser.read(FOLDER / "setup.cfg")
    return parser


def _requirements(text):
    return {Requirement(line).name: Requirement(line) for line in text.strip().splitlines()}


def test_what_the_client_imports_is_what_the_distribution_requires(setup, options):
    modules = setup["needed"]()
    assert {"bert_tf.serving.client.grpc_wire", "bert_tf.serving.client.rest_wire",
            "bert_tf.serving.wire.protocol", "bert_tf.errors"} <= modules.keys()
    assert not [name for name in modules if "server" in name.split(".")]
    tops = {name.partition(".")[0] for path in modules.values() for name in setup["imported"](path)}
    required = _requirements(options["options"]["install_requires"])
    extra = {name for line in options["options.extras_require"].values()
             for name in _requirements(line)}
    others = {IMPORT_NAMES.get(top, top) for top in tops - sys.stdlib_module_names - {"bert_tf"}}
    assert required.keys() <= others and others <= required.keys() | extra
    assert setup["version"]() == bert_tf.__version__


def test_bounds_are_those_of_the_main_distribution(options):
    main = configparser.ConfigParser()
    main.read(REPOSITORY / "setup.cfg")
    texts = [main["options"]["install_requires"], *main["options.extras_require"].values()]
    bounds = {name: each for text in texts for name, each in _requirements(text).items()}
    for text in (options["options"]["install_requires"],
                 *options["options.extras_require"].values()):
        for name, each in _requirements(text).items():
            if name != "protobuf":  # TensorFlow brings it along there
                assert each == bounds[name]


CODE = """
import asyncio, json, sys
import bert_tf_client
from bert_tf_client import AsyncClient, Client

found = []
for address in sys.argv[1:]:
    with Client(address, "bert") as client:
        found.append([client.embed(["The fox", "a dog"]).tolist(), client.fill_mask("a [MASK]")])

    async def ask():
        async with AsyncClient(address, "bert") as client:
            return (await client.embed("The fox")).tolist()

    found.append(asyncio.run(ask()))
heavy = sorted({"tensorflow", "keras", "bert_tf"} & set(sys.modules))
print(json.dumps([bert_tf_client.__version__, heavy, found]))
"""


def _with_requirements(names):
    """Distributions, by name, with all that they require here."""
    found, left = {}, list(names)
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name not in found:
            found[name] = importlib.metadata.distribution(name)
            left += [each.name for each in map(Requirement, found[name].requires or ())
                     if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


@pytest.mark.long
def test_a_wheel_without_tensorflow(tmp_path, task_models, options):
    """Built and installed with nothing but what it requires, it asks as the client here does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # From an sdist, which has no repository around it, as from the repository.
    subprocess.run([sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", tmp_path],
                   cwd=FOLDER, check=True, env=environment)
    [source] = tmp_path.glob("bert_tf_client-*.tar.gz")
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, source],
                   check=True, env=environment)
    [wheel] = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", site, wheel],
                   check=True, env=environment)
    distributions = _with_requirements(_requirements(options["options"]["install_requires"]))
    assert not {"tensorflow", "keras", "tensorflow-serving-api"} & distributions.keys()
    for each in distributions.values():
        for top in {path.parts[0] for path in each.files if path.parts[0] not in ("..", "bin")}:
            if not (site / top).exists():
                (site / top).symlink_to(each.locate_file(top))
    addresses = [task_models.server.address, task_models.server.rest]
    result = subprocess.run([sys.executable, "-S", "-c", CODE, *addresses], cwd=tmp_path,
                            env={**environment, "PYTHONPATH": str(site)}, capture_output=True,
                            text=True, check=True)
    version, heavy, found = json.loads(result.stdout)
    assert (version, heavy) == (bert_tf.__version__, [])
    for address, both, one in zip(addresses, found[::2], found[1::2], strict=True):
        with client.Client(address, "bert") as ours:
            vectors = ours.embed(["The fox", "a dog"])
            np.testing.assert_allclose(both[0], vectors, atol=1e-5)
            np.testing.assert_allclose(one, vectors[0], atol=1e-5)
            assert [each["token"] for each in both[1][0]] == [
                each["token"] for each in ours.fill_mask("a [MASK]")[0]]

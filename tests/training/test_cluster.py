"""Clusters from TF_CONFIG and from the variables that SLURM's srun sets."""

import json

import pytest

from bert_tf.errors import UsageError
from bert_tf.training.cluster import expand_nodes, find_cluster


def tf_config(cluster, kind, index):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


def slurm(**changes):
    """Task 2 of a step of four on three machines, the second of which has two."""
    return {"SLURM_JOB_ID": "1234567", "SLURM_STEP_NODELIST": "n[9-10],login",
            "SLURM_STEP_TASKS_PER_NODE": "1,2,1", "SLURM_PROCID": "2", "SLURM_NODEID": "1",
            "SLURM_LOCALID": "1", **changes}


def test_tf_config():
    found = find_cluster(tf_config({"worker": ["a:1", "b:2"]}, "worker", 1) | slurm())
    assert (found.workers, found.index) == (("a:1", "b:2"), 1)
    assert found.name(1) == "worker 1 (b:2)"
    with_chief = {"worker": ["a:1", "b:2"], "chief": ["c:3"]}
    for kind, index, expected in [("chief", 0, 0), ("worker", 0, 1), ("worker", "1", 2)]:
        found = find_cluster(tf_config(with_chief, kind, index))
        assert (found.workers, found.index) == (("c:3", "a:1", "b:2"), expected)


def test_slurm():
    found = find_cluster(slurm())
    assert found.workers == ("n9:19567", "n10:19567", "n10:19568", "login:19567")
    assert found.index == 2
    repeated = slurm(SLURM_STEP_NODELIST="n[1-2]", SLURM_STEP_TASKS_PER_NODE="2(x2)",
                     SLURM_PROCID="3")
    assert find_cluster(repeated).workers == ("n1:19567", "n1:19568", "n2:19567", "n2:19568")


@pytest.mark.parametrize(("nodes", "expected"), [
    ("m", "m"), ("m,n7", "m n7"), ("n[1-3]", "n1 n2 n3"), ("n[08-10,12]x", "n08x n09x n10x n12x"),
    ("r[1-2]n[5,7],m-1", "r1n5 r1n7 r2n5 r2n7 m-1")])
def test_expand_nodes(nodes, expected):
    assert expand_nodes(nodes) == expected.split()


@pytest.mark.parametrize(("environment", "message"), [
    ({}, "the environment names no cluster; expected TF_CONFIG='{.* srun"),
    ({"TF_CONFIG": "{"}, "TF_CONFIG names no cluster and task: '{'; expected TF_CONFIG='{"),
    ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, "names no cluster and task"),
    (tf_config({"worker": ["a:1"]}, "worker", 1), "names no cluster and task"),
    (tf_config({"worker": ["a:1"]}, "worker", -1), "names no cluster and task"),
    (tf_config({"worker": ["a"]}, "worker", 0), "names no cluster and task"),
    (tf_config({"worker": ["a:1", "b:65536"]}, "worker", 0), "names no cluster and task"),
    (tf_config({"worker": ["a:1", "http://b:1"]}, "worker", 0), "names no cluster and task"),
    (tf_config({"worker": ["a:1"], "ps": ["b:1"]}, "ps", 0), "names no cluster and task"),
    (tf_config({"worker": ["a:1", "a:1"]}, "worker", 0), "TF_CONFIG names a:1 twice"),
    ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}, "SLURM_STEP_NODELIST, .* is not set; try srun"),
    (slurm(SLURM_STEP_TASKS_PER_NODE="1,2"), "do not agree: SLURM_JOB_ID=1234567, .*TF_CONFIG"),
    (slurm(SLURM_STEP_TASKS_PER_NODE="many"), "do not agree"),
    (slurm(SLURM_STEP_NODELIST="n[1-"), "do not agree"),
    (slurm(SLURM_PROCID="1"), "do not agree.*--distribution=block"),
    (slurm(SLURM_PROCID="4", SLURM_NODEID="3", SLURM_LOCALID="0"), "do not agree")])
def test_wrong_environment(environment, message):
    with pytest.raises(UsageError, match=message):
        find_cluster(environment)

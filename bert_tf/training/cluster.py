"""The processes that train together, from TF_CONFIG or from SLURM's variables."""

import dataclasses
import json
import os
import re

from bert_tf.errors import UsageError, explain

_EXAMPLE = ('TF_CONFIG=\'{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
            '"task": {"type": "worker", "index": 0}}\'')
_SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID",
          "SLURM_NODEID", "SLURM_LOCALID")
# SLURM has no ports to give away: below those that the system hands out, apart for each job.
_FIRST_PORT, _PORTS = 15_000, 10_000


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The processes of a run.

    Args:
        workers: `host:port` of each, the chief first.
        index: which of them this process is.
    """

    workers: tuple
    index: int

    def name(self, index):
        """Return the name of a worker in messages."""
        return f"worker {index} ({self.workers[index]})"


def find_cluster(environment=os.environ):
    """Find the `Cluster` that the environment describes: TF_CONFIG, or else a SLURM job step.

    Of TF_CONFIG the jobs `chief` (optional) and `worker` are read; of SLURM the variables that
    `srun` sets, each task being a worker. Its port is then 15000 + the job's number modulo 10000
    + the number of the task on its machine.

    Raises:
        UsageError: there is neither, or it contradicts itself.
    """
    if "TF_CONFIG" in environment:
        return _from_tf_config(environment["TF_CONFIG"])
    if "SLURM_JOB_ID" in environment:
        return _from_slurm(environment)
    raise UsageError(explain(
        "strategy=multi_worker, but the environment names no cluster",
        f"{_EXAMPLE} in every process, or a start with srun in a SLURM job"))


def _from_tf_config(text):
    try:
        given = json.loads(text)
        jobs, task = given["cluster"], given["task"]
        workers = tuple(address for job in ("chief", "worker") for address in jobs.get(job, ()))
        index = int(task["index"])
        if index not in range(len(jobs[task["type"]])) or task["type"] not in ("chief", "worker"):
            raise ValueError
        if task["type"] == "worker":
            index += len(jobs.get("chief", ()))
        ports = [int(re.fullmatch(r"[^\s/]+:(\d+)", address)[1]) for address in workers]
        if not all(0 < port < 2**16 for port in ports):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(explain(f"TF_CONFIG names no cluster and task: {text[:200]!r}",
                                 _EXAMPLE)) from error
    return _checked(workers, index, "TF_CONFIG")


def _from_slurm(environment):
    absent = [name for name in _SLURM if name not in environment]
    if absent:
        raise UsageError(explain(
            f"in a SLURM job, but {', '.join(absent)} is not set",
            attempt="srun python -m bert_tf.pretrain --strategy multi_worker …"))
    job, nodes, tasks, rank, node, local = (environment[name] for name in _SLURM)
    try:
        hosts = expand_nodes(nodes)
        counts = [int(count) for part in tasks.split(",")
                  for count, times in [re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part).groups()]
                  for _ in range(int(times or 1))]
        port = _FIRST_PORT + int(job) % _PORTS
        rank, node, local = int(rank), int(node), int(local)
        agree = len(hosts) == len(counts) and sum(counts[:node]) + local == rank < sum(counts)
    except (ValueError, AttributeError):
        agree = False
    if not agree:
        values = ", ".join(f"{name}={environment[name]}" for name in _SLURM)
        raise UsageError(explain(f"SLURM's variables do not agree: {values}",
                                 "tasks numbered machine by machine",
                                 "srun --distribution=block, or TF_CONFIG"))
    workers = tuple(f"{host}:{port + task}"
                    for host, count in zip(hosts, counts, strict=True) for task in range(count))
    return _checked(workers, rank, "SLURM")


def _checked(workers, index, source):
    again = sorted({worker for worker in workers if workers.count(worker) > 1})
    if again:
        raise UsageError(explain(f"{source} names {', '.join(again)} twice",
                                 "a different address for each worker"))
    return Cluster(workers, index)


def expand_nodes(nodes):
    """Return the host names of a SLURM node list: `n[1-2,07],m` is n1, n2, n07, m.

    Raises:
        ValueError: it is no node list.
    """
    hosts = []
    for part in re.findall(r"(?:\[[^\[\]]*\]|[^,\[\]])+|.", nodes):
        if part == ",":
            continue
        names = [""]
        for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", part):
            choices = [plain] if plain else _expand_ranges(ranges)
            names = [name + choice for name in names for choice in choices]
        if part in "[]":
            raise ValueError(f"invalid node list {nodes}")
        hosts += names
    return hosts


def _expand_ranges(ranges):
    found = []
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        found += [str(number).zfill(len(first))
                  for number in range(int(first), int(last or first) + 1)]
    return found

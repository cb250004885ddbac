"""How many cores this process may use."""

import math
import os

_LIMIT = "/sys/fs/cgroup/cpu.max"  # of cgroup v2, as a container sees it: "max 100000"
_QUOTA, _PERIOD = ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us",  # of v1: "-1" and "100000"
                   "/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def usable():
    """Return the number of cores of this process: those it may run on (`taskset`, `numactl`), but
    no more than a container's limit, `docker run --cpus` or `resources.limits.cpu`, rounded up."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        count = os.cpu_count() or 1
    for paths in ([_LIMIT], [_QUOTA, _PERIOD]):
        try:
            quota, period = " ".join(_first_line(path) for path in paths).split()
            if quota not in ("max", "-1"):
                count = min(count, max(math.ceil(int(quota) / int(period)), 1))
        except (OSError, ValueError, ZeroDivisionError):
            continue  # no such file: no such limit
    return count


def _first_line(path):
    with open(path, encoding="ascii") as stream:
        return stream.readline()

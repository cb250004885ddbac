"""What is to be reached: ratios of medians, of the times to an answer, of memory."""

import math

AT_LEAST = {"grpc/in_process": 0.65, "rest/in_process": 0.45, "rest/peer": 3.0,
            "openai/rest": 0.9}
AT_MOST = {"p50/peer": 1.0, "p99/peer": 1.0, "start/load": 1.3, "memory": 1.05}


def missed_targets(ratios):
    """Return lines for those of the ratios, named `what` or `what, kind`, that are to be others."""
    lines = []
    for name, value in ratios.items():
        what = name.split(",")[0]
        if value < AT_LEAST.get(what, -math.inf):
            lines.append(f"{name}: {value:.2f}, at least {AT_LEAST[what]} is expected")
        if value > AT_MOST.get(what, math.inf):
            lines.append(f"{name}: {value:.2f}, at most {AT_MOST[what]} is expected")
    return lines

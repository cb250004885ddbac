"""Clients that ask an HTTP server one request after the other: a process of its own.

    python benchmarks/load/http_load.py URL BODIES --clients 32 --seconds 10

What wrk does, where there is none. BODIES has a JSON body on each line, which are made into
requests beforehand; of answers the status alone is looked at. Prints a JSON object: texts
(requests) per second, the 50th and 99th percentile of the time to an answer in milliseconds,
requests and failures.
"""

import argparse
import asyncio
import itertools
import json
import time
import urllib.parse

import numpy as np

_LENGTH = b"content-length: "


class _Client(asyncio.Protocol):
    """A connection that asks again as soon as it is answered."""

    def __init__(self, requests, turn, times, failures, ended):
        self.requests, self.turn, self.times, self.failures = requests, turn, times, failures
        self.ended = ended
        self.stopped = False
        self.data, self.left = b"", None

    def connection_made(self, transport):
        self.transport = transport
        self._ask()

    def _ask(self):
        if self.stopped:
            self.transport.close()
            return
        self.start = time.perf_counter()
        self.transport.write(self.requests[next(self.turn) % len(self.requests)])

    def data_received(self, data):
        self.data += data
        if self.left is None:
            head, end, rest = self.data.partition(b"\r\n\r\n")
            if not end:
                return
            place = head.lower().index(_LENGTH) + len(_LENGTH)
            self.left = int(head[place:].partition(b"\r\n")[0])
            self.status, self.data = head[9:12], rest
        if len(self.data) >= self.left:
            stop = time.perf_counter()
            self.times.append((stop, stop - self.start))
            if self.status != b"200":
                self.failures.append(self.data.decode(errors="replace"))
            self.data, self.left = b"", None
            self._ask()

    def connection_lost(self, exc):
        if not self.stopped:
            self.failures.append(f"connection lost: {exc}")
        self.ended.set_result(None)


async def load(url, bodies, clients, warm_up, seconds):
    """`[(when, seconds to an answer)]` and the failures of so many clients."""
    parts = urllib.parse.urlsplit(url)
    requests = [f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: "
                f"application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
                for body in bodies]
    turn, times, failures = itertools.count(), [], []
    loop = asyncio.get_running_loop()
    made = [(await loop.create_connection(
        lambda: _Client(requests, turn, times, failures, loop.create_future()),
        parts.hostname, parts.port))[1] for _ in range(clients)]
    begin = time.perf_counter() + warm_up
    await asyncio.sleep(warm_up + seconds)
    for client in made:
        client.stopped = True
    await asyncio.wait_for(asyncio.gather(*(client.ended for client in made)), 60)
    return [taken for stop, taken in times if begin <= stop <= begin + seconds], failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("bodies")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--warm_up", type=float, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    with open(arguments.bodies, "rb") as stream:
        bodies = stream.read().splitlines()
    times, failures = asyncio.run(load(arguments.url, bodies, arguments.clients,
                                       arguments.warm_up, arguments.seconds))
    p50, p99 = np.percentile(times, [50, 99]) * 1000 if times else (0, 0)
    print(json.dumps({"texts_per_second": len(times) / arguments.seconds, "p50_ms": p50,
                      "p99_ms": p99, "requests": len(times), "failures": len(failures),
                      "first_failures": failures[:3]}))


if __name__ == "__main__":
    main()

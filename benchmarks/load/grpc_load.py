"""Clients that ask a gRPC server one text after the other: a process of its own.

    python benchmarks/load/grpc_load.py ADDRESS MODEL TEXTS.json --clients 32 --seconds 10

Requests are made beforehand and answers are read afterwards, so that the clients take little of the
cores that they share with the server. Prints a JSON object: texts per second, the 50th and 99th
percentile of the time to an answer in milliseconds, requests and failures.
"""

import argparse
import asyncio
import itertools
import json
import time

import grpc
import numpy as np

from bert_tf.serving.wire import protocol


def request_bytes(model, text):
    """A serialized Predict request for the vector of a text."""
    request = protocol.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = "embed"
    request.inputs["text"].CopyFrom(protocol.to_tensor(np.array([text], object)))
    return request.SerializeToString()


async def load(address, requests, clients, warm_up, seconds):
    """Each client has a connection of its own and asks again when it is answered."""
    turn = itertools.count()
    times, failures = [], []
    begin = time.perf_counter() + warm_up
    end = begin + seconds

    async def client():
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(address, options) as channel:
            ask = channel.unary_unary(protocol.PREDICT)
            while (start := time.perf_counter()) < end:
                try:
                    await ask(requests[next(turn) % len(requests)], timeout=60)
                except grpc.RpcError as error:
                    failures.append(f"{error.code().name} {error.details()}")
                stop = time.perf_counter()
                if begin <= stop <= end:
                    times.append(stop - start)

    await asyncio.gather(*(client() for _ in range(clients)))
    return times, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--warm_up", type=float, default=3, help="seconds before it counts")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    with open(arguments.texts, encoding="utf-8") as stream:
        requests = [request_bytes(arguments.model, text) for text in json.load(stream)]
    times, failures = asyncio.run(load(arguments.address, requests, arguments.clients,
                                       arguments.warm_up, arguments.seconds))
    p50, p99 = np.percentile(times, [50, 99]) * 1000 if times else (None, None)
    print(json.dumps({"texts_per_second": len(times) / arguments.seconds, "p50_ms": p50,
                      "p99_ms": p99, "requests": len(times), "failures": len(failures),
                      "failure": failures[0] if failures else None}))


if __name__ == "__main__":
    main()

"""A client that asks and waits, to be killed before it is answered: a process of its own.

    python benchmarks/load/doomed_client.py ADDRESS METHOD REQUEST COUNT

The file REQUEST holds a serialized request, which is sent COUNT times at once to METHOD; then the
program prints a line. It imports next to nothing, so that it takes little of the cores.
"""

import sys

import grpc


def main():
    address, method, path, count = sys.argv[1:]
    with open(path, "rb") as stream:
        request = stream.read()
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result()
        ask = channel.unary_unary(method)
        asked = [ask.future(request) for _ in range(int(count))]
        print("asked", flush=True)
        for each in asked:
            each.result()


if __name__ == "__main__":
    main()

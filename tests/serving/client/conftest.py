"""The clients' tests: against a server of the test's own, over both protocols, by both clients."""

import asyncio

import pytest
from scripted_server import MODEL

from bert_tf.serving.client import AsyncClient, Client


@pytest.fixture(params=["grpc", "rest"])
def protocol(request):
    return request.param


@pytest.fixture(params=[Client, AsyncClient])
def ask(request):
    """`ask(address, method, *arguments, of={client's options}, **inputs)` by one of the clients."""
    def waiting(address, method, *arguments, of=None, **inputs):
        with Client(address, MODEL, **(of or {})) as client:
            return getattr(client, method)(*arguments, **inputs)

    def asynchronous(address, method, *arguments, of=None, **inputs):
        async def call():
            async with AsyncClient(address, MODEL, **(of or {})) as client:
                return await getattr(client, method)(*arguments, **inputs)
        return asyncio.run(call())

    return waiting if request.param is Client else asynchronous

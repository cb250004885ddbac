"""What the client's methods take and give, and what it does not take."""

import asyncio
import json
import subprocess
import sys

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from scripted_server import MODEL, Refusal, ScriptedServer, numbers

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.client import AsyncClient, Client, RequestError, Tls, steps
from bert_tf.serving.client.address import Address
from bert_tf.serving.client.rest_wire import RestWire
from bert_tf.serving.wire.request import ServingError, Spec


@pytest.mark.parametrize(("outputs", "message"), [
    ({"embedding": np.zeros([2, 2], np.float32)}, "2 rows in answer to 1"),
    ({"embedding": np.zeros([1, 2], np.float32), "more": np.zeros([3])}, "rows")])
def test_wrong_answers(ask, outputs, message):
    with (ScriptedServer(lambda *_: outputs).running("grpc") as address,
          pytest.raises(BertTfError, match=message)):
        ask(address, "embed", ["5"])


@pytest.mark.parametrize(("embedding", "message"), [
    (["x"], "'embedding' is no DT_FLOAT of 2 axes"), ([[1], [2, 3]], "no DT_FLOAT of 2 axes"),
    ([1.0], "1 axes")])
def test_wrong_json(ask, embedding, message):
    answer = {"embedding": np.array(embedding, object)}
    with (ScriptedServer(lambda *_: answer).running("rest") as address,
          pytest.raises(RequestError, match=message)):
        ask(address, "embed", ["5"])


def test_what_it_is_asked_must_fit_the_signature(protocol, ask):
    server = ScriptedServer(signatures={"sample": (
        {"text": (tf.string, [None]), "seed": (tf.int32, [None])}, {"text": (tf.string, [None])})})
    with server.running(protocol) as address:
        for method, arguments, inputs, message in (
                ("tag", ["a"], {}, "model m has no signature 'tag'; expected one of sample"),
                ("predict", ["sample"], {"text": ["a"]}, "inputs text .* expected seed text"),
                ("predict", ["sample"], {"text": ["a"], "seed": [1, 2]}, "1 of text, 2 of seed"),
                ("predict", ["sample"], {"text": ["a"], "seed": [1.5]}, "seed: float64 values"),
                ("predict", ["sample"], {"text": ["a"], "seed": [[1]]}, "seed with 2 axes"),
                ("predict", ["sample"], {"text": [3], "seed": [1]}, "text\\[0\\] is 3 of type int"),
                ("predict", ["sample"], {"text": "a", "seed": [1]}, "text: the string .a."),
                ("predict", ["sample"], {"text": ["\ud800"], "seed": [1]}, "half a surrogate")):
            with pytest.raises(UsageError, match=message):
                ask(address, method, *arguments, **inputs)
    assert server.requests == 0


@pytest.mark.parametrize(("address", "options", "message"), [
    ("localhost", {}, "expected host:port"), ("ftp://localhost:1", {}, "expected host:port"),
    ("localhost:1/v1", {}, "expected host:port"), ("localhost:x", {}, "expected host:port"),
    ("server..example:1", {}, "expected host:port"),
    (f"http://{'a' * 64}:1", {}, "expected host:port"),
    ("http://localhost:1", {"tls": Tls()}, "https://"),
    ("http://me:secret@localhost:1", {}, "^an address with a user name; expected host:port alone"),
    ("localhost:1", {"version": 1, "label": "stable"}, "one of them"),
    ("localhost:1", {"batch_size": 0}, "at least 1"),
    *(("localhost:1", {"timeout": wrong}, f"^timeout={wrong}; expected seconds above 0")
      for wrong in (0, float("nan"), None)),
    ("localhost:1", {"version": 2**63}, f"version={2**63}; expected a number of 64 bits"),
    ("localhost:1", {"pretokenize": "words"}, "pretokenize='words' is unknown")])
def test_wrong_arguments(address, options, message):
    with pytest.raises(UsageError, match=message):
        Client(address, MODEL, **options)


def test_a_host_that_cannot_be_decoded(ask):
    with pytest.raises(UsageError, match="http://xn--a.invalid:1.*expected the name of a host"):
        ask("http://xn--a.invalid:1", "embed", ["5"])


def test_a_client_that_asked_nothing_connects_to_nothing():
    for address in ("https://localhost:1", "localhost:1"):
        with Client(address, MODEL, tls=Tls(ca_file="/nonexistent")):
            pass

    async def unused():
        async with AsyncClient("https://localhost:1", MODEL, tls=Tls(ca_file="/nonexistent")):
            pass

    asyncio.run(unused())


@pytest.mark.parametrize("version", [{}, None, 1.5, "", "-1", "x"])
def test_a_version_that_is_none(version):
    wire = RestWire(Address.parse("http://localhost:1"), Spec("m"))
    body = {"model_spec": {"version": version}, "metadata": {"signature_def": {}}}
    with pytest.raises(ServingError, match="the answer has the version"):
        wire.metadata().read(httpx.Response(200, json=body))


@pytest.mark.parametrize("signatures", [1, {"signature_def": 1}, {"\ud800": {}}])
def test_signatures_that_are_none(signatures):
    wire = RestWire(Address.parse("http://localhost:1"), Spec("m"))
    body = {"model_spec": {"version": 1}, "metadata": {"signature_def": signatures}}
    with pytest.raises(ServingError, match="the answer is no SignatureDefMap"):
        wire.metadata().read(httpx.Response(200, content=json.dumps(body)))


def test_status_and_metadata(protocol, ask):
    with ScriptedServer().running(protocol) as address:
        assert ask(address, "status") == [
            {"version": 3, "state": "AVAILABLE", "error_code": "OK", "error_message": ""}]
        assert ask(address, "metadata") == {
            "name": MODEL, "version": 3, "signatures": {"embed": {
                "inputs": {"text": {"dtype": "DT_STRING", "shape": [-1]}},
                "outputs": {"embedding": {"dtype": "DT_FLOAT", "shape": [-1, 2]}}}}}


def test_ranking(protocol, ask):
    with ScriptedServer().running(protocol) as address:
        # Vectors (x, 1): the nearer x, the smaller the angle.
        assert [each["index"] for each in ask(address, "rank", "5", ["90", "6", "-7", "5"])] == [
            3, 1, 0, 2]
        assert ask(address, "rank", "5", []) == []


def _continued(signature, inputs):
    """Each text is continued by what it was asked with."""
    if signature == "describe":
        result = {"continuation": {"kind": "continuation", "text": "text"}}
        return {"description": np.array([json.dumps({"results": dict.fromkeys(
            ("generate", "sample"), result)}).encode()])}
    seeds = inputs.get("seed", ["likeliest"] * len(inputs["text"]))
    return {"text": np.array([f" {seed}".encode() for seed in seeds], object)}


def test_a_continuation_is_drawn_where_seeds_are_given(protocol, ask):
    text = {"text": (tf.string, [None])}
    server = ScriptedServer(_continued, {
        "describe": TAGGER["describe"], "generate": (text, text),
        "sample": ({**text, "seed": (tf.int32, [None])}, text)})
    with server.running(protocol) as address:
        assert ask(address, "generate", ["a", "b"]) == [" likeliest", " likeliest"]
        assert ask(address, "generate", ["a", "b"], seed=[7, 8]) == [" 7", " 8"]
        assert ask(address, "generate", "a", seed=7) == " 7"


TAGGER = {
    "describe": ({"text": (tf.string, [None])}, {"description": (tf.string, [None])}),
    "tag": ({"text": (tf.string, [None])}, {
        "entities": (tf.string, [None, None]), "labels": (tf.string, [None, None]),
        "starts": (tf.int32, [None, None]), "ends": (tf.int32, [None, None]),
        "scores": (tf.float32, [None, None]), "num_entities": (tf.int32, [None])})}


def _second_word(signature, inputs):
    """A tagger that calls the second word of a text an entity, if there is one."""
    if signature == "describe":
        return {"description": np.array([json.dumps({"pretokenize": "morphemes"}).encode()])}
    texts = [text.decode() for text in inputs["text"]]
    found = [text.split(" ")[1:2] for text in texts]
    most = max(map(len, found))
    pad = [(words + [""] * most)[:most] for words in found]
    starts = [[text.find(" ") + 1 if word else 0 for word in words]
              for text, words in zip(texts, pad, strict=True)]
    ends = [[start + len(word) for start, word in zip(*each, strict=True)]
            for each in zip(starts, pad, strict=True)]
    shape = len(texts), most
    return {"entities": np.array([[word.encode() for word in words] for words in pad],
                                 object).reshape(shape),
            "labels": np.array([[b"X" if word else b"" for word in words] for words in pad],
                               object).reshape(shape),
            "starts": np.int32(starts).reshape(shape), "ends": np.int32(ends).reshape(shape),
            "scores": np.full(shape, 0.5, np.float32), "num_entities": np.int32(
                [len(words) for words in found])}


def test_morphemes_are_cut_here_and_offsets_lead_back(protocol, ask):
    pytest.importorskip("kiwipiepy")
    server = ScriptedServer(_second_word, TAGGER)
    with server.running(protocol) as address:
        # The model sees 영화 를 재밌 게 봤 다.
        assert ask(address, "tag", ["영화를 재밌게 봤다", "word"]) == [
            [{"text": "를", "label": "X", "start": 2, "end": 3, "score": 0.5}], []]
        assert ask(address, "tag", "영화를 봤다", of={"pretokenize": "none"}) == [
            {"text": "봤다", "label": "X", "start": 4, "end": 6, "score": 0.5}]
        assert ask(address, "tag", ["word"]) == [[]]
        assert ask(address, "describe") == {"pretokenize": "morphemes"}


def test_those_that_ask_at_the_same_time_all_know_what_the_model_reads(protocol):
    pytest.importorskip("kiwipiepy")

    async def both(address):
        async with AsyncClient(address, MODEL) as client:
            return await asyncio.gather(client.tag("영화를 봤다"), client.tag("영화를 봤다"))

    with ScriptedServer(_second_word, TAGGER).running(protocol) as address:
        for found in asyncio.run(both(address)):
            assert [each["text"] for each in found] == ["를"]


def test_prompts_come_before_what_is_ranked(protocol, ask):
    prompts, seen = {"query": "q: ", "document": "p: "}, []

    def answer(signature, inputs):
        if signature == "describe":
            return {"description": np.array([json.dumps({"prompts": prompts}).encode()])}
        seen.extend(inputs["text"])
        return {"embedding": np.eye(len(inputs["text"]), dtype=np.float32)}

    server = ScriptedServer(answer, {
        "describe": TAGGER["describe"],
        "embed": ({"text": (tf.string, [None])}, {"embedding": (tf.float32, [None, 3])})})
    with server.running(protocol) as address:
        ask(address, "rank", "a", ["b", "c"])
    assert [bytes(text).decode() for text in seen] == ["q: a", "p: b", "p: c"]


def test_prompts_of_a_version_whose_number_returned(monkeypatch):
    monkeypatch.setattr(steps, "_KNOWN_SECONDS", -1.0)
    text, seen, prompt = {"text": (tf.string, [None])}, [], "old "

    def answer(signature, inputs):
        if signature == "describe":
            return {"description": np.array([json.dumps({"prompts": {"query": prompt}}).encode()])}
        seen.append(bytes(inputs["text"][0]).decode())
        return {"embedding": np.eye(len(inputs["text"]), dtype=np.float32)}

    server = ScriptedServer(answer, {
        "describe": TAGGER["describe"], "embed": (text, {"embedding": (tf.float32, [None, 2])})})
    with server.running("rest") as address, Client(address, MODEL) as client:
        client.rank("a", ["b"])
        server.version = 4
        client.rank("a", ["b"])
        server.version, server.signatures["more"], prompt = 3, (text, text), "new "
        client.rank("a", ["b"])
    assert (seen[0], seen[-1]) == ("old a", "new a")


def test_prompts_of_a_new_version(protocol, monkeypatch):
    if protocol == "rest":
        monkeypatch.setattr(steps, "_KNOWN_SECONDS", -1.0)
    seen = []

    def answer(signature, inputs):
        if signature == "describe":
            prompts = {"query": f"q{server.version}: ", "passage": f"p{server.version}: "}
            return {"description": np.array([json.dumps({"prompts": prompts}).encode()])}
        seen.append([bytes(text).decode() for text in inputs["text"]])
        return {"embedding": np.eye(len(inputs["text"]), dtype=np.float32)}

    server = ScriptedServer(answer, {
        "describe": TAGGER["describe"],
        "embed": ({"text": (tf.string, [None])}, {"embedding": (tf.float32, [None, 2])})})
    with server.running(protocol) as address, Client(address, MODEL) as client:
        client.rank("a", ["b"])
        assert seen == [["q3: a", "p3: b"]]
        server.version = 4
        client.rank("a", ["b"])
        assert seen[-1] == ["q4: a", "p4: b"]
        for wrong in (3, None, ["a"]):
            with pytest.raises(UsageError, match=r"query\[0\] is .*; expected a string"):
                client.rank(wrong, ["b"])


def test_a_version_with_other_signatures(protocol):
    score = {"score": (tf.float32, [None])}
    pair = dict.fromkeys(("query", "passage"), (tf.string, [None]))
    embed = ({"text": (tf.string, [None])}, {"embedding": (tf.float32, [None, 2])})

    def answer(signature, inputs):
        if signature not in server.signatures:
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, 400, "no such signature")
        if signature == "embed":
            return numbers(signature, inputs)
        return {"score": np.float32([len(text) for text in inputs["passage"]])}

    def ranked(client, *passages):
        return [row["text"] for row in client.rank("1", passages)]

    server = ScriptedServer(answer, {"rank": (pair, score), "measure": embed})
    with (server.running(protocol) as address, Client(address, MODEL) as one,
          Client(address, MODEL) as other):
        assert ranked(one, "1", "22") == ranked(other, "1", "22") == ["22", "1"]
        server.signatures = {"embed": embed, "measure": (pair, score)}
        [row] = one.predict("measure", query=["1"], passage=["22"])
        assert row["score"] == 2
        with pytest.raises(RequestError, match="no such signature"):
            ranked(other, "-1", "1")
        assert ranked(other, "-1", "1") == ["1", "-1"]


def test_no_tensorflow_is_imported():
    code = """
import sys
from bert_tf.serving.client import Client
for address in sys.argv[1:]:
    with Client(address, "m") as client:
        assert client.embed("4").tolist() == [4, 1]
print({"tensorflow", "keras", "tensorflow_serving"} & set(sys.modules))
"""
    with ScriptedServer().running("grpc") as one, ScriptedServer().running("rest") as other:
        result = subprocess.run([sys.executable, "-c", code, one, other], capture_output=True,
                                text=True, check=False)
    assert (result.stdout, result.stderr) == ("set()\n", "")


def test_a_closed_client_asks_nothing(protocol):
    closed = pytest.raises(UsageError, match="a client that is closed; try a new one")

    async def asynchronous(address):
        async with AsyncClient(address, MODEL) as client:
            await client.embed("4")
        with closed:
            await client.embed("4")

    with ScriptedServer().running(protocol) as address:
        with Client(address, MODEL) as client:
            client.embed("4")
        with closed:
            client.embed("4")
        asyncio.run(asynchronous(address))


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_client_that_is_closed_during_a_call_says_so(protocol, in_flight, monkeypatch):
    closed = pytest.raises(UsageError, match="a client that is closed; try a new one")

    def closing(close, function):
        def call(*arguments):
            close()
            return function(*arguments)
        return call

    async def asynchronous(address):
        async with AsyncClient(address, MODEL) as client:
            await client.embed("4")
            loop, ask_all = asyncio.get_running_loop(), client._ask_all

            async def close_and_ask(*arguments):
                await client.close()
                return await ask_all(*arguments)

            if in_flight:
                monkeypatch.setattr(server, "answer", closing(
                    lambda: asyncio.run_coroutine_threadsafe(client.close(), loop).result(),
                    numbers))
            else:
                monkeypatch.setattr(client, "_ask_all", close_and_ask)
            with closed:
                await client.embed("4")

    server = ScriptedServer()
    with server.running(protocol) as address:
        asyncio.run(asynchronous(address))
        monkeypatch.setattr(server, "answer", numbers)
        with Client(address, MODEL) as client:
            client.embed("4")
            where, name = (server, "answer") if in_flight else (client, "_ask_all")
            monkeypatch.setattr(where, name, closing(client.close, getattr(where, name)))
            with closed:
                client.embed("4")


def test_a_call_that_is_cancelled_stays_so_where_the_client_is_closed(protocol):
    async def cancelled(address):
        client, loop = AsyncClient(address, MODEL), asyncio.get_running_loop()

        async def cancel():
            call.cancel()
            await client.close()

        def answer(*arguments):
            asyncio.run_coroutine_threadsafe(cancel(), loop).result()
            return numbers(*arguments)

        server.answer = answer
        call = asyncio.ensure_future(client.embed("4"))
        with pytest.raises(asyncio.CancelledError):
            await call

    server = ScriptedServer()
    with server.running(protocol) as address:
        asyncio.run(cancelled(address))

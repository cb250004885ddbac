"""How the client asks: batches, retries, deadlines, what is wrong with a server, morphemes.

Against a server of the test's own, over both protocols, by both clients.
"""

import asyncio
import itertools
import json
import socket
import subprocess
import sys
import threading

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from scripted_server import MODEL, Refusal, ScriptedServer, numbers

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.client import AsyncClient, Client, RequestError, Tls
from bert_tf.serving.client.address import Address
from bert_tf.serving.wire.request import ServingError, Spec

LIMIT = 60  # seconds after which a test that waits has failed


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


def _sizes(server, then=numbers):
    """Notes how many texts each request has."""
    sizes = []

    def answer(signature, inputs):
        sizes.append(len(inputs["text"]))
        return then(signature, inputs)

    server.answer = answer
    return sizes


def test_long_lists_go_in_batches_and_keep_their_order(protocol, ask):
    server = ScriptedServer()
    lock, together = threading.Lock(), threading.Barrier(3)
    running, most, started = 0, 0, itertools.count()

    def answer(signature, inputs):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if next(started) < together.parties:
            together.wait(LIMIT)  # these are there at the same time
        outputs = numbers(signature, inputs)
        with lock:
            running -= 1
        return outputs

    server.answer = answer
    sizes = _sizes(server, answer)
    with server.running(protocol) as address:
        vectors = ask(address, "embed", [str(number) for number in range(100)],
                      of={"batch_size": 8, "concurrency": 3})
    np.testing.assert_array_equal(vectors[:, 0], np.arange(100))
    assert vectors.dtype == np.float32
    assert sorted(sizes) == [4] + [8] * 12
    assert most == 3


def test_one_text_gives_one_result_and_none_no_request(protocol, ask):
    server = ScriptedServer()
    with server.running(protocol) as address:
        assert ask(address, "embed", "7").tolist() == [7, 1]
        assert server.requests == 1
        assert len(ask(address, "embed", [])) == 0
        assert server.requests == 1


def _unavailable(times):
    """An answer that is refused so many times."""
    count = itertools.count()

    def answer(signature, inputs):
        if next(count) < times:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, 503, "the queue is full")
        return numbers(signature, inputs)
    return answer


def test_what_is_unavailable_is_asked_again(protocol, ask):
    server = ScriptedServer(_unavailable(2))
    with server.running(protocol) as address:
        assert ask(address, "embed", ["5"]).tolist() == [[5, 1]]
    assert server.requests == 3


def test_not_for_ever(protocol, ask):
    server = ScriptedServer(_unavailable(1000))
    with (server.running(protocol) as address,
          pytest.raises(RequestError, match="model m: the queue is full") as error):
        ask(address, "embed", ["5"], of={"retries": 2})
    assert error.value.code == "UNAVAILABLE"
    assert server.requests == 3


@pytest.mark.parametrize(("code", "status"), [
    (grpc.StatusCode.INVALID_ARGUMENT, 400), (grpc.StatusCode.NOT_FOUND, 404),
    (grpc.StatusCode.DEADLINE_EXCEEDED, 504), (grpc.StatusCode.UNIMPLEMENTED, 501)])
def test_what_else_is_wrong_is_told_at_once(protocol, ask, code, status):
    def answer(signature, inputs):
        raise Refusal(code, status, "말이 안 돼요")

    server = ScriptedServer(answer)
    with (server.running(protocol) as address,
          pytest.raises(RequestError, match="말이 안 돼요") as error):
        ask(address, "embed", ["5"])
    assert error.value.code == code.name
    assert server.requests == 1


def test_the_first_failure_ends_the_call(protocol, ask):
    def answer(signature, inputs):
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, 400, "no")

    server = ScriptedServer(answer)
    with (server.running(protocol) as address,
          pytest.raises(RequestError, match="no")):
        ask(address, "embed", ["5"] * 50, of={"batch_size": 1, "concurrency": 2})
    assert server.requests < 50


@pytest.mark.parametrize("of", ["requests", "the call"])
def test_deadlines(protocol, ask, of):
    over = threading.Event()

    def answer(signature, inputs):
        over.wait(LIMIT)
        return numbers(signature, inputs)

    with ScriptedServer(answer).running(protocol) as address:
        with pytest.raises(RequestError) as error:
            if of == "requests":
                ask(address, "embed", ["5"], of={"timeout": 0.5})
            else:
                ask(address, "embed", ["5"], timeout=0.5)
        over.set()
    assert error.value.code == "DEADLINE_EXCEEDED"


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_no_server(protocol, ask):
    address = f"{'http://' if protocol == 'rest' else ''}localhost:{_free_port()}"
    with pytest.raises(RequestError, match=f"no server answers at {address}: Connection refused "
                       r"\(waited \d+\.\d s\); expected a server that has loaded its models"):
        ask(address, "embed", ["5"])
    with pytest.raises(RequestError, match="no server answers at nowhere.invalid:1: "):
        ask("nowhere.invalid:1", "status")


def test_no_proxy_leads_to_this_machine(protocol, ask, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "no_proxy"):
        for each in (name, name.upper()):
            monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{_free_port()}")  # there is none
    monkeypatch.setenv("grpc_proxy", f"http://127.0.0.1:{_free_port()}")
    with ScriptedServer().running(protocol) as address:
        scheme, port = "http://" * (protocol == "rest"), address.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost"):
            assert ask(f"{scheme}{host}:{port}", "embed", ["5"]).tolist() == [[5, 1]]
        # A name of this machine that does not say so: through the proxy, unless no_proxy names it.
        other = f"{scheme}{socket.gethostname()}:{port}"
        monkeypatch.setattr(Address, "unreachable", lambda self, seconds: "not through the proxy")
        with pytest.raises(RequestError, match="not through the proxy"):
            ask(other, "embed", ["5"], of={"retries": 0, "timeout": 20})
        monkeypatch.setenv("no_proxy", f"elsewhere,{socket.gethostname()}")
        assert ask(other, "embed", ["5"]).tolist() == [[5, 1]]


@pytest.mark.parametrize(("status", "code"), [
    (413, "RESOURCE_EXHAUSTED"), (408, "DEADLINE_EXCEEDED"), (502, "UNAVAILABLE"),
    (429, "RESOURCE_EXHAUSTED"), (418, "UNKNOWN")])
def test_what_http_servers_and_proxies_say_themselves(ask, status, code):
    def answer(signature, inputs):
        raise Refusal(grpc.StatusCode.UNKNOWN, status, "no")

    with (ScriptedServer(answer).running("rest") as address,
          pytest.raises(RequestError, match="no") as error):
        ask(address, "embed", ["5"], of={"retries": 0})
    assert error.value.code == code


def test_the_other_protocols_server(protocol, ask):
    with ScriptedServer().running(protocol) as address:
        other = f"http://{address}" if protocol == "grpc" else address.removeprefix("http://")
        with pytest.raises(RequestError, match=other):
            ask(other, "embed", ["5"], of={"retries": 1, "timeout": 5})


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


IDS = ("input_word_ids", "input_mask")


def _echo_server():
    """Answers each row of ids with itself, and notes how long the rows were."""
    lengths = []

    def answer(signature, inputs):
        lengths.append(inputs["input_word_ids"].shape[1])
        return {"ids": inputs["input_word_ids"] * 10 + inputs["input_mask"]}

    server = ScriptedServer(answer, {"embed_ids": (
        {name: (tf.int32, [None, None]) for name in IDS}, {"ids": (tf.int32, [None, None])})})
    return server, lengths


@pytest.mark.parametrize(("pad_to", "length"), [(None, 3), (5, 5)])
def test_rows_of_ids_are_padded_to_one_length(protocol, ask, pad_to, length):
    server, lengths = _echo_server()
    with server.running(protocol) as address:
        rows = ask(address, "predict", "embed_ids", input_word_ids=[[2, 7, 3], [4], [5, 6]],
                   input_mask=[[1, 1, 1], np.ones(1, int), [1, 1]],
                   of={"batch_size": 1, "pad_to": pad_to})
    assert lengths == [length] * 3  # whatever else is in a request's batch
    assert [row["ids"].tolist() for row in rows] == [
        row + [0] * (length - len(row)) for row in ([21, 71, 31], [41], [51, 61])]


def test_ids_that_cannot_be_padded(protocol, ask):
    server, lengths = _echo_server()
    with server.running(protocol) as address:
        for ids, mask, pad_to, message in (
                ([[1, 2]], [[1]], None, "input_mask with rows of 1 ids; expected as of"),
                ([[1, 2]], [[1, 1]], 1, "a row of 2 ids; expected up to pad_to=1"),
                ([1, 2], [1, 1], None, "input_word_ids with 1 axes"),
                ([[1.5], [1, 2]], [[1], [1, 1]], None, "input_word_ids: float64 values")):
            with pytest.raises(UsageError, match=message):
                ask(address, "predict", "embed_ids", input_word_ids=ids, input_mask=mask,
                    of={"pad_to": pad_to})
    assert not lengths


@pytest.mark.parametrize(("address", "options", "message"), [
    ("localhost", {}, "expected host:port"), ("ftp://localhost:1", {}, "expected host:port"),
    ("localhost:1/v1", {}, "expected host:port"), ("localhost:x", {}, "expected host:port"),
    ("http://localhost:1", {"tls": Tls()}, "https://"),
    ("http://me:secret@localhost:1", {}, "^an address with a user name; expected host:port alone"),
    ("localhost:1", {"version": 1, "label": "stable"}, "one of them"),
    ("localhost:1", {"batch_size": 0}, "at least 1"),
    ("localhost:1", {"pretokenize": "words"}, "pretokenize='words' is unknown")])
def test_wrong_arguments(address, options, message):
    with pytest.raises(UsageError, match=message):
        Client(address, MODEL, **options)


@pytest.mark.parametrize("version", [{}, None, 1.5, "", "-1", "x"])
def test_a_version_that_is_none(version):
    from bert_tf.serving.client.rest_wire import RestWire

    wire = RestWire(Address.parse("http://localhost:1"), Spec("m"))
    body = {"model_spec": {"version": version}, "metadata": {"signature_def": {}}}
    with pytest.raises(ServingError, match="the answer has the version"):
        wire.metadata().read(httpx.Response(200, json=body))


@pytest.mark.parametrize("signatures", [1, {"signature_def": 1}, {"\ud800": {}}])
def test_signatures_that_are_none(signatures):
    from bert_tf.serving.client.rest_wire import RestWire

    wire = RestWire(Address.parse("http://localhost:1"), Spec("m"))
    body = {"model_spec": {"version": 1}, "metadata": {"signature_def": signatures}}
    with pytest.raises(ServingError, match="the answer is no SignatureDefMap"):
        wire.metadata().read(httpx.Response(200, content=json.dumps(body)))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Paths of a key and of a certificate of `localhost` that it signs itself."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-keyout", key, "-out", certificate, "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"], check=True,
                       capture_output=True)
    except FileNotFoundError:
        pytest.skip("the command openssl is absent")
    return key, certificate


def test_tls(ask, certificate, tmp_path):
    with ScriptedServer().running("grpc", certificate) as address:
        tls = Tls(ca_file=str(certificate[1]))
        assert ask(address, "embed", "3", of={"tls": tls}).tolist() == [3, 1]
        for scheme in ("", "https://"):
            with pytest.raises(RequestError, match="certificate verify failed"):
                ask(scheme + address, "embed", "3", of={"tls": Tls()})
        other = tmp_path / "other.pem"
        other.write_text("not a certificate")
        with pytest.raises(BertTfError, match="other.pem"):
            ask(f"https://{address}", "embed", "3", of={"tls": Tls(ca_file=str(other))})
        with pytest.raises(BertTfError, match="nowhere.pem: no such file"):
            ask(address, "embed", "3", of={"tls": Tls(ca_file=str(tmp_path / "nowhere.pem"))})


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

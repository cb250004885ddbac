"""The gateway in front of a server that does what a test says, and in front of none."""

import asyncio
import contextlib
import json
import threading

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from fake_backend import serving
from scripted_server import MODEL, Refusal, ScriptedServer
from server_harness import PATIENCE, free_ports

from bert_tf import cli, gateway
from bert_tf.errors import UsageError
from bert_tf.serving.gateway import client_backend
from bert_tf.serving.gateway.client_backend import ClientBackend
from bert_tf.serving.gateway.run import make_app
from bert_tf.serving.server.codec import Decoder
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.wire import parts
from bert_tf.serving.wire.request import Limits, ServingError

LIMITS = Limits(100, 1 << 20, 1000)
_TEXT = {"text": (tf.string, [None])}
SIGNATURES = {"embed": (_TEXT, {"embedding": (tf.float32, [None, 2])}),
              "count_tokens": (_TEXT, {"num_tokens": (tf.int32, [None])}),
              "describe": (_TEXT, {"description": (tf.string, [None])})}
DESCRIPTION = json.dumps({"seq_length": 4, "embedding": {"pooling": "mean"}})


def _answer(signature, inputs):
    texts = inputs["text"]
    if signature == "describe":
        return {"description": np.array([DESCRIPTION] * len(texts), object)}
    if signature == "count_tokens":
        return {"num_tokens": np.int32([len(text) for text in texts])}
    return {"embedding": np.float32([[len(text), 0] for text in texts])}


@pytest.fixture
def posting():
    """`posting(address)`: a context of `post(**fields)` to `/v1/embeddings` of a gateway."""
    @contextlib.contextmanager
    def posting(address, **options):
        backend = ClientBackend(address, [MODEL], Decoder(), LIMITS, Metrics(), **options)
        with serving(backend, timeout=PATIENCE) as client:
            yield lambda **fields: client.post("/v1/embeddings", json={"model": MODEL, **fields})

    return posting


def test_a_model_is_asked_what_it_is_once(posting, monkeypatch):
    monkeypatch.setattr(client_backend, "_KNOWN_SECONDS", PATIENCE)
    scripted = ScriptedServer(_answer, SIGNATURES)
    with scripted.running("grpc") as address, posting(address) as post:
        for _ in range(3):
            body = post(input=["abc", "abcdefgh"]).json()
            assert body["usage"]["prompt_tokens"] == 3 + 4
            assert [row["embedding"] for row in body["data"]] == [[1, 0]] * 2
        # The client asks for the description once as well.
        assert scripted.requests <= 2 + 3 * 2
        assert post(input="abcdefgh", truncate=False).status_code == 400


def test_the_server_is_asked_as_many_rows_as_it_takes():
    sizes = []

    def answer(signature, inputs):
        sizes.append((signature, len(inputs["text"])))
        return _answer(signature, inputs)

    scripted = ScriptedServer(answer, SIGNATURES)
    with scripted.running("grpc") as address:
        flags = gateway._parser().parse_args(
            [f"--address={address}", f"--models={MODEL}", "--batch_size=4"])
        with serving(make_app(flags)[1], timeout=PATIENCE) as client:
            body = client.post("/v1/embeddings", json={"model": MODEL, "input": ["a"] * 10}).json()
    assert len(body["data"]) == 10
    assert sorted(size for name, size in sizes if name == "embed") == [2, 4, 4]


def test_labels_are_those_of_the_version_that_answers():
    """What is known of a model is taken for true for a while, in which another one may come."""
    labels = []

    def answer(signature, inputs):
        if signature == "describe":
            return {"description": np.array([json.dumps({"labels": labels})], object)}
        return {"probabilities": np.float32([[0.25, 0.75]])}

    signatures = {"predict": (_TEXT, {"probabilities": (tf.float32, [None, 2])}),
                  "describe": SIGNATURES["describe"]}
    scripted = ScriptedServer(answer, signatures)
    with scripted.running("grpc") as address:
        backend = ClientBackend(address, [MODEL], Decoder(), LIMITS, Metrics())
        with serving(backend, timeout=PATIENCE) as client:
            for labels in (["bad", "good"], ["good", "bad"]):
                scripted.version += 1
                for _ in range(2):
                    found = client.post("/predict", json={"inputs": "a"}).json()
                    assert found == [{"label": labels[1], "score": 0.75},
                                     {"label": labels[0], "score": 0.25}]


def test_a_model_becomes_one_of_another_kind(posting):
    """What is known of it is forgotten when the server says that it has no such signature: the
    request is tried anew with what the new version has."""
    def answer(signature, inputs):
        if signature not in scripted.signatures:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, 400, "no such signature")
        return _answer(signature, inputs)

    scripted = ScriptedServer(answer, dict(SIGNATURES))
    with scripted.running("grpc") as address, posting(address) as post:
        assert post(input="abc").json()["usage"]["prompt_tokens"] == 3
        for lost, answered in (("count_tokens", '"prompt_tokens":0'), ("embed", "gives no vector")):
            del scripted.signatures[lost]
            scripted.version += 1
            for _ in range(2):
                assert answered in post(input="abc").text


def test_what_the_server_refuses_is_told_without_where_it_is(posting):
    codes = []

    def answer(signature, inputs):
        if signature == "embed":
            raise Refusal(codes[-1], 500, "of the server")
        return _answer(signature, inputs)

    with ScriptedServer(answer, SIGNATURES).running("grpc") as address, posting(address) as post:
        for code, status in ((grpc.StatusCode.INVALID_ARGUMENT, 400),
                             (grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
                             (grpc.StatusCode.INTERNAL, 500)):
            codes.append(code)
            response = post(input="a")
            assert response.status_code == status
            assert response.json()["error"]["message"] == "of the server"
        # Whom the server lets in is the gateway's affair.
        codes.append(grpc.StatusCode.UNAUTHENTICATED)
        response = post(input="a")
        assert response.status_code == 503
        assert response.json()["error"]["message"] == "the server of the models does not answer"


def test_a_server_that_goes_is_told_without_where_it_was(posting, caplog):
    with contextlib.ExitStack() as running:
        address = running.enter_context(ScriptedServer(_answer, SIGNATURES).running("grpc"))
        with posting(address) as post:
            assert post(input="a").status_code == 200
            running.close()
            response = post(input="a")
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "the server of the models does not answer"
    assert address in caplog.text


def test_no_server(posting, caplog):
    address = f"localhost:{free_ports(1)[0]}"
    with posting(address) as post:
        response = post(input="a")
        assert response.status_code == 503 and "localhost" not in response.text
        base = str(response.url).removesuffix("/v1/embeddings")
        for path in ("/health", f"/models/{MODEL}/health"):
            assert httpx.get(base + path, timeout=PATIENCE).status_code == 503
    assert address in caplog.text


def test_health_asks_models_at_the_same_time(monkeypatch):
    import scripted_server

    both = threading.Barrier(2, timeout=PATIENCE)
    answer = scripted_server._Status.GetModelStatus

    def status(self, request, context):
        both.wait()  # each is answered when the other is asked, too
        return answer(self, request, context)

    monkeypatch.setattr(scripted_server._Status, "GetModelStatus", status)
    monkeypatch.setattr(client_backend, "_HEALTH_SECONDS", PATIENCE)
    with ScriptedServer(_answer, SIGNATURES).running("grpc") as address:
        backend = ClientBackend(address, ["a", "b"], Decoder(), LIMITS, Metrics())
        with serving(backend, timeout=PATIENCE) as client:
            assert client.get("/health").status_code == 200
    assert not both.broken


def test_a_model_that_the_server_lacks(posting):
    def metadata(self, request, context):
        context.abort(grpc.StatusCode.NOT_FOUND, "no version is available")

    import scripted_server

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripted_server._Prediction, "GetModelMetadata", metadata)
        with ScriptedServer().running("grpc") as address, posting(address) as post:
            response = post(input="a")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


def test_a_model_is_asked_what_it_is_within_the_request_s_time(posting, monkeypatch):
    import scripted_server

    left = []

    def timed(answer):
        def timed(self, request, context):
            left.append(context.time_remaining())
            if len(left) == 2:  # that of what the model is, after that of its signatures
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "late")
            return answer(self, request, context)
        return timed

    for name in ("GetModelMetadata", "Predict"):
        monkeypatch.setattr(scripted_server._Prediction, name,
                            timed(getattr(scripted_server._Prediction, name)))
    with (ScriptedServer(_answer, SIGNATURES).running("grpc") as address,
          posting(address) as post):
        assert post(input="a").status_code == 504
    assert len(left) == 2 and max(left) < 2 * PATIENCE  # of a client it is any


@pytest.mark.parametrize(("flags", "message"), [
    ([], "--models"), (["--models="], "a gateway without models"),
    (["--models=a, ,b", "--address=nowhere"], "an empty name in 'a, ,b'; expected names with a"),
    (["--models=m", "--api=soap"], "soap; expected openai or tei"),
    (["--models=m", "--address=nowhere"], "the address 'nowhere'"),
    (["--models=m", "--api_key_file=/none/keys"], "/none/keys"),
    (["--models=m", "--address=nowhere", "--api_key_file="], "--api_key_file: an empty path"),
    (["--models=m", "--address=nowhere", "--server_key_file="], "--server_key_file: an empty path"),
    (["--models=m", "--address=nowhere", "--ca_file="], "--ca_file: an empty path"),
    (["--models=m", "--address=nowhere", "--ssl_config_file="], "--ssl_config_file: an empty path"),
    (["--models=m", "--port=65536"], "a port from 0 to 65535"),
])
def test_usage(flags, message, capsys):
    assert cli.run(gateway.main, flags) == (1 if message == "/none/keys" else 2)
    assert message in capsys.readouterr().err


def test_a_missing_analyser_is_told(posting, monkeypatch):
    def missing(texts):
        raise UsageError("try pip install 'bert_tf[korean]'")

    def answer(signature, inputs):
        if signature == "describe":
            told = json.dumps({**json.loads(DESCRIPTION), "pretokenize": "morphemes"})
            return {"description": np.array([told] * len(inputs["text"]), object)}
        return _answer(signature, inputs)

    monkeypatch.setattr("bert_tf.serving.apis.morphemes.analyse", missing)
    with ScriptedServer(answer, SIGNATURES).running("grpc") as address, posting(address) as post:
        response = post(input="나무")
    assert response.status_code == 501 and "bert_tf[korean]" in response.text


def test_rows_of_ids_are_asked_in_parts(posting, monkeypatch):
    monkeypatch.setattr(client_backend, "_PART", 4)
    asked = []

    def answer(signature, inputs):
        if signature != "embed_ids":
            return _answer(signature, inputs)
        asked.append(inputs["input_word_ids"].shape)
        return {"embedding": inputs["input_word_ids"][:, :2].astype(np.float32)}

    ids = {name: (tf.int32, [None, None])
           for name in ("input_word_ids", "input_mask", "input_type_ids")}
    signatures = {**SIGNATURES, "embed_ids": (ids, SIGNATURES["embed"][1])}
    with ScriptedServer(answer, signatures).running("grpc") as address, posting(address) as post:
        body = post(input=[[3, number + 1] for number in range(10)]).json()
    assert asked == [(4, 4), (4, 4), (2, 4)]
    vectors = np.array([row["embedding"] for row in body["data"]])
    expected = np.array([[3, number + 1] for number in range(10)])
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1)[:, None],
                               rtol=1e-6)


def test_texts_are_asked_in_parts(posting, monkeypatch):
    """Of a rerank each row has the query, so that its rows together may be many times the body."""
    monkeypatch.setattr(parts, "_BYTES", 100)
    asked = []

    def answer(signature, inputs):
        if signature != "rank":
            return _answer(signature, inputs)
        asked.append(len(inputs["query"]))
        return {"score": np.float32([len(text) for text in inputs["passage"]])}

    pair = {name: (tf.string, [None]) for name in ("query", "passage")}
    signatures = {"describe": SIGNATURES["describe"],
                  "rank": (pair, {"score": (tf.float32, [None])})}
    with ScriptedServer(answer, signatures).running("grpc") as address, posting(address) as post:
        url = str(post(input="a").url).replace("embeddings", "rerank")
        body = httpx.post(url, timeout=PATIENCE, json={
            "model": MODEL, "query": "q" * 40, "documents": ["a", "bbb", "cc"]}).json()
    assert asked == [2, 1]
    assert [row["index"] for row in body["results"]] == [1, 2, 0]


def test_the_log_has_each_failure_once(caplog, monkeypatch):
    """The line about a model that is not there, at every probe, takes no other's place."""
    def answer(signature, inputs):
        raise Refusal(grpc.StatusCode.UNAUTHENTICATED, 401, "show a key")

    monkeypatch.setattr(client_backend, "_SILENT_SECONDS", PATIENCE)

    async def ask(address):
        backend = ClientBackend(address, [MODEL], Decoder(), LIMITS, Metrics())
        for _ in range(2):
            backend._say(UsageError("model typo has no versions"))
            with pytest.raises(ServingError):
                await backend.about(MODEL, None)
        await backend.close()

    with ScriptedServer(answer, SIGNATURES).running("grpc") as address:
        asyncio.run(ask(address))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 and lines[0] == "model typo has no versions" and "show a key" in lines[1]


@pytest.mark.parametrize(("models", "line", "again", "held"), [
    (["a"], "no answer (waited {} s)", [59], 20),  # which differs at each request, fills no memory
    (["a", "b", "c"], "model {} has no versions", range(60), 60)])  # of many, at each probe
def test_the_log_is_silent_of_the_latest_lines(caplog, models, line, again, held):
    lines = [line.format(number) for number in range(60)]

    async def say():
        backend = ClientBackend("localhost:1", models, Decoder(), LIMITS, Metrics())
        for said in (*lines, *map(lines.__getitem__, again)):
            backend._say(UsageError(said))
        await backend.close()
        return backend._silent

    assert len(asyncio.run(say())) == held
    assert [record.getMessage() for record in caplog.records] == lines


def test_an_answer_that_does_not_fit_is_no_silence(posting):
    def answer(signature, inputs):
        outputs = _answer(signature, inputs)
        return outputs if signature == "describe" else {
            name: np.repeat(values, 2, 0) for name, values in outputs.items()}

    with ScriptedServer(answer, SIGNATURES).running("grpc") as address, posting(address) as post:
        assert post(input="a").status_code == 500

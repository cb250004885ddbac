"""API keys: what a file of them may hold, who is let in, and that keys are told to nobody."""

import hmac
import logging
import os

import grpc
import pytest
from fake_backend import EMBEDDER, FakeBackend, serving
from fake_models import add_version, answering, rest_of, running, settings_of
from server_harness import PATIENCE

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.apis.keys import Keys
from bert_tf.serving.apis.settings import ApiSettings
from bert_tf.serving.client import Client, RequestError
from bert_tf.serving.server.rest_server import RestSettings

KEY, OTHER = "key-of-the-first-client", "0ther/key+with=signs"
RIGHT = {"authorization": f"Bearer {KEY}"}
WRONG = [{}, {"authorization": ""}, {"authorization": "Bearer"}, {"authorization": KEY},
         {"authorization": f"Basic {KEY}"},
         {"authorization": f"Bearer {KEY}x"}, {"authorization": f"Bearer {KEY[:-1]}"},
         {"authorization": f"Bearer {KEY} {OTHER}"}, {"authorization": f"Bearer {KEY.upper()}"},
         {"authorization": b"Bearer \xff"}]


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# of clients\n\n{KEY}\r\n  {OTHER}\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(("text", "message"), [
    ("", "holds no key; expected one on each line"),
    ("# nobody\n\n", "holds no key"),
    ("secret one\n", "line 1: a key with blanks or other characters than ASCII"),
    ("fine\nschlüssel\n", "line 2: a key with blanks"),
], ids=["empty", "comments", "blank", "umlaut"])
def test_files_without_keys(tmp_path, text, message):
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as raised:
        Keys.read(str(path))
    assert "secret" not in str(raised.value) and "schl" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BertTfError, match="none"):
        Keys.read(str(tmp_path / "none"))


def test_a_file_that_others_may_read_is_warned_of(key_file, caplog):
    with caplog.at_level(logging.WARNING):
        Keys.read(str(key_file))
        assert not caplog.text
        os.chmod(key_file, 0o440)  # a secret that a container's group may read
        Keys.read(str(key_file))
        assert not caplog.text
        os.chmod(key_file, 0o644)
        Keys.read(str(key_file))
    assert "can be read by everybody" in caplog.text and KEY not in caplog.text


def test_every_key_is_compared_and_in_constant_time(monkeypatch, key_file):
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: compared.append(both) or
                        both[0] == both[1])
    keys = Keys.read(str(key_file))
    for key in (KEY, OTHER, "", "x" * 10_000):
        compared.clear()
        try:
            keys.check(f"Bearer {key}".encode())
        except RequestError:
            pass
        except Exception as problem:
            assert problem.code == "UNAUTHENTICATED"
        # As many comparisons of as many bytes, whatever was given.
        assert [(len(one), len(other)) for one, other in compared] == [(32, 32)] * 2


def test_nobody_without_a_key_is_let_in(key_file, caplog):
    backend = FakeBackend(EMBEDDER)
    with serving(backend, Keys.read(str(key_file))) as client:
        for method, path in (("POST", "/v1/embeddings"), ("POST", "/embed"), ("POST", "/v2/rerank"),
                             ("GET", "/v1/models"), ("POST", "/models/embedder/embed"),
                             ("GET", "/info"), ("GET", "/anything")):
            for headers in WRONG:
                response = client.request(method, path, json={"inputs": "a"}, headers=headers)
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
                assert "API key" in response.text and KEY not in response.text
            assert client.request(method, path, headers=RIGHT).status_code != 401
        assert client.get("/health").status_code == 200
    backend.close()
    assert not backend.asked and KEY not in caplog.text


def test_each_protocol_says_so_in_its_form(key_file):
    backend = FakeBackend(EMBEDDER)
    with serving(backend, Keys.read(str(key_file))) as client:
        for method in ("POST", "GET"):  # a method that it refuses, too
            assert client.request(method, "/v1/embeddings").json() == {"error": {
                "message": "no API key; expected the header Authorization: Bearer KEY",
                "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}}
        wrong = {"authorization": "Bearer x"}
        assert client.post("/v1/rerank", headers=wrong).json() == {
            "message": "the API key is not one of this server's"}
        for method, path in (("POST", "/embed"), ("PUT", "/models/embedder/embed")):
            assert client.request(method, path, headers=wrong).json() == {
                "error": "the API key is not one of this server's", "error_type": "Validation"}
        assert client.post("/other", headers=wrong).json() == {
            "error": "the API key is not one of this server's"}
    backend.close()


def test_tensorflow_serving_s_own_apis_ask_for_a_key_too(fake_versions, tmp_path, key_file):
    import httpx

    add_version(tmp_path / "m")
    settings = settings_of(tmp_path, f"--api_key_file={key_file}")
    apis = ApiSettings(("openai", "tei"))  # of which the latter answers `POST /`
    with running(settings) as (run, core), rest_of(core, run, keys=settings.keys,
                                                   apis=apis) as address:
        path = f"{address}/v1/models/m:predict"
        for url in (path, f"{address}/v1/models/m", f"{address}/page/models",
                    f"{address}/page/has_attention?model=m"):
            assert httpx.get(url, timeout=PATIENCE).status_code == 401
        page = httpx.get(address, timeout=PATIENCE)  # which then asks for a key
        assert page.status_code == 200
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert httpx.request(method, address, json={"inputs": "a"},
                                 timeout=PATIENCE).status_code == 401
        response = httpx.post(path, json={"instances": [2]}, headers=RIGHT, timeout=PATIENCE)
        assert response.json() == {"predictions": [4]}
        with Client(address, "m", api_key=OTHER) as client:
            assert client.status()[0]["state"] == "AVAILABLE"
        with Client(address, "m") as client, pytest.raises(RequestError) as raised:
            client.status()
        assert raised.value.code == "UNAUTHENTICATED"
        with rest_of(core, run, RestSettings(cors=True), keys=settings.keys) as address:
            refused = httpx.get(f"{address}/v1/models/m", timeout=PATIENCE)
            assert refused.status_code == 401
            assert refused.headers["access-control-allow-origin"] == "*"  # or pages cannot read it


def test_grpc_asks_for_a_key_too(fake_versions, tmp_path, key_file):
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    add_version(tmp_path / "m")
    with answering(settings_of(tmp_path, f"--api_key_file={key_file}", "--port=0",
                               f"--grpc_socket_path={tmp_path / 's'}")):
        address = f"unix:{tmp_path / 's'}"
        with grpc.insecure_channel(address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            assert health.Check(health_pb2.HealthCheckRequest(service="")).status == 1
            for path in ("PredictionService/Predict", "PredictionService/GetModelMetadata",
                         "ModelService/GetModelStatus", "ModelService/HandleReloadConfigRequest"):
                call = channel.unary_unary(f"/tensorflow.serving.{path}")
                for metadata in ((), (("authorization", "Bearer x"),)):
                    with pytest.raises(grpc.RpcError) as raised:
                        call(b"", metadata=metadata)
                    assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED
            with pytest.raises(grpc.RpcError) as raised:
                call(b"", metadata=(("authorization", f"Bearer {KEY}"),))
            assert raised.value.code() != grpc.StatusCode.UNAUTHENTICATED


def test_a_client_s_key_is_not_shown():
    with pytest.raises(UsageError) as raised:
        Client("localhost:1", "m", api_key="of somebody")
    assert "somebody" not in str(raised.value)


def test_a_page_of_another_origin_may_ask_before_it_shows_a_key():
    backend = FakeBackend(EMBEDDER)
    with serving(backend, Keys([KEY]), cors=True) as client:
        for path in ("/embed", "/info", "/models/embedder/info", "/v1/models", "/v2/rerank"):
            response = client.options(path, headers={"Origin": "https://example.org"})
            assert (response.status_code, response.headers["access-control-allow-headers"]) == (
                200, "Authorization, *")
        assert client.options("/nothing").status_code == 404
    backend.close()

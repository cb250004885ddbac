"""A local server that speaks the Hugging Face Hub's protocol, and fails in its ways on demand."""

import hashlib
import http.server
import json
import re
import threading
import urllib.parse

_LARGE = (".safetensors", ".bin", ".h5", ".npz")  # such files are kept apart, behind a redirect
_REPOSITORY = r"(?P<name>[\w.-]+/[\w.-]+)"
_API = re.compile(rf"/api/models/{_REPOSITORY}(?:/(?P<what>revision|tree)/(?P<revision>[^/]+))?/?")
_RESOLVE = re.compile(rf"/{_REPOSITORY}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


def commit_of(files):
    """The commit that a dict of files makes."""
    facts = sorted((name, hashlib.sha256(data).hexdigest()) for name, data in files.items())
    return hashlib.sha1(json.dumps(facts).encode(), usedforsecurity=False).hexdigest()


def read_from(server, cache, monkeypatch):
    """Let this process read from a server, with a folder as its cache."""
    from huggingface_hub import constants

    from bert_tf.storage import staging

    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE",
                        server.address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(staging, "_origins", {})
    monkeypatch.setenv("HF_TOKEN", "")
    forget(monkeypatch)


def forget(monkeypatch, offline=False):
    """Let this process be as one that has read nothing yet."""
    from huggingface_hub import constants

    from bert_tf.storage import hub

    monkeypatch.setattr(hub, "_found", {})
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)


class HubServer:
    """The server; a context.

    Attributes:
        address: its URL.
        repositories: `{org/name: {revision: {path: bytes}}}`.
        refusals: `{org/name: (status, X-Error-Code or None)}`, of whatever is asked of it; `gated`
            as the status is 403 for its files only.
        tokens: of those who may read all the same.
        faults: `{path: list of faults}`; a fault goes with the answer that has it. A number ends
            the answer after so many bytes; a function changes the bytes.
        requests: `(method, path, Range or None)`, in order.
    """

    def __init__(self):
        self.repositories, self.refusals, self.faults = {}, {}, {}
        self.tokens, self.requests = set(), []
        self._stopped = False

        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub._answer(self)

            do_HEAD = do_GET

            def log_message(self, *arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        port = self._server.server_address[1]
        self.address = f"http://127.0.0.1:{port}"
        self._elsewhere = f"http://localhost:{port}"  # another host, as the Hub's files are on

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def stop(self):
        """Answer nothing any more."""
        self._stopped = True
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def downloaded(self):
        """Paths of the files whose content was asked for."""
        return sorted(path.split("/", 5)[5] if "/resolve/" in path else path.split("/", 3)[3]
                      for method, path, _ in self.requests if method == "GET"
                      and ("/resolve/" in path or path.startswith("/cdn/")))

    def _answer(self, handler):
        if self._stopped:  # a connection that was kept
            handler.close_connection = True
            return None
        path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path)
        self.requests.append((handler.command, path, handler.headers.get("Range")))
        if path.startswith("/cdn/"):
            _, _, digest, name = path.split("/", 3)
            data = next(data for revisions in self.repositories.values()
                        for files in revisions.values() for data in files.values()
                        if hashlib.sha256(data).hexdigest() == digest)
            return self._send_file(handler, name, data, {"ETag": f'"{digest}"'})
        found = _API.fullmatch(path) or _RESOLVE.fullmatch(path)
        if not found or found["name"] not in self.repositories:
            return self._send(handler, 404, b"{}", {"X-Error-Code": "RepoNotFound"})
        token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        refusal = self.refusals.get(found["name"])
        if refusal and token not in self.tokens and (refusal[0] != "gated" or
                                                     found.re is _RESOLVE):
            status, code = refusal
            return self._send(handler, 403 if status == "gated" else status, b"{}",
                              {"X-Error-Code": code} if code else {})
        revisions = self.repositories[found["name"]]
        named = found["revision"] or "main"
        files = next((files for revision, files in revisions.items()
                      if named in (revision, commit_of(files))), None)
        if files is None:
            return self._send(handler, 404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        if found.re is _RESOLVE:
            return self._resolve(handler, files, found["path"])
        if found["what"] == "tree":
            return self._send(handler, 200, json.dumps([_entry(*each) for each in files.items()]))
        return self._send(handler, 200, json.dumps({
            "_id": "0", "id": found["name"], "modelId": found["name"], "sha": commit_of(files),
            "private": False, "gated": False, "disabled": False, "downloads": 0, "likes": 0,
            "tags": [], "siblings": [{"rfilename": name} for name in files]}))

    def _resolve(self, handler, files, path):
        commit = {"X-Repo-Commit": commit_of(files)}
        if path not in files:
            return self._send(handler, 404, b"", {**commit, "X-Error-Code": "EntryNotFound"})
        entry, data = _entry(path, files[path]), files[path]
        if "lfs" in entry:
            digest = entry["lfs"]["oid"]
            return self._send(handler, 302, b"", {
                **commit, "Location": f"{self._elsewhere}/cdn/{digest}/{path}",
                "X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data))})
        return self._send_file(handler, path, data, {**commit, "ETag": f'"{entry["oid"]}"'})

    def _send_file(self, handler, name, data, headers):
        status, length = 200, len(data)
        if handler.headers.get("Range"):
            start = int(re.match(r"bytes=(\d+)-", handler.headers["Range"])[1])
            headers |= {"Content-Range": f"bytes {start}-{length - 1}/{length}"}
            status, data = 206, data[start:]
        if handler.command == "GET" and self.faults.get(name):
            fault = self.faults[name].pop(0)
            if callable(fault):
                data = fault(data)
            else:
                self._send(handler, status, data[:fault], headers, length=len(data))
                handler.close_connection = True
                return None
        return self._send(handler, status, data, {**headers, "Accept-Ranges": "bytes"})

    def _send(self, handler, status, data, headers=(), length=None):
        data = data.encode() if isinstance(data, str) else data
        handler.send_response(status)
        for name, value in dict(headers).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data) if length is None else length))
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(data)


def _entry(path, data):
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    entry = {"type": "file", "path": path, "size": len(data), "oid": oid}
    if path.endswith(_LARGE):
        entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data),
                        "pointerSize": 134}
    return entry

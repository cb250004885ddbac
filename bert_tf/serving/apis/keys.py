"""API keys: who may ask.

A client shows its key as `Authorization: Bearer KEY`. Kept, and compared, are digests: how long a
comparison takes tells nothing about a key, and a key stands in no error, log line or memory dump.
"""

import hashlib
import hmac
import logging
import os
import stat

from bert_tf.serving.apis.refusal import Kind, refusal
from bert_tf.serving.wire.key_file import read_keys
from bert_tf.storage import files

_log = logging.getLogger(__name__)


class Keys:
    """The keys that are let in.

    Args:
        keys: texts.
    """

    def __init__(self, keys):
        self._digests = [_digest(key.encode("ascii")) for key in keys]

    @classmethod
    def read(cls, path):
        """Read `--api_key_file`; errors as of `read_keys`.

        That others than its owner and group may read it is said in the log.
        """
        keys = read_keys(path)
        if not files.is_remote(path) and os.stat(path).st_mode & stat.S_IRWXO:
            _log.warning("%s can be read by everybody; chmod o= %s", path, path)
        return cls(keys)

    def check(self, authorization):
        """Refuse what is not `Bearer KEY` with one of the keys; bytes, `b""` for nothing."""
        scheme, _, key = authorization.partition(b" ")
        digest = _digest(key.strip())
        # All of them are compared, whichever is the right one.
        right = sum([hmac.compare_digest(digest, each) for each in self._digests])
        if scheme.lower() != b"bearer" or not right:
            raise refusal("no_key" if not authorization else "wrong_key", Kind.NO_KEY)


def _digest(key):
    return hashlib.sha256(key).digest()


class KeyGuard:
    """ASGI middleware that lets nobody without a key past, but to open paths.

    Args:
        app: the application.
        keys: `Keys`.
        open_paths: that may be read (GET) without a key: of health and metrics.
        refuse: `(scope, refusal)` gives the status, headers and body of the answer.
    """

    def __init__(self, app, keys, open_paths, refuse):
        self.app = app
        self._keys = keys
        self._open_paths = frozenset(open_paths)
        self._refuse = refuse

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and not self._is_open(scope["method"], scope["path"]):
            try:
                self._keys.check(dict(scope["headers"]).get(b"authorization", b""))
            except Exception as problem:
                status, headers, body = self._refuse(scope, problem)
                await send({"type": "http.response.start", "status": status,
                            "headers": [*headers, (b"www-authenticate", b"Bearer")]})
                await send({"type": "http.response.body", "body": body})
                return
        await self.app(scope, receive, send)

    def _is_open(self, method, path):
        # A browser asks for the OPTIONS of a path without a key.
        return method == "OPTIONS" or (method in ("GET", "HEAD") and path in self._open_paths)

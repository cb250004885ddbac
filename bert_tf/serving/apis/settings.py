"""How the protocols behave; light, for who reads flags."""

import dataclasses

from bert_tf.serving.wire.request import Limits

NAMES = ("openai", "tei")  # of `--api`
HEALTH = ("/health", "/ping")  # paths that need no key
MAX_TOKENS = 300_000  # of a request


@dataclasses.dataclass(frozen=True)
class ApiSettings:
    """How the protocols behave.

    Attributes:
        apis: which there are, of `NAMES`.
        limits: `Limits` of a request.
        timeout: seconds from a request to 504; 0 for none.
        max_tokens: of a request.
        cors: whether pages of other origins may ask.
        max_connections: of the server at the same time.
    """

    apis: tuple = ()
    limits: Limits = Limits(4096, 64 << 20, 1 << 20)
    timeout: float = 30.0
    max_tokens: int = MAX_TOKENS
    cors: bool = False
    max_connections: int = 1000

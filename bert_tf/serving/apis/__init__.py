"""Protocols of other servers for our models: OpenAI's, Cohere's, text-embeddings-inference's.

A request goes this way: `app` finds its route, `keys` lets it in, `body` reads it, the protocol's
file (`openai`, `cohere`, `tei`) takes its JSON apart by `fields`, `tasks` asks the models through a
`backend`, and the protocol's file writes the answer, or the `refusal` in that protocol's form.

There are two backends: the server's own models (`server/core_backend`) and, over gRPC, those of
another server (`gateway/`). Nothing here knows which, and nothing needs TensorFlow.
"""

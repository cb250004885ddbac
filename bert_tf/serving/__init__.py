"""Served models over the wire: the client, and a server for where the binary is absent.

`wire` is between bytes and arrays, for both sides; `client` asks; `server` answers; `apis` are the
protocols of other servers, which `server` answers as well, and `gateway` in front of another
server. A request to predict goes this way, each step in the file of that name:

1. `server/http_limits` bounds the connection and `server/rest_server` reads path and body, or
   `server/grpc_services` takes the message; both let `server/core` see that the model is there.
2. `server/codec` has the bytes decoded, large ones in a process of their own: JSON by
   `wire/rest_json` with `wire/rest_text`, a message by `wire/grpc_messages` with
   `wire/tensor_proto` and `wire/protocol`.
3. `server/core` finds the version in `server/models`, lets `server/signature` check the inputs and
   `server/batcher` merge them with others' and run the signature in a thread.
4. `server/codec` has the outputs encoded, large ones in a thread, by what decoded the inputs.

On the way `wire/request` has what is asked for, `wire/messages` what is said where it is refused,
and `server/metrics` counts.
"""

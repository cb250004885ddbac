"""The embedded model server: what `tensorflow_model_server` does, in Python."""

DRAIN_SECONDS = 30  # for requests that are under way when a server is told to stop

"""The embedded model server: what `tensorflow_model_server` does, in Python."""

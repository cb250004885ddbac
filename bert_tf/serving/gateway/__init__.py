"""The protocols of `apis` in front of another server's models, over gRPC and without TensorFlow."""

"""Keras models that train an encoder for a purpose."""

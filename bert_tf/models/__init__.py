"""Encoders built from the layers, and their folders on disk."""

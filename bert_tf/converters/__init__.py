"""Weights in and out: each format is a name table applied both ways."""

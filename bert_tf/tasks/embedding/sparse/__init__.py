"""Weights of the vocabulary's tokens for texts."""

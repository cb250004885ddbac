"""Vectors of texts, and encoders without a head."""

"""Rerankers: query and passage are read together, a number says how well they fit."""

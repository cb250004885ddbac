"""Losses of vectors: `table.LOSSES` has them by name."""

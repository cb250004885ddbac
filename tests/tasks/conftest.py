"""Exports of tiny models."""

from exports import any_export, each, exported, model_folder

__all__ = ["any_export", "each", "exported", "model_folder"]

"""Saving and loading: one safetensors file with a JSON description, read without running anything from it."""

from ulmus.persistence.file import FORMAT, Description, LoadError, describe, load, save

__all__ = ["FORMAT", "Description", "LoadError", "describe", "load", "save"]

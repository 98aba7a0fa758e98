"""The command line. Needs the extra ``cli``."""

from ulmus.cli.main import app, main

__all__ = ["app", "main"]

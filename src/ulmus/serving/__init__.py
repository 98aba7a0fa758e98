"""A model behind HTTP: a form, uploads and a JSON endpoint, on this machine by default. Needs starlette."""

from ulmus.serving.app import Limits, application

__all__ = ["Limits", "application"]

"""Reports: one HTML page about one model. Needs matplotlib."""

from ulmus.report.report import report

__all__ = ["report"]

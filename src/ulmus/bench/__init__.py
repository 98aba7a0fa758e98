"""Our self-tuned models against what a user would pick, on the user's own machine."""

from ulmus.bench.suites import SUITES, Suite

__all__ = ["SUITES", "Suite"]

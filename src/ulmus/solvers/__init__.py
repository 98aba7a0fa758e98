"""Solvers: from statistics or rows to weights."""

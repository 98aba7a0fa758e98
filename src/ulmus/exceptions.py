"""Warnings of the library."""


class NumericalWarning(UserWarning):
    """Digits were lost, a rank was cut or an iteration stopped early; the message carries the number."""

"""Numbers as people write them: four digits, all of those before the point, no exponent where none is needed."""

import math

#: Where digits are set in groups, and where an exponent is easier to read.
GROUPED, SMALL, LARGE = 1e4, 1e-4, 1e15


def number(value: float | None) -> str:
    """A number for a table.

    Examples
    --------
    >>> [number(v) for v in (29791.34, 1999.0, 0.012345, 3e-7, float("nan"))]
    ['29,791', '1999', '0.01235', '3e-07', '–']
    """
    if value is None or math.isnan(value):
        return "–"
    size = abs(value)
    if GROUPED <= size < LARGE:
        return f"{value:,.0f}"
    if GROUPED / 10 <= size < GROUPED:
        return f"{value:.0f}"
    return f"{value:.4g}"

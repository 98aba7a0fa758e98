"""Numbers as people write them: four digits, all of those before the point, no exponent where none is needed."""

import math

#: Where digits are set in groups, and where an exponent is easier to read.
GROUPED, SMALL, LARGE = 1e4, 1e-4, 1e15
#: Numbers that four digits would make a one, and those that are one but for round-off.
NEARLY_ONE, EXACT = 0.99995, 1e-12


def number(value: float | None) -> str:
    """A number for a table.

    Examples
    --------
    >>> [number(v) for v in (29791.34, 1999.0, 0.012345, 3e-7, 0.999983, float("nan"))]
    ['29,791', '1999', '0.01235', '3e-07', '0.99998', '–']
    """
    if value is None or math.isnan(value):
        return "–"
    size = abs(value)
    if GROUPED <= size < LARGE:
        return f"{value:,.0f}"
    if GROUPED / 10 <= size < GROUPED:
        return f"{value:.0f}"
    if NEARLY_ONE <= size < 1 - EXACT:  # 0.99998 is not 1
        return f"{value:.{math.ceil(-math.log10(1 - size))}f}".rstrip("0")
    return f"{value:.4g}"

"""Small tables for people: as text, and as HTML."""

from collections.abc import Sequence
from html import escape
from re import fullmatch

Row = Sequence[str]


def text_table(rows: Sequence[Row], header: Row = ()) -> list[str]:
    """Lines of aligned columns: the first to the left, numbers to the right.

    Examples
    --------
    >>> print(*text_table([("C", "32"), ("gamma", "0.25")], ("", "value")), sep="\\n")
           value
    C         32
    gamma   0.25
    """
    every = [*([header] if header else []), *rows]
    widths = [max(len(row[k]) for row in every) for k in range(len(every[0]))] if every else []
    right = [k > 0 and all(_is_number(row[k]) for row in rows) for k in range(len(widths))]
    lines = []
    for row in every:
        cells = (cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True))
        lines.append("  ".join(cells).rstrip())
    return lines


def html_table(rows: Sequence[Row], header: Row = ()) -> str:
    """The same as an HTML table."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if header else ''}<tbody>{body}</tbody></table>"


def _is_number(cell: str) -> bool:
    return not cell or cell == "–" or fullmatch(r"-?[\d,.]+(e[+-]?\d+)?", cell) is not None

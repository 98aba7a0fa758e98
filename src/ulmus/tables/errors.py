"""One kind of error for all that can be wrong with a table."""


class TableError(ValueError):
    """A table cannot be used; the message names the file and, where there is one, the row and the column."""

    def __init__(self, message: str, *, file: str = "", row: int | None = None, column: str | None = None) -> None:
        self.message, self.file, self.row, self.column = message, file, row, column
        place = [file] if file else []
        place += [f"row {row}"] if row is not None else []
        place += [f"column {column!r}"] if column is not None else []
        super().__init__(f"{', '.join(place)}: {message}" if place else message)

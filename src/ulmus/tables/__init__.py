"""Tables from files: what their columns are, and how they become features. Needs pyarrow and pandas."""

from ulmus.features.dates import DateParts
from ulmus.tables.errors import TableError

__all__ = ["DateParts", "TableError"]

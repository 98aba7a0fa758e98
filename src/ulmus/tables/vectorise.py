"""From the columns of a table to features: scikit-learn's transformers, chosen by the kinds of the columns."""

from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ulmus.tables.dates import DateParts
from ulmus.tables.kinds import Kind

#: Categories of one column that get a feature of their own; the rest share one.
MAX_CATEGORIES = 40


def _numbers() -> Pipeline:
    """Missing numbers become the median, with a feature that says so; all have mean 0 and deviation 1."""
    return Pipeline(
        [("missing", SimpleImputer(strategy="median", add_indicator=True, copy=False)), ("scale", StandardScaler())]
    )


#: Kinds → what becomes of their columns. Categories are not scaled: two that differ are one apart.
PARTS: dict[tuple[str, ...], Any] = {
    ("number", "boolean"): _numbers,
    ("date",): lambda: Pipeline([("parts", DateParts()), *_numbers().steps]),
    ("category",): lambda: OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False
    ),
}


def vectoriser(columns: dict[str, Kind]) -> ColumnTransformer:
    """Unfitted transformer for columns of these kinds."""
    parts = []
    for kinds, make in PARTS.items():
        names = [name for name, kind in columns.items() if kind.name in kinds]
        if names:
            parts.append((kinds[0], make(), names))
    return ColumnTransformer(parts, sparse_threshold=0.0, verbose_feature_names_out=False)

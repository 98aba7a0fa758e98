"""From the columns of a table to features: scikit-learn's transformers, chosen by the kinds of the columns."""

from collections.abc import Callable
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from ulmus.features.dates import DateParts
from ulmus.tables.kinds import Kind

#: Categories of one column that get a feature of their own; the rest share one.
MAX_CATEGORIES = 40

Parts = dict[tuple[str, ...], Callable[[], Any]]


def _filled() -> SimpleImputer:
    """Missing numbers become the median, with a feature that says so."""
    return SimpleImputer(strategy="median", add_indicator=True, copy=False)


def _scaled() -> list[tuple[str, Any]]:
    """All have mean 0 and deviation 1."""
    return [("missing", _filled()), ("scale", StandardScaler())]


#: Kinds → what becomes of their columns. Categories are not scaled: two that differ are one apart.
FEATURES: Parts = {
    ("number", "boolean"): lambda: Pipeline(_scaled()),
    ("date",): lambda: Pipeline([("parts", DateParts()), *_scaled()]),
    ("category",): lambda: OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False
    ),
}
#: The same for models that prepare numbers and categories themselves: categories are numbered, and come first.
CODES: Parts = {
    ("category",): lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ("number", "boolean"): _filled,
    ("date",): lambda: Pipeline([("parts", DateParts()), ("missing", _filled())]),
}


def vectoriser(columns: dict[str, Kind]) -> ColumnTransformer:
    """Unfitted transformer to features, for columns of these kinds."""
    return _transformer(columns, FEATURES)


def encoder(columns: dict[str, Kind]) -> tuple[ColumnTransformer, int]:
    """Unfitted transformer to codes and numbers, and how many of its columns, the first, are codes."""
    return _transformer(columns, CODES), sum(kind.name == "category" for kind in columns.values())


def _transformer(columns: dict[str, Kind], table: Parts) -> ColumnTransformer:
    parts = []
    for kinds, make in table.items():
        names = [name for name, kind in columns.items() if kind.name in kinds]
        if names:
            parts.append((kinds[0], make(), names))
    return ColumnTransformer(parts, sparse_threshold=0.0, verbose_feature_names_out=False)

"""A table of columns of every kind as numbers: the one preparation of frames in Python and of files."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ulmus._sklearn import Interval, check_sample_weight, fit_context, safe_indexing
from ulmus.exceptions import LeftOutWarning, warn
from ulmus.features.columns import KINDS, LEFT_OUT, Reader, kinds_of
from ulmus.features.frames import Column, NamedArrays, columns_of, frame_of, given_rows, read, read_array
from ulmus.features.preparation import Preparation
from ulmus.features.text import TEXT_FEATURES
from ulmus.features.written import Kind
from ulmus.parameters import Parameter, Parameters, estimator

#: Kinds of columns, and what leaves one out.
ALLOWED = (*KINDS, *LEFT_OUT)

PARAMETERS: Parameters = {
    "prepared": Parameter(
        True,
        ("boolean",),
        "bool",
        """With True, numbers are filled (by the median, beside a 0/1 column that says so) and standardised, and
        categories become a 0/1 column for each of their 32 most frequent levels: for kernels and linear models. With
        False, numbers are as they are, NaN where they are missing, and categories are codes (``categorical_`` says
        which): for models that prepare these themselves, as adaptive models and boosted trees do.""",
    ),
    "kinds": Parameter(
        None,
        (dict, None),
        "dict of str to str or None",
        """What columns are, by name, where that is not to be inferred from their values: "number", "boolean", "date",
        "time", "duration", "category", "tags", "text"; "id" and "drop" leave a column out. A pair says how it is
        written as well: ("date", "%d/%m/%Y"), ("number", "decimal comma"), ("tags", ";").""",
    ),
    "text_features": Parameter(
        TEXT_FEATURES,
        (Interval(Integral, 1, None, closed="left"),),
        "int",
        "Numbers that a column of text becomes, at most.",
    ),
    "random_state": Parameter(
        None, ("random_state",), "int, RandomState or None", "Makes the features of texts repeatable."
    ),
}


@estimator(PARAMETERS)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Columns of every kind as numbers: dates, categories, tags, text, amounts of money, and numbers.

    ==========  ===========================================================  ==========================================
    kind        is found by                                                  becomes
    ==========  ===========================================================  ==========================================
    number      a numeric type; text such as 1,234.5 or € 12.30 or 42.1%     itself
    boolean     the type; true and false                                     0 and 1
    date        the type; text in common forms                               days since 1970, and a sine and a cosine
                                                                             of the year, the week and the day
    time        the type; 14:05, 2:05 pm                                     a share of the day, its sine and cosine
    duration    the type; 36:10:05, 1h 30m                                   days
    category    the type; words that recur                                   a code, or 0/1 columns
    tags        lists; words with | or ; or , between them that recur        a 0/1 column for each of the 32 most
                                                                             frequent tags
    text        words that do not recur                                      features of hashed n-grams
                                                                             (:mod:`ulmus.features.text`)
    id          nearly all distinct, and one word each or different by       nothing, with a warning
                their digits alone; whole numbers, all distinct, that are
                called id, or count the rows without a name
    ==========  ===========================================================  ==========================================

    Columns without values, or with only one, are left out as well. Adaptive models use this encoder by themselves where
    they are given frames, and so does ``ulmus fit`` for files. For others it is the first step of a pipeline.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    kinds_ : dict of str to str
        What every column is.
    left_out_ : dict of str to str
        The columns that are left out, and why.
    categorical_ : ndarray of bool
        Which of the numbers that come out are codes of levels; none where ``prepared`` is True.
    inputs_ : ndarray of int
        The input behind every number that comes out.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X has names.

    See Also
    --------
    AdaptiveRegressor : Encodes the columns of frames by itself.
    check_table : Says what is odd about a table before it is encoded.

    Notes
    -----
    Values that cannot be read, and more unknown levels than training lets one expect, give a warning; a column of
    another type than it was is an error.

    Examples
    --------
    >>> import pandas as pd, ulmus
    >>> rows = pd.DataFrame({
    ...     "price": ["€ 12.30", "€ 9", "€ 1,240.50", "€ 7.10"],
    ...     "sold": ["2024-01-05", "2024-03-01", "2025-02-11", None],
    ...     "town": ["Rome", "Oslo", "Rome", "Bern"],
    ... })
    >>> encoder = ulmus.TableEncoder().fit(rows)
    >>> encoder.kinds_
    {'price': 'number', 'sold': 'date', 'town': 'category'}
    >>> encoder.set_output(transform="pandas").transform(rows).shape
    (4, 14)
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the kind of every column, and learn how it becomes numbers.

        Parameters
        ----------
        X : frame or array of shape (n_samples, n_features)
            pandas or polars, or an array.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            A weight of k equals k copies of the row.

        Returns
        -------
        self
        """
        weight = None
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            if not weight.all():  # rows of weight 0 are not there
                X, weight = safe_indexing(X, np.flatnonzero(weight)), weight[weight > 0]
        columns = self._columns(X, reset=True)
        n_rows = len(next(iter(columns.values())))
        weight = np.ones(n_rows) if weight is None else weight
        self.names_ = tuple(columns)
        given = self._given(list(columns))
        rng = check_random_state(self.random_state)
        self.kinds_, self.left_out_ = {}, {}
        readers, dropped = [], []
        kinds = kinds_of(columns, weight, given)
        for name, column in columns.items():
            kind = kinds[name]
            self.kinds_[name] = kind.name
            if kind.name in LEFT_OUT:
                self.left_out_[name] = _reason(kind, column)
                dropped += [name] if name not in given else []
                continue
            readers.append(Reader.of(name, kind, column, weight, self.text_features, rng))
        self.readers_ = tuple(readers)
        if dropped:
            why = "; ".join(f"{name!r} {self.left_out_[name]}" for name in dropped[:8])
            more = f"; and {len(dropped) - 8} more" if len(dropped) > 8 else ""
            named = next((name for name in dropped if kinds[name].name == "id"), None)
            keep = "" if named is None else f'. To keep one, use TableEncoder(kinds={{{named!r}: "category"}})'
            warn(f"{len(dropped)} of {len(columns)} columns are left out: {why}{more}{keep}", LeftOutWarning)
        if not readers:
            raise ValueError(f"no column is left of {len(columns)} (n_samples={n_rows}): {self.left_out_}")
        self.inputs_, self.categorical_ = layout(readers, list(columns))
        self.preparation_ = None
        if self.prepared:
            M = self._numbers(columns)
            _refuse_infinite(M, self._raw_names())
            self.preparation_ = Preparation.of("standard", M, np.empty((n_rows, 0)), weight, self.categorical_)
            self.inputs_ = self.inputs_[self.preparation_.sources()]
            self.categorical_ = np.zeros(len(self.inputs_), bool)
        return self

    inputs_: np.ndarray
    categorical_: np.ndarray

    def transform(self, X: Any) -> np.ndarray:
        """Rows as numbers.

        Parameters
        ----------
        X : frame or array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        M = self._numbers(self._columns(X, reset=False))
        if self.preparation_ is None:
            return M
        _refuse_infinite(M, self._raw_names())
        return self.preparation_.transform(M)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the numbers.

        Parameters
        ----------
        input_features : array of str, optional
            Must be the names of the columns at fitting, where given.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            if known is not None and list(input_features) != list(known):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(input_features) != self.n_features_in_:
                raise ValueError(f"input_features should have length {self.n_features_in_}, got {len(input_features)}")
        if self.preparation_ is None:
            return np.asarray(self._raw_names(), dtype=object)
        return np.asarray(self.preparation_.names(self._raw_names(), self._level_names()), dtype=object)

    def _raw_names(self) -> list[str]:
        main = [reader.name for reader in self.readers_ if reader.has_main]
        return main + [name for reader in self.readers_ for name in reader.extra_names()]

    def _level_names(self) -> dict[str, tuple[str, ...]]:
        """Levels by their codes, for columns of words; those of others are called by their codes."""
        return {r.name: r.levels for r in self.readers_ if r.kind.name == "category" and r.levels is not None}

    def _numbers(self, columns: Mapping[str, Column]) -> np.ndarray:
        main, beside = [], []
        for reader in self.readers_:
            first, more = reader.read(columns[reader.name])
            main += [first] if reader.has_main else []
            beside.append(more)
        n_rows = len(next(iter(columns.values())))
        return np.column_stack([np.empty((n_rows, 0)), *main, *beside])

    def _columns(self, X: Any, reset: bool) -> dict[str, Column]:
        """The columns by name, read; scikit-learn's checks of names and numbers of columns are made."""
        if sparse.issparse(X):
            raise TypeError("Sparse data is not supported by TableEncoder; pass a dense table (X.toarray())")
        X = given_rows(X)
        if isinstance(X, NamedArrays) and not reset:
            return {name: read_array(X[name]) for name in self.names_}
        frame = frame_of(X)
        if frame is None:
            X = validate_data(
                self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=1, ensure_min_features=1
            )
            if X.dtype.kind == "f" and np.isinf(X).any():
                raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
            if X.dtype.kind == "c":
                raise ValueError("Complex data not supported")
            names = [f"x{j}" for j in range(X.shape[1])] if reset else self.names_
            return {name: read_array(X[:, j]) for j, name in enumerate(names)}
        validate_data(self, X, reset=reset, skip_check_array=True)
        if not len(frame) or not frame.columns:
            raise ValueError(f"Found array with {len(frame)} sample(s) and {len(frame.columns)} column(s)")
        return {str(name): read(column) for name, column in columns_of(frame).items()}

    def _given(self, names: list[str]) -> dict[str, Kind]:
        found = {}
        for name, kind in (self.kinds or {}).items():
            if str(name) not in names:
                raise ValueError(f"kinds names the column {name!r}, but the columns are {names}")
            parts = (kind,) if isinstance(kind, str) else tuple(kind)
            if not 1 <= len(parts) <= 2 or parts[0] not in ALLOWED:
                raise ValueError(f"kinds[{name!r}] must be one of {', '.join(ALLOWED)}, got {kind!r}")
            found[str(name)] = Kind(*parts)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def layout(readers: Sequence[Reader], names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Of every number the place of its column, and whether it is a category.

    Main numbers come first, in the order of the columns, then what stands beside them.
    """
    main = [reader for reader in readers if reader.has_main]
    sources = [names.index(reader.name) for reader in main]
    codes = [reader.is_code for reader in main]
    for reader in readers:
        more = len(reader.extra_names())
        sources += [names.index(reader.name)] * more
        codes += [reader.kind.name == "tags"] * more
    return np.array(sources, dtype=np.intp), np.array(codes, bool)


def _reason(kind: Kind, column: Column) -> str:
    if kind.name != "id":
        return LEFT_OUT[kind.name]
    distinct = len(column.distinct) or len(column)
    return f"looks like an identifier: {distinct} distinct values in {len(column)} rows"


def _refuse_infinite(M: np.ndarray, names: list[str]) -> None:
    wrong = np.flatnonzero(np.isinf(M).any(axis=0))
    if len(wrong):
        raise ValueError(f"Input X contains infinity or a value too large for dtype('float64') in {names[wrong[0]]!r}")


#: For models that read frames by themselves.
ENCODER: Parameters = {
    "encoder": Parameter(
        None,
        (TableEncoder, None),
        "TableEncoder or None",
        """How the columns of a frame become numbers, with what is known of them:
        ``TableEncoder(kinds={"title": "text"})``. It is fitted to the rows of the model; arrays are taken as they
        are.""",
    )
}

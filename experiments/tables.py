"""The tables of the arena: the sets of the tabular suite, and those of the folder ``tables`` beside them, as frames.

Numbers are float64 with NaN where there is a hole; categories, whether text or codes, have pandas' dtype for them,
whose levels are those of the whole table, as a database would tell them. Classes are numbered. A table is for
*development* or for *confirmation*, by a hash of its name: what is decided is decided on inner splits of training rows
of the former.
"""

import hashlib
import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from experiments import keel_tables, r_tables, tasks
from experiments.runner.protocol import NotHere
from experiments.tasks import Task
from ulmus.datasets.loader import FOLDER_VARIABLE

#: Rows to learn from, and to be tested on, at most.
MAX_TRAIN, MAX_TEST = 10_000, 20_000
SETS = (*tasks.REGRESSION, *tasks.ORDINAL_LARGE, *tasks.CLASSIFICATION, *tasks.LARGE)
#: The further tables, so that their names are known where they are not at hand.
FURTHER = (
    *("vehicle", "wine_quality_white", "nursery", "ann_thyroid", "churn", "spambase", "magic", "mfeat_zernike"),
    *("phoneme", "contraceptive", "german", "connect_4", "dna", "sleep", "503_wind", "344_mv"),
    *("4544_GeographicalOriginalofMusic", "547_no2", "1193_BNG_lowbwt", "564_fried", "diamonds", "CPS1988"),
    *("lending_club", "ames", "attrition", "credit_data", "Wage", "flights", "cells", "leaf_id_flavia", "concrete"),
    *("Computers", "loans_full_schema", "movies", "OFP"),
)
DEVELOPMENT, CONFIRMATION = "development", "confirmation"


def part_of(name: str) -> str:
    """Development or confirmation: the last bit of the SHA-256 of the name."""
    return CONFIRMATION if hashlib.sha256(name.encode()).digest()[-1] % 2 else DEVELOPMENT


@cache
def _facts(folder: Path) -> dict[str, Any]:
    file = folder / "tables.json"
    return json.loads(file.read_text()) if file.exists() else {}


def load_table(name: str, seed: int, *, inner: bool = False) -> Task:
    """A split of a table, a fifth to be tested on; ``name@n`` has n training rows.

    With ``inner``, the training rows are split once more, and the test rows are not looked at (tables of R's packages
    and of KEEL have no report, and are split once). ``name>`` asks of a
    regression table whether targets are above the median of the training rows, ``name>0.98`` whether they are above
    that quantile: two classes, of which one may be rare.
    """
    table, _, few = name.partition("@")
    table, above, share = table.partition(">")
    apart = table in r_tables.TABLES or table in keel_tables.TABLES
    read = _unreported if apart else _known if table in SETS else _further
    given = read(table, seed)
    if inner and not apart:
        given = _inner(given, seed)
    if above:
        bound = np.quantile(given.y, float(share or 0.5))
        given = replace(given, kind="classification", y=1 * (given.y > bound), y_test=1 * (given.y_test > bound))
    given = given.first(int(few) if few else MAX_TRAIN).tested_on(MAX_TEST)
    return given if given.regression else _numbered(given)


def _known(name: str, seed: int) -> Task:
    """A set of the tabular suite, as a frame."""
    given = tasks.load(name, seed)

    def frame(X: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(X.astype(float), columns=[f"x{j}" for j in range(X.shape[1])])

    whole = pd.concat([frame(given.X), frame(given.X_test)], ignore_index=True)
    whole = typed(whole, [f"x{j}" for j in given.categorical])
    n = len(given.y)
    return replace(given, X=whole[:n], X_test=whole[n:], categorical=categorical(whole))


def _further(name: str, seed: int) -> Task:
    """A table of the folder ``tables``, split at random."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, "."), "tables")
    facts = _facts(folder).get(name)
    if facts is None:
        raise NotHere
    whole = pd.read_parquet(folder / f"{name}.parquet")
    y = whole.pop("target").to_numpy()
    listed = facts["categorical"]
    X = typed(whole, listed if isinstance(listed, list) else [])
    kind = facts["task"]
    train, test = _split(y, kind, seed)
    y = y.astype(float) if kind == "regression" else np.unique(y.astype(str), return_inverse=True)[1]
    return Task(name, kind, X.iloc[train], y[train], X.iloc[test], y[test], categorical(X))


def _unreported(name: str, seed: int) -> Task:
    """A table of R's packages, or of KEEL."""
    of_r = name in r_tables.TABLES
    frame, y = r_tables.frame_of(name) if of_r else keel_tables.frame_of(name)
    X, kind = typed(frame, []), r_tables.TABLES[name][1] if of_r else keel_tables.TABLES[name].kind
    train, test = r_tables.split(len(y), seed)
    y = y if kind == "regression" else np.unique(y, return_inverse=True)[1]
    return Task(name, kind, X.iloc[train], y[train], X.iloc[test], y[test], categorical(X))


def typed(frame: pd.DataFrame, categorical: list[str]) -> pd.DataFrame:
    """Categories, listed or text, as pandas' dtype with text for levels; everything else as float64."""

    def column(name: str) -> pd.Series:
        values = frame[name]
        if name in categorical or not pd.api.types.is_numeric_dtype(values):
            return values.astype(object).where(values.isna(), values.astype(str)).astype("category")
        return values.astype(float)

    return pd.DataFrame({name: column(name) for name in frame.columns})


def categorical(frame: pd.DataFrame) -> tuple[int, ...]:
    """The numbers of the columns that are categories."""
    return tuple(j for j, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.CategoricalDtype))


def _split(y: np.ndarray, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four fifths and one, in random order; every class in both, but for those of a single row."""
    labels = None
    if kind != "regression":
        _, number, counts = np.unique(y.astype(str), return_inverse=True, return_counts=True)
        labels = None if counts.min() < 2 else number
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=labels)
    return train, test


def _inner(task: Task, seed: int) -> Task:
    train, test = _split(task.y, task.kind, seed)
    frame: Any = task.X
    return replace(task, X=frame.iloc[train], y=task.y[train], X_test=frame.iloc[test], y_test=task.y[test])


def _numbered(task: Task) -> Task:
    """Classes that training rows have, numbered from 0; test rows of other classes are left out."""
    classes = np.unique(task.y)
    here = np.isin(task.y_test, classes)
    return replace(
        task,
        y=np.searchsorted(classes, task.y),
        X_test=task.X_test[here],
        y_test=np.searchsorted(classes, task.y_test[here]),
    )

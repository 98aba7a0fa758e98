"""Dates, tags and text as raw columns bring at least what features bring that are made of them by hand.

How text and tags are read was decided on splits of two of these tables with their scores in sight: this guards it, and
confirms nothing.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import r2_score

from ulmus import AdaptiveRegressor

TABLES = Path(os.environ.get("ULMUS_DATA", ""), "tables")
TRAIN, TEST, SEEDS = 600, 1000, 3
GENRES = ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"]


def dates(rows):
    """The moment of a flight, beside its month, day, hour and minute."""
    parts = rows[["month", "day", "hour", "minute"]].assign(year=2013)
    left = rows.drop(columns=["month", "day", "hour", "minute", "sched_dep_time"])
    return left.assign(when=pd.to_datetime(parts)), rows


def tags(rows):
    """The genres of a film, beside a 0/1 column for each."""
    words = ["|".join(g for g in GENRES if row[g]) for row in rows[GENRES].to_dict("records")]
    return rows.drop(columns=GENRES).assign(genres=words), rows


def text(rows):
    """A description of a diamond, beside tf-idf and a singular value decomposition of it, fitted to all rows."""
    cut, color, clarity = rows["cut"].astype(str), rows["color"].astype(str), rows["clarity"].astype(str)
    said = [
        f"a {c.lower()} cut stone of colour {k} with clarity {q} no {i}"
        for i, (c, k, q) in enumerate(zip(cut, color, clarity, strict=True))
    ]
    left = rows.drop(columns=["cut", "color", "clarity"])
    words = TfidfVectorizer(token_pattern=r"\S+").fit_transform(said)
    made = TruncatedSVD(30, random_state=0).fit_transform(words)
    names = [f"word {k}" for k in range(made.shape[1])]
    return left.assign(said=said), left.join(pd.DataFrame(made, columns=names, index=rows.index))


CASES = {"flights": dates, "movies": tags, "diamonds": text}


@pytest.mark.slow
@pytest.mark.skipif("ULMUS_DATA" not in os.environ, reason="ULMUS_DATA names no folder of data")
@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning", "ignore::ulmus.DataWarning")
@pytest.mark.parametrize("name", CASES)
def test_raw_columns_bring_what_features_made_by_hand_bring(name):
    whole = pd.read_parquet(TABLES / f"{name}.parquet")
    found = []
    for seed in range(SEEDS):
        rows = whole.sample(TRAIN + TEST, random_state=seed).reset_index(drop=True)
        y, X = rows["target"].to_numpy(float), rows.drop(columns="target")
        found.append([])
        for table in CASES[name](X):
            model = AdaptiveRegressor(effort="fast", random_state=0).fit(table[:TRAIN], y[:TRAIN])
            found[-1].append(r2_score(y[TRAIN:], model.predict(table[TRAIN:])))
    raw, made = np.mean(found, axis=0)
    assert raw > made - 0.01

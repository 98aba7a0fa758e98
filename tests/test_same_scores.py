"""Frames in Python and files on the command line are the same table: they give the same scores."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

import ulmus
from ulmus.cli import main
from ulmus.cli.console import OK
from ulmus.persistence import describe
from ulmus.scores import scores

TABLES = Path(os.environ.get("ULMUS_DATA", ""), "tables")
#: Frames of R packages: text categories, codes, missing values.
NAMES = (
    *("diamonds", "CPS1988", "lending_club", "ames", "attrition", "credit_data", "Wage", "flights", "cells"),
    *("leaf_id_flavia", "concrete", "Computers", "loans_full_schema", "movies", "OFP"),
)
TRAIN, TEST = 300, 200
#: Labels that are kept: with the log loss a fit takes a time that grows with their number.
CLASSES = 12


@pytest.mark.slow
@pytest.mark.skipif("ULMUS_DATA" not in os.environ, reason="ULMUS_DATA names no folder of data")
@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning", "ignore::ulmus.DataWarning")
@pytest.mark.parametrize("name", NAMES)
def test_raw_frames_and_files_give_the_same_scores(tmp_path, name):
    task = json.loads((TABLES / "tables.json").read_text())[name]["task"]
    whole = pd.read_parquet(TABLES / f"{name}.parquet")
    if task == "classification":
        whole = whole[whole["target"].isin(sorted(whole["target"].unique())[:CLASSES])]
    rows = whole.sample(TRAIN + TEST, random_state=0).reset_index(drop=True)
    train, test = rows[:TRAIN], rows[TRAIN:]
    model = (ulmus.AdaptiveRegressor if task == "regression" else ulmus.AdaptiveClassifier)(
        effort="fast", random_state=0, n_jobs=1
    )
    target = rows["target"] if pd.api.types.is_numeric_dtype(rows["target"]) else rows["target"].astype(str)
    model.fit(train.drop(columns="target"), target[:TRAIN].to_numpy())
    found = scores(model, test.drop(columns="target"), target[TRAIN:].to_numpy())
    ours = {score.name: score.value for score in found}
    for ending in ("parquet", "csv"):
        for part, held in (("train", train), ("test", test)):
            if ending == "csv":
                held.to_csv(tmp_path / f"{part}.csv", index=False)
            else:
                held.to_parquet(tmp_path / f"{part}.parquet")
        out = tmp_path / "m.ulmus"
        told = ["fit", str(tmp_path / f"train.{ending}"), "--test", str(tmp_path / f"test.{ending}"), "-o", str(out)]
        assert main([*told, "--target", "target", "--task", task, "--effort", "fast", "--no-baselines"]) == OK
        theirs = {score["name"]: score["value"] for score in describe(out).notes["scores"]}
        assert theirs == pytest.approx(ours, rel=1e-9), ending

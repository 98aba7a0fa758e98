"""Tables that are odd in ways that real ones are: nothing is lost, and nothing is silently wrong."""

import numpy as np
import pandas as pd
import pytest

import ulmus
from ulmus.cli import main
from ulmus.cli.console import OK
from ulmus.persistence import describe

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

FIT = ["--model", "nkelm", "--threads", "1"]


def table(n=80, seed=0):
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame({"a": rng.normal(10, 2, n).round(2), "b": rng.normal(size=n).round(3)})
    frame["c"] = rng.choice(["red", "green", "blue"], n)
    frame["y"] = (3 * frame["a"] + np.where(frame["c"] == "red", 5, 0)).round(2)
    return frame


def write(frame, path, **options):
    frame.to_csv(path, index=False, **options)
    return str(path)


@pytest.mark.parametrize("held_out", ["all equal", "equal where held out"])
def test_a_model_is_saved_where_r2_is_not_defined(tmp_path, capsys, held_out):
    frame = table()
    if held_out == "all equal":
        frame["y"] = 3.5
    else:
        test = write(table(60, 1).assign(y=30.25), tmp_path / "test.csv")
    data, out = write(frame, tmp_path / "t.csv"), str(tmp_path / "m.ulmus")
    more = [] if held_out == "all equal" else ["--test", test]
    assert main(["fit", data, "--target", "y", "--task", "regression", "-o", out, *FIT, *more]) == OK
    assert "R²" in capsys.readouterr().out
    assert describe(out).notes["scores"][0]["value"] is None
    assert main(["info", out]) == OK
    assert "R² –" in capsys.readouterr().out
    assert np.isfinite(ulmus.load(out).predict(frame)).all()

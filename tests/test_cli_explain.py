"""``ulmus explain``: values that add up to the predictions of ``ulmus predict``."""

import numpy as np
import pandas as pd
import pytest

from ulmus import load
from ulmus.cli import main
from ulmus.cli.console import OK

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


@pytest.mark.parametrize("model", ["nkelm", "adaptive"])
def test_reasons_add_up_to_the_prediction(folder, model, capsys):
    file, out = folder / f"{model}.ulmus", folder / f"{model}-reasons.csv"
    fit = ["fit", str(folder / "price.csv"), "--target", "price", "--model", model, "--effort", "fast", "-o", str(file)]
    assert main(fit) == OK
    few = folder / "few.csv"
    few.write_text("\n".join((folder / "new.csv").read_text().splitlines()[:9]) + "\n")
    ask = ["explain", str(file), str(few), "-o", str(out), "--background", str(folder / "new.csv")]
    assert main(ask) == OK
    assert "with their reasons" in "".join(capsys.readouterr())
    found = pd.read_csv(out)
    reasons = [name for name in found.columns if name.startswith("reason ")]
    assert len(found) == 8
    assert len(reasons) >= 2
    np.testing.assert_allclose(found[reasons].sum(axis=1) + found["base value"], found["prediction"], rtol=1e-6)
    assert found[reasons].abs().to_numpy().max() > 0


def test_classes_are_explained_by_the_score_of_the_one_predicted(folder):
    out = folder / "kind-reasons.csv"
    model = str(folder / "kind.ulmus")
    few = folder / "few-kinds.csv"
    few.write_text("\n".join((folder / "new.csv").read_text().splitlines()[:6]) + "\n")
    assert main(["explain", model, str(few), "-o", str(out), "--keep"]) == OK
    found = pd.read_csv(out)
    kinds = load(folder / "kind.ulmus")[-1].classes_
    assert set(found["prediction"]) <= set(kinds)
    assert {"base value", "prediction"} <= set(found.columns)


def test_reasons_of_ordered_classes_are_given_for_those_predicted(folder):
    assert main(["explain", str(folder / "order.ulmus"), str(folder / "new.csv"), "-o", str(folder / "x.csv")]) == OK
    found = pd.read_csv(folder / "x.csv")
    assert set(found["prediction"]) <= {"low", "mid", "high"}
    assert found.drop(columns="prediction").notna().all(axis=None)

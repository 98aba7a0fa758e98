"""``ulmus explain``: values that add up to the predictions of ``ulmus predict``."""

import numpy as np
import pandas as pd
import pytest

from ulmus import load, save
from ulmus.cli import main
from ulmus.cli.console import OK, USAGE
from ulmus.persistence import describe

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


def test_reasons_of_two_classes_speak_for_the_one_that_is_predicted(tmp_path):
    rng = np.random.RandomState(0)
    table = pd.DataFrame({"age": rng.randint(20, 70, 90), "size": rng.normal(size=90)})
    table.assign(kind=np.where(table["age"] > 45, "hi", "lo")).to_csv(tmp_path / "p.csv", index=False)
    model, out = tmp_path / "k.ulmus", tmp_path / "r.csv"
    fit = ["fit", str(tmp_path / "p.csv"), "--target", "kind", "--effort", "fast", "--no-baselines", "-o", str(model)]
    assert main(fit) == OK
    assert main(["explain", str(model), str(tmp_path / "p.csv"), "-o", str(out)]) == OK
    found = pd.read_csv(out)
    assert set(found["prediction"]) == {"hi", "lo"}
    score = found["base value"] + found[["reason age", "reason size"]].sum(axis=1)
    assert (score > 0).all()  # of the class that is predicted
    young = table["age"] < 40
    assert (found["reason age"][young] > 0).all()
    assert (found["prediction"][young] == "lo").all()


def test_reasons_of_ordered_classes_are_given_for_those_predicted(folder):
    assert main(["explain", str(folder / "order.ulmus"), str(folder / "new.csv"), "-o", str(folder / "x.csv")]) == OK
    found = pd.read_csv(folder / "x.csv")
    assert set(found["prediction"]) <= {"low", "mid", "high"}
    assert found.drop(columns="prediction").notna().all(axis=None)


def asked(folder, model, data, *options, out="asked.csv"):
    assert main(["explain", str(folder / model), str(folder / data), "-o", str(folder / out), *options]) == OK
    return pd.read_csv(folder / out)


def training(folder, file, goal):
    """The model of a file and its table, as the command has read it."""
    from ulmus.cli.fit import rows_of
    from ulmus.tables.read import read_table
    from ulmus.tables.schema import Schema

    schema = Schema.from_json(describe(folder / f"{goal}.ulmus").notes["table"], "")
    X, y = rows_of(read_table(str(folder / file)), schema, file)
    return load(folder / f"{goal}.ulmus")[-1], X, y


def few_rows(folder):
    few = folder / "three.csv"
    few.write_text("\n".join((folder / "new.csv").read_text().splitlines()[:4]) + "\n")
    return "three.csv"


def test_the_training_rows_behind_a_prediction_are_those_of_influences(folder):
    few, train = few_rows(folder), str(folder / "price.csv")
    found = asked(folder, "price.ulmus", few, "--method", "influences", "--train", train, "--top", "4", "--keep")
    model, X, y = training(folder, "price.csv", "price")
    new, _ = training(folder, few, "price")[1:]
    effects = model.influences(new, X, y)
    assert len(found) == 3 * 4
    for i, (name, part) in enumerate(found.groupby("row", sort=False)):
        assert name.split()[0] == str(i + 2)
        order = np.argsort(-np.abs(effects[i]), kind="stable")[:4]
        np.testing.assert_allclose(part["effect"], effects[i, order], rtol=1e-6)
        np.testing.assert_allclose(part["prediction without it"], part["prediction"] - part["effect"], rtol=1e-9)
        assert part["training row"].tolist() == X.index[order].tolist()
        np.testing.assert_allclose(part["target"], y[order])
        np.testing.assert_allclose(part["price"], y[order])  # a column that is kept


def test_effects_on_classes_are_those_on_the_probability_of_the_one_predicted(folder):
    few, train = few_rows(folder), str(folder / "kind.csv")
    found = asked(folder, "kind.ulmus", few, "--method", "influences", "--train", train, "--top", "200")
    proba = [float(part["effect"].iloc[0] + part["probability without it"].iloc[0]) for _, part in found.groupby("row")]
    predicted = pd.read_csv(folder / "three.csv")
    assert (
        main(["predict", str(folder / "kind.ulmus"), str(folder / few), "--proba", "-o", str(folder / "p.csv")]) == OK
    )
    told = pd.read_csv(folder / "p.csv")
    assert len(told) == len(predicted) == 3
    np.testing.assert_allclose(proba, told.filter(like="proba").max(axis=1), atol=1e-9)


def test_weighted_rows_are_those_of_the_fit_with_their_weights(folder, capsys):
    frame = pd.read_csv(folder / "price.csv").assign(count=lambda f: np.arange(len(f)) % 3)
    frame.to_csv(folder / "weighted.csv", index=False)
    given = ["--target", "price", "--model", "nkelm", "--weight", "count", "--no-baselines", "--holdout", "0"]
    assert main(["fit", str(folder / "weighted.csv"), *given, "-o", str(folder / "weighted.ulmus")]) == OK
    found = asked(folder, "weighted.ulmus", "weighted.csv", "--method", "row-values", "--weight", "count", "--keep")
    assert len(found) == np.count_nonzero(frame["count"])  # rows of weight 0 are none
    assert (found["count"] > 0).all()
    assert set(found["price"]) == set(frame["price"][frame["count"] > 0])
    assert (found["target"] == found["price"]).all()
    ask = ["explain", str(folder / "weighted.ulmus"), str(folder / "weighted.csv"), "--method", "row-values"]
    assert main([*ask, "-o", str(folder / "never.csv")]) == USAGE
    assert "not those that the model was fitted to" in "".join(capsys.readouterr().err.split("\n"))


@pytest.mark.parametrize("goal", ["price", "kind"])
def test_values_of_training_rows_are_those_of_row_values_the_lowest_first(folder, goal):
    model, X, y = training(folder, f"{goal}.csv", goal)
    model.set_params(trees=False).fit(X, y)  # influences hold trees fixed, and row values do not
    whole = load(folder / f"{goal}.ulmus")
    whole.steps[-1] = (whole.steps[-1][0], model)
    save(whole, folder / f"kernels-{goal}.ulmus", notes=describe(folder / f"{goal}.ulmus").notes)
    found = asked(folder, f"kernels-{goal}.ulmus", f"{goal}.csv", "--method", "row-values", "--keep")
    values = model.row_values(X, y)
    order = np.argsort(values, kind="stable")
    np.testing.assert_allclose(found["value"], values[order], rtol=1e-6)
    assert found["row"].tolist() == X.index[order].tolist()
    assert found["target"].tolist() == y[order].tolist() == found[goal].tolist()
    if goal == "kind":
        assert found["probability of its target"].between(0, 1).all()
        assert found["probability of its target"].head(5).mean() < found["probability of its target"].tail(5).mean()
    else:
        own = np.array([model.influences(X.iloc[[i]], X, y)[0, i] for i in order[:3]])
        alone = model.predict(X.iloc[order[:3]]) - own
        # towns are coded by targets: those of training rows by other folds, those of rows that are asked about by all
        np.testing.assert_allclose(found["prediction without it"][:3], alone, rtol=5e-3)


def test_counterfactuals_cross_and_change_what_they_name(folder):
    few, train = few_rows(folder), str(folder / "price.csv")
    options = ["--method", "counterfactuals", "--train", train, "--to", "100"]
    found = asked(folder, "price.ulmus", few, *options, "--fixed", "town,when")
    new = pd.read_csv(folder / few)
    assert len(found) == 3
    for i, line in found.iterrows():
        changed = [] if pd.isna(line["changed"]) else line["changed"].split(", ")
        assert set(changed) <= {"age", "fare", "vip"}
        assert (line["prediction"] < 100) != (line["counterfactual prediction"] < 100) or not changed
        for column in ("age", "fare"):
            same = line[column] == new[column][i] or (pd.isna(line[column]) and pd.isna(new[column][i]))
            assert same == (column not in changed)
    assert found["changed"].notna().any()
    classes = asked(folder, "kind.ulmus", few, *options[:2], "--train", str(folder / "kind.csv"), "--to", "mid")
    moved = classes["changed"].notna()
    assert moved.any()
    assert (classes["counterfactual prediction"][moved] == "mid").all()


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        ("price", ["--method", "influences"], "needs --train"),
        ("price", ["--to", "3"], "--to goes with --method counterfactuals"),
        ("price", ["--method", "counterfactuals", "--train", "{0}/price.csv", "--to", "much"], "cross, got 'much'"),
        ("kind", ["--method", "counterfactuals", "--train", "{0}/kind.csv"], "one of high, low, mid, got None"),
        ("kind", ["--method", "counterfactuals", "--train", "{0}/kind.csv", "--to", "mid", "--fixed", "x"], "got 'x'"),
        ("order", ["--method", "counterfactuals", "--train", "{0}/kind.csv", "--to", "mid"], "unordered classes"),
        ("price", ["--method", "influences", "--train", "{0}/price.csv", "--top", "0"], "at least 1, got 0"),
        ("price", ["--method", "influences", "--train", "{0}/new.csv"], "not those that the model was fitted to"),
    ],
)  # fmt: skip
def test_what_cannot_be_explained_is_said_in_a_line(folder, model, options, says, capsys):
    given = [option.format(folder) for option in options]
    out = folder / "never.csv"
    assert main(["explain", str(folder / f"{model}.ulmus"), str(folder / "new.csv"), "-o", str(out), *given]) == USAGE
    assert says in "".join(capsys.readouterr().err.split("\n"))
    assert not out.exists()

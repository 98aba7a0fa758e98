"""Which model ``ulmus fit`` takes: adaptive by default, NKELM when asked and for very wide tables."""

import numpy as np
import pandas as pd
import pytest

import ulmus
from test_cli import people, predicted
from ulmus.cli import free_memory, main, models
from ulmus.cli.console import OK, USAGE
from ulmus.persistence import describe

pytestmark = [
    pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning"),
    pytest.mark.usefixtures("few_resamples"),
]


@pytest.mark.parametrize(
    ("model", "kind"),
    [("price", "AdaptiveRegressor"), ("kind", "AdaptiveClassifier"), ("order", "AdaptiveOrdinalClassifier")],
)
def test_every_task_gets_its_adaptive_model(folder, model, kind):
    assert describe(folder / f"{model}.ulmus").model == kind


def test_the_small_model_is_there_for_the_asking(folder, capsys):
    out = folder / "small.ulmus"
    fit = ["fit", str(folder / "price.csv"), "--target", "price", "--model", "nkelm", "-o", str(out)]
    assert main(fit) == OK
    assert describe(out).model == "NKELMRegressor"
    assert main(["info", str(out)]) == OK
    assert "n_landmarks" in capsys.readouterr().out
    assert len(predicted(folder, "small.ulmus", "new.csv", "--interval", "0.8")) == 60


def test_info_says_how_an_adaptive_model_sees_the_table(folder, capsys):
    assert main(["info", str(folder / "price.ulmus")]) == OK
    shown = capsys.readouterr().out
    for part in ("kernel", "metric", "local stage", "left out", "gamma", "town: category"):
        assert part in shown


def test_categories_are_codes_that_the_model_treats_as_categories(folder):
    model = ulmus.load(folder / "price.ulmus")
    encoder = model[-1].encoder_
    names = encoder.get_feature_names_out()
    codes = names[model[-1].fitted_.weights.columns.categorical].tolist()
    assert codes == [name for name, kind in encoder.kinds_.items() if kind in ("category", "boolean")]
    town = codes.index("town")
    assert {r.name: r.levels for r in encoder.readers_}["town"] == ("Köln", "Oslo", "Rom", "Ulm")
    assert len(model[-1].view_.preparation.categories[town].levels) == 5  # missing is a level


def test_an_unseen_category_is_one_that_no_level_stands_for(folder):
    new = pd.read_csv(folder / "new.csv")
    answers = []
    for k, town in enumerate(("Timbuktu", "Atlantis")):
        new.assign(town=town).to_csv(folder / f"far{k}.csv", index=False)
        answers.append(predicted(folder, "price.ulmus", f"far{k}.csv")["prediction"])
    np.testing.assert_array_equal(*answers)


def test_the_seed_makes_a_fit_repeatable(folder):
    fit = ["fit", str(folder / "kind.csv"), "--target", "kind", "--effort", "fast", "--seed", "3", "--no-baselines"]
    answers = []
    for name in ("one.ulmus", "two.ulmus"):
        assert main([*fit, "-o", str(folder / name)]) == OK
        answers.append(predicted(folder, name, "new.csv", "--proba"))
    pd.testing.assert_frame_equal(*answers, check_exact=True)


def test_a_table_that_is_large_beside_the_free_memory_is_streamed(folder, monkeypatch, capsys):
    out = folder / "large.ulmus"
    fit = ["fit", str(folder / "price.csv"), "--target", "price", "--test", str(folder / "new.csv"), "-o", str(out)]
    size = (folder / "price.csv").stat().st_size
    monkeypatch.setattr(free_memory, "free", lambda: 8 * size - 8)
    assert main(fit) == OK
    assert "streaming it" in capsys.readouterr().err
    assert describe(out).model == "AdaptiveRegressor"
    assert main([*fit, "--model", "nkelm"]) == OK
    assert "streaming it" in capsys.readouterr().err
    assert describe(out).model == "NKELMRegressor"


def test_the_size_of_a_table_is_known_without_reading_it(folder):
    frame = pd.read_csv(folder / "price.csv")
    frame.to_csv(folder / "packed.csv.gz", index=False)
    frame.to_parquet(folder / "typed.parquet")
    assert free_memory.numbers(str(folder / "price.csv")) == (folder / "price.csv").stat().st_size
    packed = (folder / "packed.csv.gz").stat().st_size
    assert free_memory.numbers(str(folder / "packed.csv.gz")) == free_memory.PACKED * packed
    assert free_memory.numbers(str(folder / "typed.parquet")) == 8 * frame.size
    assert not free_memory.too_large("-")
    assert free_memory.free() > 2**20


@pytest.mark.parametrize("target", ["price", "kind"])
def test_a_streamed_table_gets_the_model_of_memory(folder, target):
    people(60, seed=1).to_csv(folder / "both.csv", index=False)
    fit = ["fit", str(folder / f"{target}.csv"), "--target", target, "--test", str(folder / "both.csv")]
    answers = []
    for name, option in (("streamed.ulmus", ["--stream"]), ("whole.ulmus", [])):
        assert main([*fit, "--effort", "fast", "--no-baselines", "-o", str(folder / name), *option]) == OK
        answers.append(predicted(folder, name, "new.csv", *(["--proba"] if target == "kind" else [])))
    assert describe(folder / "streamed.ulmus").model.startswith("Adaptive")
    pd.testing.assert_frame_equal(*answers, check_exact=True)


def test_standard_input_cannot_be_read_twice(capsys):
    assert main(["fit", "-", "--target", "price", "--stream"]) == USAGE
    assert "standard input can be read once" in capsys.readouterr().err


def test_a_stream_without_a_test_table_says_that_there_is_no_report(folder, capsys):
    page = folder / "none.html"
    fit = ["fit", str(folder / "price.csv"), "--target", "price", "--stream", "--report", str(page)]
    assert main(fit) == OK
    assert "no report" in capsys.readouterr().err
    assert not page.exists()


def test_very_wide_tables_get_the_small_model(folder, monkeypatch):
    monkeypatch.setattr(models, "WIDE", 4)
    out = folder / "wide.ulmus"
    assert main(["fit", str(folder / "price.csv"), "--target", "price", "-o", str(out)]) == OK
    assert describe(out).model == "NKELMRegressor"


def test_a_model_is_not_written_to_standard_output(folder, capsys):
    assert main(["fit", str(folder / "price.csv"), "--target", "price", "-o", "-"]) == USAGE
    assert "a model is a file" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_the_report_says_how_to_do_it_again(tmp_path):
    people(120).drop(columns="kind").to_csv(tmp_path / "data.csv", index=False)
    page, data = tmp_path / "page.html", str(tmp_path / "data.csv")
    fit = ["fit", data, "--target", "price", "--effort", "fast", "--no-baselines"]
    assert main([*fit, "--report", str(page)]) == OK
    text = page.read_text(encoding="utf-8")
    assert "--task regression --model adaptive --effort fast --seed 0" in text
    assert "share of the gradient" in text

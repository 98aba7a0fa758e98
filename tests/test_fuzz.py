"""The harnesses of tests/fuzz on a few seeds, and on those that once failed; `make fuzz` tries new ones.

A fault that a seed has found has a small test of its own (docs/trust.md); the seeds are left to `make test-all`.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import ulmus
from data import cases
from fuzz import coverage, runner, variants
from fuzz._ties import ORDERS, Choices
from ulmus.tuning import surface

HARNESSES = runner.harnesses()
#: Fresh seeds of every harness; more are the work of `make fuzz`.
SEEDS = range(3)
CASES = [
    pytest.param(name, seed, marks=[pytest.mark.slow] if seed else [])
    for name in HARNESSES
    for seed in (*SEEDS, *runner.corpus().get(name, ()))
]


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_property_holds_for_fixed_seeds_and_for_those_that_once_failed(name, seed):
    assert runner.attempt(HARNESSES[name], seed)


OPEN = [
    pytest.param(name, seed, marks=[pytest.mark.slow, pytest.mark.xfail(reason=why, strict=True)])
    for name, seeds in runner.open_cases().items()
    for seed, why in seeds.items()
]


if OPEN:

    @pytest.mark.parametrize(("name", "seed"), OPEN)
    def test_property_fails_still_for_the_open_cases(name, seed):
        """One that holds again fails here: it belongs into the corpus then."""
        runner.attempt(HARNESSES[name], seed)


@pytest.mark.parametrize(
    ("off", "by_order", "ties"),
    [
        (1e-9, 1e-9, 1),
        (9e-5, 1e-5, 1),
        (2e-4, 1e-5, 0),
        (1e-9, 0.0, 0),
        (9e-4, 5e-4, 1),
        (2e-3, 5e-4, 0),
        (2e-3, 2e-3, 0),
    ],
)
def test_only_losses_that_are_equal_but_for_round_off_are_a_tie(off, by_order, ties):
    """The first of two losses is the choice of the first fit; a little more, and it is not that of the second."""
    choices = Choices(surface.lowest, fits=1)
    before = np.array([1.0 + surface.FLAT, 1.0])
    after = np.array([before[0] + off, 1.0])
    assert (choices(before), surface.lowest(after)) == (0, 1)
    choices.orders = [[before - [by_order / 2, 0.0]], [before - [by_order, 0.0]]]
    choices.fits = 2
    assert (choices(after), choices.ties) == (1 - ties, ties)
    assert choices(after) == 1  # what the first fit was not asked is the second's own choice


def test_models_to_which_the_order_of_rows_matters_have_no_ties():
    """Folds in the order of the rows: other orders move losses by more than round-off does."""
    rng = np.random.default_rng(0)
    X, choices = rng.normal(size=(40, 2)), Choices(surface.lowest)
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surface, "lowest", choices)
        for cv in (3, None):
            model = ulmus.KELMRegressor(gamma=0.3, cv=cv, random_state=0)
            choices.made, choices.orders, choices.fits = [], [], 1
            model.fit(X, y)
            choices.measure(model, X, y, None)
            _, best = choices.made[-1]
            assert len(choices.orders) == ORDERS
            assert choices._round_off(len(choices.made) - 1, 0.0, [best]) == (cv is None)


class Sharpened:
    """Probabilities of a model to some power: too sure above 1."""

    def __init__(self, model, power):
        self.model, self.power = model, power

    def predict_proba(self, Q):
        P = self.model.predict_proba(Q) ** self.power
        return P / P.sum(axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", cases([25, 80, 500], 80))
@pytest.mark.parametrize("power", [1.0, 6.0])
def test_coverage_finds_overconfident_probabilities_and_no_others(monkeypatch, n, power):
    make = coverage.CLASSIFIERS["KELM"]
    monkeypatch.setattr(coverage, "CLASSIFIERS", {"KELM": lambda *rows: Sharpened(make(*rows), power)})
    found = []
    for seed in range(3):
        try:
            coverage.check_probabilities(np.random.default_rng(seed), "gaussian one_sided", n, seed)
        except AssertionError as error:
            found.append(str(error))
    assert len(found) == (0 if power == 1.0 else 3), found


def test_a_seed_gives_the_same_case_whatever_was_drawn_before():
    first = [str(variants.varied(np.random.default_rng(seed))) for seed in range(60)]
    assert [str(variants.varied(np.random.default_rng(seed))) for seed in range(60)] == first


def test_corpus_names_known_harnesses_and_no_seed_twice():
    for name, seeds in runner.corpus().items():
        assert name in HARNESSES
        assert len(seeds) == len(set(seeds))


def test_runner_goes_on_after_a_failure_a_crash_and_a_case_without_end(tmp_path):
    told = []
    count = runner.run("_toy", 0, cases=8, jobs=2, limit=2.0, tell=told.append)
    assert (count.cases, count.keys, sorted(count.failed)) == (8, {"held": 2}, [1, 2, 3, 5, 6, 7])
    text = "\n".join(told)
    assert "AssertionError: seed 5 was to fail" in text
    assert "the process ended with 7" in text
    assert "no answer within 2 s" in text
    assert "python -m tests.fuzz --harness _toy --seed 5 --cases 1" in text
    file = tmp_path / "counts.json"
    file.write_text(runner.written({"toy": count}))
    assert json.loads(file.read_text())["toy"]["keys"] == {"held": 2}
    assert "| **toy** | all, in 0 minutes, 0 of them processor time | 16 | 12 |" in runner.table([file, file])


def test_every_test_that_trust_md_names_is_there():
    tests = Path(__file__).parent
    named = re.findall(r"(test_\w+\.py)::(test_\w+)", (tests.parent / "docs" / "trust.md").read_text())
    assert len(named) > 40
    for file, name in named:
        assert f"def {name}(" in (tests / file).read_text(), f"{file} has no {name}"

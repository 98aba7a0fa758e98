"""An adaptive model of a stream is that of memory where the sample is whole, and exact, given its cuts, where not."""

import pickle
import shutil
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import ulmus
from data import cases, relative_error
from fuzz._kills import Killed, Points
from ulmus import streaming
from ulmus.engine import Rows, pieces, transform
from ulmus.features.preparation import PARTS
from ulmus.features.sampling import left_out_together, row_keys
from ulmus.models._adaptive import AdaptiveModel
from ulmus.models._effort import EFFORTS, Effort
from ulmus.models._log_stage import LogPasses
from ulmus.models._squared_stage import SquaredPasses
from ulmus.solvers.local import leaf_kernel
from ulmus.solvers.log_loss import losses, targets
from ulmus.solvers.softmax import LogProblem, fit_softmax
from ulmus.streaming import CheckpointError, SourceError, leaves
from ulmus.streaming.adaptive_passes import RegionAccumulator
from ulmus.tuning import view_budget

N = 1_600
RNG = np.random.RandomState(0)
X = RNG.uniform(-1, 1, (N, 3))


def clean(rows):
    """Waves that many landmarks do not follow, and leaves do."""
    return np.sin(7 * rows[:, 0]) * np.cos(7 * rows[:, 1]) + 0.1 * rows[:, 2]


Y = 3.0 + 20.0 * (clean(X) + 0.05 * RNG.standard_normal(N))
RANKS = np.digitize(clean(X) + 0.05 * RNG.standard_normal(N), [-0.4, 0.4])
LABELS = np.array(["low", "mid", "top"])[RANKS]
W = RNG.randint(1, 4, N).astype(float)
#: A sample that is not whole, and cells enough that partitions are cut on it and in them.
SMALL = {"sample_rows": 500, "batch_rows": 300, "progress": False}


@pytest.fixture
def small_cells(monkeypatch):
    monkeypatch.setattr(leaves, "CELL_ROWS", 700)


@pytest.fixture
def brief(monkeypatch):
    """A search so short that fits can be broken off many times: few landmarks and rows, small leaves."""
    few = view_budget.Budget(
        200, 30, 200, 30, 1, 0, (30, 30), 1, additive=False, cuts=False, preparations=("standard",)
    )
    monkeypatch.setitem(EFFORTS, "fast", Effort(few, 30, 300, 300, 2, 4, grows=False, quick=True))
    monkeypatch.setattr(view_budget, "MANY_ROWS", 400)
    monkeypatch.setattr(view_budget, "MANY_LANDMARKS", 60)


def model_of(kind, **options):
    return getattr(ulmus, f"Adaptive{kind}")(effort="fast", random_state=0, **options)


CASES = {
    "regression": ("Regressor", Y, None, {}),
    "weights": ("Regressor", Y, W, {}),
    "two outputs": ("Regressor", np.column_stack([Y, Y**2 / 10]), None, {}),
    "log loss": ("Classifier", LABELS, None, {}),
    "log loss, weights": ("Classifier", LABELS, W, {"class_weight": "balanced"}),
    "squares": ("Classifier", LABELS, None, {"loss": "squared"}),
    "two classes": ("Classifier", LABELS == "top", None, {}),
    "ordered": ("OrdinalClassifier", RANKS, None, {}),
}


def scores(model, rows=X):
    """Numbers that a prediction is made of."""
    return model.predict(rows) if hasattr(model, "predict_interval") else model.predict_proba(rows)


def fit_both(name, n=N, **options):
    kind, y, weight, more = CASES[name]
    w = None if weight is None else weight[:n]
    source = (X[:n], y[:n]) if w is None else (X[:n], y[:n], w)
    memory = model_of(kind, **more).fit(X[:n], y[:n], w)
    return memory, streaming.fit(model_of(kind, **more), source, **{"progress": False, **options})


@pytest.mark.parametrize("name", cases(CASES, "weights", "log loss"))
def test_a_sample_of_all_rows_gives_the_model_of_memory(name):
    memory, streamed = fit_both(name, n=500, batch_rows=170)
    np.testing.assert_array_equal(scores(streamed), scores(memory))
    assert streamed.C_ == memory.C_
    assert streamed.view_.kernel == memory.view_.kernel


def test_equal_inputs_with_other_targets_are_all_in_the_sample():
    twice, y = np.vstack([X[:300], X[:300]]), np.append(Y[:300], Y[:300] + 5.0)
    memory = model_of("Regressor").fit(twice, y)
    np.testing.assert_array_equal(scores(streaming.fit(model_of("Regressor"), (twice, y))), scores(memory))


# A sample that is not whole


@pytest.fixture(scope="module")
def streamed():
    """Models of several cells, by name."""
    kept = {}
    before, leaves.CELL_ROWS = leaves.CELL_ROWS, 700

    def of(name):
        if name not in kept:
            kind, y, weight, more = CASES[name]
            source = (X, y) if weight is None else (X, y, weight)
            kept[name] = streaming.fit(model_of(kind, **more), source, **SMALL)
        return kept[name]

    yield of
    leaves.CELL_ROWS = before


def coordinates(model, rows=X):
    return model.view_.transform(rows)


def features(model):
    U = coordinates(model)
    return transform(model.map_, U, np.empty((len(U), model.map_.n_features_out)))


@pytest.mark.parametrize("name", cases(["regression", "weights", "two outputs"], "weights", "two outputs"))
def test_the_global_model_is_ridge_regression_on_all_rows(name, streamed):
    model, (_, y, weight, _) = streamed(name), CASES[name]
    T, w, Phi = y.reshape(N, -1), np.ones(N) if weight is None else weight, features(model)
    A, B = Phi - np.average(Phi, axis=0, weights=w), T - np.average(T, axis=0, weights=w)
    beta = np.linalg.solve(A.T @ (w[:, None] * A) + np.eye(A.shape[1]) / model.C_, A.T @ (w[:, None] * B))
    expected = A @ beta + np.average(T, axis=0, weights=w)
    assert relative_error(Phi @ model.beta_ + model.intercept_, expected) < 1e-8


@pytest.mark.parametrize("name", cases(["log loss", "two classes"], "log loss"))
def test_the_global_log_model_is_the_minimum_over_all_rows(name, streamed):
    model, (_, y, _, _) = streamed(name), CASES[name]
    problem = LogProblem.of(features(model), codes_of(y), model.C_)
    F = problem.rows.X @ model.beta_ + model.intercept_
    value = losses(targets(problem.rows.T), F).sum() + (model.beta_**2).sum() / (2 * model.C_)
    assert value <= (1 + 1e-3) * fit_softmax(problem).value


def codes_of(y):
    codes = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    return codes[:, 1:] if codes.shape[1] == 2 else codes


@pytest.mark.parametrize(
    "name", cases(["regression", "weights", "two outputs", "squares", "ordered"], "weights", "two outputs", "ordered")
)
def test_leaves_are_kernel_ridge_on_all_rows_that_lie_in_them(name, streamed):
    model, (_, y, weight, _) = streamed(name), CASES[name]
    local, U, w = model.local_, coordinates(model), np.ones(N) if weight is None else weight
    assert len(local.U) == N
    T = y.reshape(N, -1) if name in ("regression", "weights", "two outputs") else coded(model, y)
    R = T - features(model) @ model.beta_ - model.intercept_
    expected = np.zeros(T.shape)
    for partition in local.partitions:
        leaf = partition.leaves(U)
        assert partition.n_leaves > 3
        np.testing.assert_array_equal(np.bincount(leaf), np.diff(partition.starts))
        for k in range(partition.n_leaves):
            rows = np.flatnonzero(leaf == k)
            K = leaf_kernel(local.kernel, local.gamma, U[rows])
            expected[rows] += K @ np.linalg.solve(K + np.diag(local.ridge / w[rows]), R[rows])
    assert relative_error(local.predict(U), expected / len(local.partitions)) < 1e-4  # single precision


def coded(model, y):
    """Target columns of labels."""
    if hasattr(model, "loss_"):
        return np.where(y[:, None] == model.classes_, 1.0, -1.0)
    rank = np.searchsorted(model.classes_, y)
    return np.where(rank[:, None] > np.arange(len(model.classes_) - 1), 1.0, -1.0)


@pytest.mark.parametrize("name", ["log loss", "two classes"])
def test_log_leaves_hold_every_row_and_lower_the_loss_of_their_offsets(name, streamed):
    model, (_, y, _, _) = streamed(name), CASES[name]
    local, U = model.local_, coordinates(model)
    assert len(local.U) == N
    Q = targets(codes_of(y))
    F = features(model) @ model.beta_ + model.intercept_
    lower = losses(Q, F + local.predict(U)).mean()
    assert lower < 0.98 * losses(Q, F).mean()
    for partition in local.partitions:
        np.testing.assert_array_equal(np.bincount(partition.leaves(U)), np.diff(partition.starts))


@pytest.mark.parametrize("name", cases(CASES, "log loss"))
def test_a_streamed_model_is_about_as_good_as_that_of_memory(name, streamed):
    kind, y, weight, more = CASES[name]
    memory = model_of(kind, **more).fit(X, y, weight)
    rng = np.random.RandomState(7)
    fresh = rng.uniform(-1, 1, (4_000, 3))
    truth = clean(fresh)
    both = [scores(model, fresh) for model in (memory, streamed(name))]
    if kind == "Regressor":
        wrong = [np.mean((P.reshape(4_000, -1)[:, 0] - 3.0 - 20.0 * truth) ** 2) ** 0.5 for P in both]
    else:
        place = np.digitize(truth + 0.05 * rng.standard_normal(4_000), [-0.4, 0.4])
        place = (place == 2).astype(int) if name == "two classes" else place
        wrong = [-np.log(P[np.arange(4_000), place]).mean() for P in both]
    assert wrong[1] < 1.25 * wrong[0]  # its view and landmarks are those of a third of the rows


@pytest.mark.slow
def test_where_the_sample_decides_cuts_the_error_is_that_of_memory(monkeypatch):
    """In the same view, landmarks and first cuts are the sample's: within 1 % on rows of their own, over six fits."""
    monkeypatch.setattr(leaves, "CELL_ROWS", 2_000)
    rng, n, asked, views = np.random.RandomState(1), 8_000, 6_000, []
    inputs, fresh = (rng.uniform(-1, 1, (count, 3)) for count in (n, 20_000))
    y, truth = clean(inputs) + 0.05 * rng.standard_normal(n), clean(fresh) + 0.05 * rng.standard_normal(20_000)
    choose = AdaptiveModel._choose_view

    def chosen(model, rows, coding, columns, rng, backend, n_rows=None):
        if n_rows is None:
            views.append(choose(model, rows, coding, columns, rng, backend))
        return views[-1]

    monkeypatch.setattr(AdaptiveModel, "_choose_view", chosen)
    wrong = []
    for seed in range(6):
        memory, far = (ulmus.AdaptiveRegressor(effort="fast", trees=False, random_state=seed) for _ in range(2))
        memory.fit(inputs, y)
        streaming.fit(far, (inputs, y), sample_rows=asked, progress=False)
        assert far.fitted_.weights.local is not None
        wrong.append([np.mean((model.predict(fresh) - truth) ** 2) ** 0.5 for model in (memory, far)])
    assert len(views) == 6
    memory_wrong, far_wrong = np.mean(wrong, axis=0)
    assert far_wrong < 1.01 * memory_wrong


def test_intervals_and_probabilities_of_a_streamed_model_are_calibrated(streamed):
    rng = np.random.RandomState(8)
    fresh = rng.uniform(-1, 1, (3_000, 3))
    y = 3.0 + 20.0 * (clean(fresh) + 0.05 * rng.standard_normal(3_000))
    low, high = streamed("regression").predict_interval(fresh, 0.9).T
    assert 0.86 < np.mean((low <= y) & (y <= high)) < 0.98
    assert streamed("regression").is_far(np.full((1, 3), 50.0)).all()
    assert streamed("regression").is_far(fresh, 0.01).mean() < 0.1


# Categories, holes, frames


def table(n=1_500):
    rng = np.random.RandomState(3)
    town = rng.randint(0, 60, n)
    effect = np.random.RandomState(4).standard_normal(60)
    frame = pd.DataFrame(
        {
            "a": rng.standard_normal(n),
            "b": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.standard_normal(n)),
            "town": np.array([f"town {k}" for k in range(60)])[town],
            "day": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.randint(0, 700, n), unit="D"),
        }
    )
    y = effect[town] + np.sin(frame["a"]) + 0.1 * rng.standard_normal(n)
    return frame, y.to_numpy()


@pytest.fixture
def files(tmp_path):
    frame, y = table()
    folder = tmp_path / "rows"
    folder.mkdir()
    for k in range(3):
        part = slice(500 * k, 500 * (k + 1))
        frame[part].assign(y=y[part]).to_parquet(folder / f"{k}.parquet", row_group_size=120)
    return folder


def test_columns_of_every_kind_come_from_files_as_from_a_frame(files):
    frame, y = table()
    memory = model_of("Regressor").fit(frame, y)
    streamed = streaming.fit(model_of("Regressor"), files, target="y", batch_rows=400, progress=False)
    assert list(streamed.feature_names_in_) == list(frame.columns)
    assert relative_error(streamed.predict(frame), memory.predict(frame)) < 2e-5
    assert streamed.feature_importances_.shape == (4,)


def test_target_means_of_categories_are_those_of_all_rows(files, small_cells):
    frame, y = table()
    model = streaming.fit(model_of("Regressor"), files, target="y", batch_rows=300, sample_rows=400, progress=False)
    (category,) = model.view_.preparation.categories
    codes = model.encoder_.transform(frame)[:, model.encoder_.categorical_][:, 0]
    levels, place = np.unique(codes, return_inverse=True)
    np.testing.assert_array_equal(category.levels, levels)
    np.testing.assert_allclose(category.mass, np.bincount(place))
    assert category.sums.shape == (len(levels), 1)
    # the units are those of the sample: one line through all levels tells them
    units = np.polyfit(np.bincount(place, y) / np.bincount(place), category.sums[:, 0] / category.mass, 1)
    line = np.polyval(units, np.bincount(place, y) / np.bincount(place))
    np.testing.assert_allclose(line, category.sums[:, 0] / category.mass, atol=1e-9)
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.9


def test_no_row_sees_its_own_target(streamed):
    """Means of a row's level are without its part: brute force over all rows."""
    frame, y = table(800)
    codes = np.unique(frame["town"], return_inverse=True)[1].astype(float)
    rows = np.column_stack([frame["a"], codes])
    model = model_of("Regressor", categorical_features=[1])
    seen = []
    original = ulmus.models.adaptive_steps.Coordinates.of

    def spy(self, block):
        out = original(self, block)
        seen.append((self, block, out))
        return out

    ulmus.models.adaptive_steps.Coordinates.of = spy
    try:
        streaming.fit(model, (rows, y), **SMALL)
    finally:
        ulmus.models.adaptive_steps.Coordinates.of = original
    own, block, out = seen[-1]
    scaled = (y - own.centre) / own.scale
    part = row_keys(rows, own.part_seed) % np.uint64(PARTS)
    (category,) = own.view.preparation.categories
    j = out.X.shape[1] - 1
    for i in range(20):
        same = (codes == block.X[i, 1]) & (part != row_keys(block.X[[i]], own.part_seed)[0] % np.uint64(PARTS))
        mean = (scaled[same].sum() + 20.0 * category.overall[0]) / (same.sum() + 20.0)
        expected = mean / own.view.preparation.mean_deviation[0] * own.view.metric[-1]
        assert out.X[i, j] == pytest.approx(expected, rel=1e-5)


def test_rows_with_infinite_values_are_refused_and_missing_ones_are_not():
    bad = X[:400].copy()
    bad[7, 1] = np.inf
    with pytest.raises(SourceError, match="row 7 of the source has an infinite value"):
        streaming.fit(model_of("Regressor"), (bad, Y[:400]))
    bad[7, 1] = np.nan
    assert np.isfinite(streaming.fit(model_of("Regressor"), (bad, Y[:400])).predict(bad)).all()


# Odd rows


def test_a_class_of_one_file_only_is_learned(tmp_path, small_cells):
    y = np.where(np.arange(N) < 20, "rare", LABELS)
    for k in range(4):
        part = slice(400 * k, 400 * (k + 1))
        pd.DataFrame(X[part], columns=list("abc")).assign(y=y[part]).to_parquet(tmp_path / f"{k}.parquet")
    model = streaming.fit(model_of("Classifier"), tmp_path, target="y", **{**SMALL, "sample_rows": 300})
    assert list(model.classes_) == ["low", "mid", "rare", "top"]
    P = model.predict_proba(pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert model.class_prior_[2] == pytest.approx(20 / N)


def test_many_copies_of_few_rows_become_one_row_each(small_cells):
    few, y = X[:900], Y[:900]
    again = np.append(np.arange(900), np.repeat([0, 1], 2_000))
    model = streaming.fit(model_of("Regressor"), (few[again], y[again]), **SMALL)
    assert model.local_ is None or len(model.local_.U) == 900
    weight = np.bincount(again, minlength=900).astype(float)
    weighted = streaming.fit(model_of("Regressor"), (few, y, weight), **SMALL)
    assert relative_error(weighted.predict(X), model.predict(X)) < 2e-5


def test_rows_that_are_all_equal_are_one_leaf():
    model = streaming.fit(model_of("Regressor"), (np.ones((900, 2)), np.r_[np.zeros(450), np.ones(450)]), **SMALL)
    np.testing.assert_allclose(model.predict(np.ones((2, 2))), 0.5, atol=1e-6)


def test_inputs_of_few_levels_leave_cells_that_cannot_be_cut(small_cells):
    rng = np.random.RandomState(5)
    coarse = np.column_stack([rng.randint(0, 2, N), rng.randint(0, 3, N)]).astype(float)
    y = coarse[:, 0] + rng.standard_normal(N) * 0.01 + X[:, 0] * 0
    model = streaming.fit(model_of("Regressor"), (coarse, y), **SMALL)
    assert np.abs(model.predict(coarse) - coarse[:, 0]).max() < 0.05


def test_rows_of_regions_keep_what_one_copy_weighs():
    """Through gathering, merging and a checkpoint: a class may have a weight of its own."""
    coarse = np.tile([[0.0, 1.0], [1.0, 0.0]], (50, 1))
    unit = np.tile([0.25, 4.0], 50)
    rows = Rows(coarse, coarse[:, :1], unit * np.repeat([1.0, 3.0], 50), unit)
    found = RegionAccumulator(2, 1, most=30)
    for part in pieces(100, 10):
        other = found.fresh()
        other.add(rows.take(part))
        found.merge(other)
    again = found.fresh()
    again.restore(*found.dump())
    for each in (found.rows, again.rows):
        assert len(each) < 100
        assert each.weight.sum() == pytest.approx(rows.weight.sum())
        np.testing.assert_array_equal(each.unit, np.where(each.X[:, 0] == 0, 0.25, 4.0))


@pytest.mark.parametrize("loss", cases(["squared", "log"], "log"))
def test_inputs_of_few_levels_leave_one_by_one_with_their_class_weight_as_in_memory(monkeypatch, loss):
    rng = np.random.RandomState(0)
    levels = rng.randint(0, 5, (N, 3)).astype(float)
    label = (rng.uniform(size=N) < 0.3 + 0.1 * levels[:, 0]).astype(int)
    given = {"loss": loss, "class_weight": {0: 0.5, 1: 6.0}}
    seen = []
    for stage in (LogPasses, SquaredPasses):
        scored = stage.scored
        monkeypatch.setattr(
            stage, "scored", lambda own, rows, *a, scored=scored: seen.append(rows) or scored(own, rows, *a)
        )
    streaming.fit(model_of("Classifier", **given), (levels, label), **{**SMALL, "sample_rows": 100})
    (rows,) = seen
    in_memory = left_out_together(levels, label[:, None].astype(float), None)
    assert in_memory is None  # one row at a time, which weighs what its class does
    top = rows.T[:, -1] == rows.T.max()
    np.testing.assert_array_equal(rows.unit, np.where(top, 6.0, 0.5))
    assert rows.weight[top].sum() + rows.weight[~top].sum() > rows.unit.sum()


def test_more_rows_than_max_memory_holds_get_no_leaves():
    model = streaming.fit(model_of("Regressor", max_memory=2e-5), (X, Y), **SMALL)
    assert model.local_ is None
    assert np.corrcoef(model.predict(X), Y)[0, 1] > 0.5


# Disk and kills


def test_too_little_disk_is_said_before_anything_is_written(tmp_path, monkeypatch, small_cells, brief):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000))
    with pytest.raises(CheckpointError, match=r"GB of disk in .* and .* GB are free"):
        streaming.fit(model_of("Regressor"), (X, Y), checkpoint=tmp_path / "state", **SMALL)
    assert not list((tmp_path / "state").glob("*.bin"))


def test_a_file_that_changes_between_passes_is_refused(files, tmp_path):
    changed = []

    def show(report):
        if report.label == "survey" and not changed:
            frame = pd.read_parquet(files / "1.parquet")
            frame.assign(a=0.0).to_parquet(files / "1.parquet")
            changed.append(True)

    with pytest.raises(SourceError, match="has changed"):
        streaming.fit(model_of("Regressor"), files, target="y", **{**SMALL, "progress": show})


def fitted(folder, name, **options):
    kind, y, weight, more = CASES[name]
    source = (X, y) if weight is None else (X, y, weight)
    return streaming.fit(model_of(kind, **more), source, checkpoint=folder, **{**SMALL, **options})


def bits(model):
    about = [model.beta_, model.local_.U, *model.local_.alphas, *(p.order for p in model.local_.partitions)]
    return b"".join(np.ascontiguousarray(a).tobytes() for a in about) + scores(model, X[:20]).tobytes()


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("weights", 5),
        pytest.param("log loss", 3, marks=pytest.mark.slow),
        pytest.param("regression", 24, marks=pytest.mark.slow),
        pytest.param("log loss, weights", 24, marks=pytest.mark.slow),
    ],
)
def test_a_fit_that_is_broken_off_anywhere_ends_with_the_same_bits(name, ends, tmp_path, small_cells, brief):
    options = {"checkpoint_rows": 300, "checkpoint_seconds": None}
    with Points() as points:
        expected = bits(fitted(tmp_path / "whole", name, **options))
    rng, died, folder = np.random.RandomState(1), 0, tmp_path / "state"
    while died < ends:
        try:
            with Points(int(rng.randint(1, points.count))):
                model = fitted(folder, name, **options)
        except Killed:
            died += 1
            continue
        assert bits(model) == expected
        shutil.rmtree(folder)
    assert bits(fitted(folder, name, **options)) == expected
    assert not list(folder.glob("*.bin"))


def test_a_finished_checkpoint_gives_the_model_again_without_its_rows_on_disk(tmp_path, small_cells, brief):
    first = fitted(tmp_path / "state", "regression")
    reports = []
    again = fitted(tmp_path / "state", "regression", progress=reports.append)
    assert bits(again) == bits(first)
    assert not reports


def test_rows_that_wait_for_the_disk_change_nothing(monkeypatch, streamed):
    expected = bits(streamed("weights"))
    monkeypatch.setattr("ulmus.streaming.shelves.WAITING", 1)
    assert bits(fitted(None, "weights", batch_rows=300)) == expected


# Leaves that stay in files


@pytest.mark.parametrize("name", cases(["weights", "log loss"], "log loss"))
def test_mapped_leaves_answer_as_leaves_in_memory(name, tmp_path, streamed):
    held = streamed(name)
    mapped = fitted(None, name, leaves=tmp_path / "leaves")
    assert isinstance(mapped.local_.U, np.memmap)
    np.testing.assert_array_equal(scores(mapped), scores(held))
    assert mapped.memory_ == held.memory_ - held.local_.nbytes
    assert not [path.name for path in (tmp_path / "leaves").iterdir() if path.suffix != ".npy"]
    for partition in mapped.local_.partitions:  # the rows of every leaf lie together
        assert (np.diff(partition.order) == 1).all()
    ulmus.save(mapped, tmp_path / "model.ulmus")
    again = pickle.loads(pickle.dumps(mapped))
    shutil.rmtree(tmp_path / "leaves")
    for copy in (ulmus.load(tmp_path / "model.ulmus"), again):
        np.testing.assert_array_equal(scores(copy), scores(held))


def test_mapped_leaves_are_not_limited_by_memory(tmp_path, small_cells):
    model = model_of("Regressor", max_memory=2e-5)
    streaming.fit(model, (X, Y), leaves=tmp_path, **SMALL)
    assert len(model.local_.partitions) == 2
    assert np.corrcoef(model.predict(X), Y)[0, 1] > 0.95


def test_a_fit_with_mapped_leaves_that_is_broken_off_ends_with_the_same_bits(tmp_path, small_cells, brief):
    options = {"leaves": tmp_path / "leaves", "checkpoint_rows": 500, "checkpoint_seconds": None}
    with Points() as points:
        expected = scores(fitted(tmp_path / "whole", "regression", **options))
    shutil.rmtree(tmp_path / "leaves")
    for share in (2, 4, 8):  # of what is left
        with pytest.raises(Killed), Points(points.count // share):
            fitted(tmp_path / "state", "regression", **options)
    np.testing.assert_array_equal(scores(fitted(tmp_path / "state", "regression", **options)), expected)
    with pytest.raises(CheckpointError, match="leaves"):
        fitted(tmp_path / "state", "regression")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path, monkeypatch):
    """Four times the rows take no more memory than a third of what these rows themselves would."""
    monkeypatch.setattr(leaves, "CELL_ROWS", 2_000)
    monkeypatch.setattr("ulmus.streaming.shelves.WAITING", 2**20)
    width, peaks = 30, []

    def batches(n):
        for k in range(n // 1_000):
            rng = np.random.RandomState(k)
            rows = rng.uniform(-1, 1, (1_000, 3))
            yield np.tile(rows, width // 3) + 0.01 * rng.standard_normal((1_000, width)), clean(rows)

    for n in (8_000, 8_000, 32_000):  # the first run fills buffers that stay
        tracemalloc.start()
        model = model_of("Regressor", n_jobs=1)
        options = {"sample_rows": 2_000, "batch_rows": 1_000, "progress": False}
        streaming.fit(model, lambda n=n: batches(n), leaves=tmp_path / f"{n}-{len(peaks)}", **options)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(model.local_.U) == n * len(model.local_.partitions)
        assert model.memory_ < 2e6
    assert peaks[2] - peaks[1] < 24_000 * width * 8 / 3


def test_leaves_of_a_model_without_leaves_are_refused(tmp_path):
    with pytest.raises(ValueError, match="NKELMRegressor has no leaves"):
        streaming.fit(ulmus.NKELMRegressor(), (X, Y), leaves=tmp_path)


def test_the_number_of_threads_changes_nothing(small_cells, brief):
    found = [bits(streaming.fit(model_of("Regressor", n_jobs=k), (X, Y), **SMALL)) for k in (1, 3)]
    assert found[0] == found[1]


def test_sparse_batches_are_refused():
    from scipy import sparse

    with pytest.raises(TypeError, match="Sparse data is not supported by AdaptiveRegressor"):
        streaming.fit(model_of("Regressor"), (sparse.csr_array(X), Y))


def test_rows_are_those_that_were_written(tmp_path):
    from ulmus.streaming.shelves import Shelves, record_type, records

    rng = np.random.RandomState(0)
    rows = Rows(rng.standard_normal((50, 2)).astype(np.float32).astype(float), rng.standard_normal((50, 1)))
    cell = rng.randint(0, 3, 50)
    shelves = Shelves(tmp_path, record_type(2, 1), [3])
    for part in (slice(0, 20), slice(20, 50)):
        found = records(rows[part], rows.T[part] + 1, np.arange(50)[part])
        shelves.add((found, (cell[part],)))
        shelves.dump()
    for k in range(3):
        back = shelves.cell(0, k)
        np.testing.assert_array_equal(back.place, np.flatnonzero(cell == k))
        np.testing.assert_array_equal(back.X, rows.X[cell == k])
        np.testing.assert_array_equal(back.T, np.hstack([rows.T, rows.T + 1])[cell == k])

"""The search itself: what it spares must not change what it finds."""

from dataclasses import replace

import numpy as np
import pytest

from ulmus import ELMRegressor, NKELMRegressor, NystromMap, _threads, engine
from ulmus.codings import OneVsAll, Plain
from ulmus.engine import Rows
from ulmus.features.landmarks import heuristic_gamma
from ulmus.solvers import path
from ulmus.solvers.factored_path import SOME, FactoredPath
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.solvers.path import SINGLE_REACH, RidgePath
from ulmus.statistics import Statistics
from ulmus.tuning import Scorer, Trial, Tuner, search
from ulmus.tuning.search import LOG2_C_GRID

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


@pytest.fixture
def scorer():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 3))
    labels = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    coding = OneVsAll(np.arange(3))
    return Scorer(Rows(X, coding.encode(labels)), coding, nystrom_statistics, True)


def test_sizes_scored_in_one_pass_have_the_losses_of_separate_passes(scorer):
    features = NystromMap(60, gamma=0.3, random_state=0).fit(scorer.rows.X)
    summary = scorer.summarise(features)
    together = scorer.trials("size", 0.3, features, summary, LOG2_C_GRID, [15, 30, 60])
    for trial in together:
        alone = scorer.trial("size", 0.3, features, summary, LOG2_C_GRID, trial.size)
        np.testing.assert_array_equal(trial.C, alone.C)
        np.testing.assert_allclose(trial.loss, alone.loss, rtol=1e-12)
        np.testing.assert_allclose(trial.row_losses, alone.row_losses, rtol=1e-12)


def test_losses_are_the_same_when_features_are_kept_and_when_they_are_evaluated_again(scorer):
    features = NystromMap(60, gamma=0.3, random_state=0).fit(scorer.rows.X)
    kept, precomputed = scorer.precomputed(features)
    assert kept is not scorer
    again = scorer.trial("C", 0.3, features, scorer.summarise(features), LOG2_C_GRID)
    once = kept.trial("C", 0.3, precomputed, kept.summarise(precomputed), LOG2_C_GRID)
    np.testing.assert_allclose(once.loss, again.loss, rtol=1e-9)


def test_a_sparse_grid_ends_beside_the_best_C_of_the_full_one(scorer):
    features = NystromMap(60, gamma=0.3, random_state=0).fit(scorer.rows.X)
    summary = scorer.summarise(features)
    full = scorer.trial("C", 0.3, features, summary, LOG2_C_GRID)
    sparse = scorer.trial("C", 0.3, features, summary, LOG2_C_GRID[::5])
    assert len(sparse.C) < len(full.C) / 2
    assert sparse.loss.min() <= 1.001 * full.loss.min()


def test_copies_that_leave_together_are_left_out_with_all_digits():
    """Of ten thousand copies of a row so little is left, 1 - u h, that single precision of h says nothing of it."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(900, 3))
    T = np.sin(3 * X[:, :1]) + 0.1 * rng.normal(size=(900, 1))
    F = NystromMap(path.MANY + 1, gamma=0.5, random_state=0).fit_transform(X)
    w = np.where(np.arange(900) < 20, 1e4, 1.0)
    of_all = RidgePath(Statistics.of(F, T, w))
    C = np.array([path.SINGLE_REACH / of_all.mean_square])
    P, h = of_all.leave_one_out(C, w)(F, T, w)
    assert (w * h)[0, :20].max() > 0.99999
    for i in range(20):
        rest = np.arange(len(X)) != i
        alone, b = RidgePath(Statistics.of(F[rest], T[rest], w[rest])).weights(C)
        assert np.abs(P[0, i] - (F[i] @ alone[:, 0] + b[0])).max() <= 1e-6


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leverages_of_many_features_are_those_of_refits_as_far_as_single_precision_reaches(fit_intercept):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(900, 3))
    T = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] * X[:, 2]]) + 0.1 * rng.normal(size=(900, 2))
    F = NystromMap(path.MANY + 1, gamma=0.5, random_state=0).fit_transform(X)
    w = rng.uniform(0.2, 2.0, len(X))
    of_all = RidgePath(Statistics.of(F, T, w), fit_intercept=fit_intercept)
    limit = path.SINGLE_REACH / of_all.mean_square
    C = limit * np.array([1e-8, 1e-4, 1.0])
    assert of_all._single(C)
    assert not of_all._single(1.001 * C)
    P, h = of_all.leave_one_out(C)(F, T, w)
    assert h.min() < 0.02
    assert h.max() > 0.98
    for c, i in ((0, 5), (1, 77), (2, 800), (2, 3)):
        rest = np.arange(len(X)) != i
        alone, b = RidgePath(Statistics.of(F[rest], T[rest], w[rest]), fit_intercept=fit_intercept).weights(C[[c]])
        # 2ε√(Ch)‖φ‖ of h, in units of what is left of the row
        off = 3e-5 / (1 - w[i] * h[c, i]) * np.abs(T[i] - P[c, i])
        assert (np.abs(P[c, i] - (F[i] @ alone[:, 0] + b[0])) <= off + 1e-9).all()
    assert of_all._single(C / 9.1, heaviest=9.0)
    assert not of_all._single(C, heaviest=9.0)
    of_few = RidgePath(Statistics.of(F[:, : path.MANY], T, w), fit_intercept=fit_intercept)
    assert not of_few._single(C)
    assert not RidgePath(Statistics.of(F, T, w), whitening=np.eye(F.shape[1]))._single(C)


class ScoredRows:
    """Rows with their features, as :class:`FactoredPath` takes them; counts those that were solved for."""

    def __init__(self, F, T, unit=None):
        self.rows, self.solved = Rows(F, T, None, unit), 0

    def __len__(self):
        return len(self.rows)

    @property
    def unit(self):
        return self.rows.unit

    def each(self, work):
        for piece in (slice(0, len(self) // 2), slice(len(self) // 2, len(self))):
            work(piece, self.rows.X[piece], self.rows[piece])

    def some(self, places):
        self.solved += len(places)
        return self.rows.X[places]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [np.array([0.1, 1.0, 50.0]), np.array([1e5, 1e7])])
def test_factors_leave_rows_out_as_the_decomposition_does(C, fit_intercept, monkeypatch):
    monkeypatch.setattr("ulmus.solvers.factored_path.CLOSE", 0.0)  # no leverage follows from others
    rng = np.random.RandomState(0)
    F, T, w = rng.normal(size=(300, 40)) / 6, rng.normal(size=(300, 3)), rng.uniform(0.5, 2.0, 300)
    stats, unit = Statistics.of(F, T, w), np.minimum(w, 1.0)
    P, h = RidgePath(stats, fit_intercept=fit_intercept).leave_one_out(C)(F, T, unit)
    path = FactoredPath(stats, fit_intercept=fit_intercept)
    single = C.max() * np.trace(stats.gram) / stats.weight <= SINGLE_REACH
    tolerance = 3e-6 if single else 1e-12
    np.testing.assert_allclose(path.left_out(C, ScoredRows(F, T, unit)), P, atol=tolerance)
    np.testing.assert_allclose([path.known[c] for c in np.log2(C)], unit * h, atol=tolerance)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leverages_follow_from_those_of_two_C(fit_intercept):
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(3000, 3))
    F = NystromMap(200, gamma=3.0, random_state=0).fit_transform(X)
    T = np.column_stack([np.sin(5 * X[:, 0]), X[:, 1] * X[:, 2]]) + 0.1 * rng.normal(size=(3000, 2))
    stats, rows, C = Statistics.of(F, T), ScoredRows(F, T), 2.0 ** np.array([1.0, 3.0, 5.0])
    path = FactoredPath(stats, fit_intercept=fit_intercept)
    exact = RidgePath(stats, fit_intercept=fit_intercept).leave_one_out(C)(F, T, None)[0]
    found = path.left_out(C, rows)
    assert list(path.known) == [1.0, 5.0]
    assert rows.solved == SOME
    np.testing.assert_allclose(found[[0, 2]], exact[[0, 2]], atol=1e-5)
    off = (T - found[1]) / (T - exact[1]) - 1
    assert 1e-6 < np.sqrt(np.mean(off**2)) < 5e-3
    more = path.left_out(C[:1] * 2, rows)
    assert list(path.known) == [1.0, 5.0]
    expected = RidgePath(stats, fit_intercept=fit_intercept).leave_one_out(C[:1] * 2)(F, T, None)[0]
    np.testing.assert_allclose(np.mean((T - more) ** 2), np.mean((T - expected) ** 2), rtol=1e-3)


def test_leverages_between_two_C_follow_for_heavy_rows_too():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(1500, 3))
    F = NystromMap(200, gamma=3.0, random_state=0).fit_transform(X)
    T, w = np.sin(5 * X[:, :1]) + 0.1 * rng.normal(size=(1500, 1)), np.where(rng.uniform(size=1500) < 0.1, 1e3, 1.0)
    stats, rows, C = Statistics.of(F, T, w), ScoredRows(F, T, w), 2.0 ** np.array([1.0, 3.0, 5.0])
    exact = RidgePath(stats).leave_one_out(C)(F, T, w)[0]
    found = FactoredPath(stats).left_out(C, rows)
    assert rows.solved == SOME
    losses = [np.average(((T - P) ** 2)[..., 0], axis=1, weights=w) for P in (found, exact)]
    np.testing.assert_allclose(*losses, rtol=0.01)


def test_leverages_that_do_not_follow_are_solved_for(monkeypatch):
    rng = np.random.RandomState(0)
    F, T, C = rng.normal(size=(300, 40)), rng.normal(size=(300, 1)), 2.0 ** np.array([-6.0, -4.0, -2.0])
    monkeypatch.setattr("ulmus.solvers.factored_path.CLOSE", 0.0)
    path = FactoredPath(Statistics.of(F, T))
    found = path.left_out(C, ScoredRows(F, T))
    assert sorted(path.known) == [-6.0, -4.0, -2.0]
    np.testing.assert_allclose(found, RidgePath(Statistics.of(F, T)).leave_one_out(C)(F, T, None)[0], atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_rows_that_are_not_white_are_left_out_as_white_ones_are(fit_intercept, single, monkeypatch):
    monkeypatch.setattr("ulmus.solvers.factored_path.CLOSE", 0.0)  # no leverage follows from others
    monkeypatch.setattr("ulmus.solvers.factored_path.ROUGH", 1.0 if single else 0.0)
    rng = np.random.RandomState(0)
    X, T, w = rng.normal(size=(500, 6)), rng.normal(size=(500, 2)), rng.uniform(0.5, 2.0, 500)
    features = NystromMap(200, gamma=0.1, random_state=0).fit(X)
    K, R, C = engine.transform(features.cross_kernel_, X), features.whitening_, np.array([0.1, 1.0, 10.0])
    white, unit = Statistics.of(features.transform(X), T, w), np.minimum(w, 1.0)
    P, _ = RidgePath(white, fit_intercept=fit_intercept).leave_one_out(C)(features.transform(X), T, unit)
    path = FactoredPath(Statistics.of(K, T, w), fit_intercept=fit_intercept, whitening=R)
    found = path.left_out(C, ScoredRows(K, T, unit))
    np.testing.assert_allclose(found, P, atol=3e-4 if single else 1e-8)
    with_rank = path._decomposed(C, ScoredRows(K, T, unit))
    np.testing.assert_allclose(with_rank, P, atol=1e-8)


def test_single_precision_is_for_rows_that_lose_few_digits_to_it():
    X = np.random.RandomState(0).normal(size=(500, 3))
    T = X[:, :1]
    for gamma, single in ((3.0, True), (0.5, False)):
        features = NystromMap(200, gamma=gamma, random_state=0).fit(X)
        K = engine.transform(features.cross_kernel_, X)
        path = FactoredPath(Statistics.of(K, T), whitening=features.whitening_)
        path._leverages = lambda root, Phi, was=path._leverages: (seen.append(root.dtype), was(root, Phi))[1]
        seen = []
        path.left_out(np.array([10.0]), ScoredRows(K, T))
        assert (seen[0] == np.float32) == single


def test_very_many_features_are_scored_without_whitening(monkeypatch):
    monkeypatch.setattr("ulmus.tuning.scorer.VERY_MANY", 50)
    monkeypatch.setattr("ulmus.tuning.scorer.FEWEST", 100)
    monkeypatch.setattr("ulmus.tuning.scorer.MANY", 10)
    rng = np.random.RandomState(0)
    X = rng.normal(size=(400, 5))
    T = np.sin(X[:, :1]) + 0.1 * rng.normal(size=(400, 1))
    scorer = Scorer(Rows(X, T), Plain.of(T, None), nystrom_statistics, True)
    features = NystromMap(80, gamma=0.2, random_state=0).fit(X)
    kept, precomputed = scorer.precomputed(features, stay=True)
    assert kept.raw
    assert kept.by_factors(80)
    summary, grid = kept.summarise(precomputed), np.array([2.0, 4.0, 6.0])
    for size in (40, 80):
        few = kept.trial("C", 0.2, precomputed, summary, grid, size)
        full = scorer.trial("C", 0.2, features, scorer.summarise(features), LOG2_C_GRID, size)
        assert few.loss.min() == pytest.approx(full.loss.min(), rel=2e-3)
        by_decomposition = kept.trial("C", 0.2, precomputed, summary, LOG2_C_GRID, size)
        np.testing.assert_allclose(by_decomposition.loss, full.loss, rtol=1e-6)
    white = kept.white(summary.total.prefix(40))
    np.testing.assert_allclose(white.moments, scorer.summarise(features).total.prefix(40).moments, atol=1e-8)


def test_without_a_factor_the_decomposition_answers():
    F = np.column_stack([np.eye(6)[:, :2], np.eye(6)[:, :2]])
    stats, T = Statistics.of(F, np.ones((6, 1))), np.ones((6, 1))
    for C in (np.array([1.0, 1e40]), np.array([1e40])):  # 1/C is no digit of a matrix of rank 2
        P = FactoredPath(stats).left_out(C, ScoredRows(F, T))
        np.testing.assert_array_equal(P, RidgePath(stats).leave_one_out(C)(F, T, None)[0])


def test_very_many_features_choose_the_same_C_by_factors(scorer, monkeypatch):
    features = NystromMap(60, gamma=0.3, random_state=0).fit(scorer.rows.X)
    summary = scorer.summarise(features)
    full = scorer.trial("C", 0.3, features, summary, LOG2_C_GRID)
    start = np.log2(full.best_C) + np.array([1.0, 3.0, 5.0])
    monkeypatch.setattr("ulmus.tuning.scorer.VERY_MANY", 50)
    monkeypatch.setattr("ulmus.tuning.scorer.SCORED_EACH", np.inf)
    assert scorer.by_factors(60)
    few = scorer.trial("C", 0.3, features, summary, start)
    assert 4 <= len(few.C) <= 6
    assert few.best_loss <= 1.002 * full.best_loss


def test_judging_many_features_chooses_as_double_precision_does(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(1500, 2))
    y = np.sin(15 * X[:, 0]) * np.sin(15 * X[:, 1]) + 0.1 * rng.normal(size=1500)
    single = NKELMRegressor(random_state=0).fit(X, y)
    assert single.n_landmarks_ > path.MANY
    monkeypatch.setattr(path, "SINGLE_REACH", 0.0)
    double = NKELMRegressor(random_state=0).fit(X, y)
    assert (single.C_, single.gamma_, single.n_landmarks_) == (double.C_, double.gamma_, double.n_landmarks_)
    for a, b in zip(single.tuning_.trials, double.tuning_.trials, strict=True):
        np.testing.assert_allclose(a.loss, b.loss, rtol=1e-5)
    assert any((a.loss != b.loss).any() for a, b in zip(single.tuning_.trials, double.tuning_.trials, strict=True))


def test_a_search_keeps_blas_on_one_thread(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 2))
    seen = []
    eigh = np.linalg.eigh

    def watched(A):
        seen.append([library.num_threads for library in _threads._pools()[0]])
        return eigh(A)

    monkeypatch.setattr(np.linalg, "eigh", watched)
    monkeypatch.setattr(engine, "SMALL", 1)  # larger ones, by themselves, would take all threads
    NKELMRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    assert seen
    assert all(count == 1 for counts in seen for count in counts)


def made(scorer, losses, C=(1.0,)):
    losses = np.asarray(losses, dtype=float)
    return Trial("size", 1.0, 10, len(losses), np.array(C), np.array([losses.mean()]), losses)


def test_one_row_does_not_decide_between_two_models():
    rng = np.random.RandomState(0)
    T = rng.normal(size=(2000, 1))
    scorer = Scorer(Rows(T, T), Plain.of(T, None), nystrom_statistics, False)
    old = rng.uniform(0.9, 1.1, 2000)
    new = old - 0.05 - 0.01 * rng.uniform(size=2000)
    new[7] = 500.0
    assert made(scorer, new).best_loss > made(scorer, old).best_loss
    assert scorer.gains(made(scorer, old), made(scorer, new))
    assert not scorer.gains(made(scorer, new), made(scorer, old))


def test_of_widths_that_tie_the_largest_is_taken():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(400, 2))
    T = rng.normal(size=(400, 1))
    scorer = Scorer(Rows(X, T), Plain.of(T, None), nystrom_statistics, True)
    losses = {0.25: 1.3, 0.5: 1.0, 1.0: 1.001, 2.0: 1.2}
    tuner = Tuner(scorer, lambda width, size: None, rng)
    noise = rng.normal(size=(4, 400))

    def trial(width, size, scorer):
        rows = losses[width] + 0.2 * noise[list(losses).index(width)]
        return made(scorer, rows - rows.mean() + losses[width])

    tuner._width_trial = trial
    assert tuner._climb(0.5, 2.0, 10, scorer) == 1.0
    losses[1.0] = 1.1
    assert tuner._climb(0.5, 2.0, 10, scorer) == 0.5


@pytest.mark.parametrize("Model", [NKELMRegressor, ELMRegressor])
def test_an_easy_target_is_left_at_the_first_size(Model):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(1500, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=1500)
    sizes = [t.size for t in Model(random_state=0).fit(X, y).tuning_.trials if t.stage == "size"]
    assert max(sizes) <= 250


def test_a_rough_target_makes_the_size_grow():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(2000, 2))
    y = np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1]) + 0.1 * rng.normal(size=2000)
    assert NKELMRegressor(random_state=0).fit(X, y).n_landmarks_ >= 500


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "laplacian_l1"])
def test_the_median_distance_is_that_of_all_pairs_of_distinct_rows(kernel):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(80, 3))
    D = {"rbf": ((X[:, None] - X) ** 2).sum(axis=2), "laplacian_l1": np.abs(X[:, None] - X).sum(axis=2)}
    distance = np.sort(D.get(kernel, np.sqrt(D["rbf"]))[np.triu_indices(80, 1)])
    gamma = heuristic_gamma(kernel, X, None, np.random.RandomState(0))
    assert 1 / gamma == pytest.approx(distance[(len(distance) - 1) // 2])
    copies = rng.randint(1, 4, 80)
    weighted = heuristic_gamma(kernel, X, copies.astype(float), np.random.RandomState(0))
    repeated = heuristic_gamma(kernel, np.repeat(X, copies, axis=0), None, np.random.RandomState(0))
    assert weighted == repeated


def test_flatter_kernels_must_gain_while_rows_and_features_are_to_come(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(3000, 2))
    y = X.sum(axis=1) + 0.01 * rng.normal(size=3000)

    def coarse(n):
        """How many widths were tried on the first sample."""
        trials = NKELMRegressor(random_state=0).fit(X[:n], y[:n]).tuning_.trials
        return len([t for t in trials if t.stage == "width" and t.n_rows == min(n, 1500)])

    free = {n: coarse(n) for n in (1000, 3000)}
    monkeypatch.setattr(search, "FLATTER", 2.0)  # no loss falls so far
    assert coarse(3000) == 3 < free[3000]  # the start and its neighbours
    assert coarse(1000) == free[1000] > 3  # the sample is all there is


def test_a_gain_that_is_round_off_is_none(scorer):
    """Two models of saturated nodes are the same model: every row may gain a last digit, and surely so."""
    features = NystromMap(60, gamma=0.3, random_state=0).fit(scorer.rows.X)
    old = scorer.trial("C", 0.3, features, scorer.summarise(features), LOG2_C_GRID)
    same, better = (replace(old, row_losses=share * old.row_losses) for share in (1 - 1e-14, 0.9))
    assert scorer.gain(old, same)[0] > 0
    assert not scorer.gains(old, same, errors=0.0)
    assert scorer.gains(old, better, errors=0.0)

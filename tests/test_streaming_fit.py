"""A streamed model is the model of all rows: any batches, any files, any closed-form model."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fixed
import ulmus
from data import cases, classification, regression, relative_error
from ulmus import streaming
from ulmus.streaming import CheckpointError, SourceError
from ulmus.tuning.search import Tuner

N = 700
X, Y = regression(N)
TWO = np.column_stack([Y, 3 - Y**2])
LABELS = np.array(["red", "green", "blue"])[classification(N)[1]]
#: Ordered labels: numbers, and names whose order is not that of the alphabet.
RANKS, ORDER = classification(N)[1], ["red", "green", "blue"]
BINARY = classification(N, classes=2)[1]
W = np.random.RandomState(1).randint(0, 4, N).astype(float)

#: A model with nothing to choose, its targets, and weights or none.
MODELS = {
    "ELM": (lambda: fixed.ELMRegressor(C=100.0, random_state=0), Y, None),
    "ELM, weights, intercept": (lambda: fixed.ELMRegressor(C=100.0, fit_intercept=True, random_state=0), Y, W),
    "ELM, two outputs": (lambda: fixed.ELMRegressor(C=100.0, random_state=0), TWO, W),
    "ELM, least squares": (lambda: fixed.ELMRegressor(10, C=None, random_state=0), Y, None),
    "ELM, direct links": (lambda: fixed.ELMRegressor(C=10.0, direct_links=True, random_state=0), Y, None),
    "ELM, radial": (lambda: fixed.ELMRegressor(C=10.0, activation="gaussian", random_state=0), Y, W),
    "ELM, classes": (lambda: fixed.ELMClassifier(C=100.0, random_state=0), LABELS, W),
    "ELM, balanced": (lambda: fixed.ELMClassifier(C=100.0, class_weight="balanced", random_state=0), LABELS, W),
    "ELM, class weights": (
        lambda: fixed.ELMClassifier(C=1.0, class_weight={0: 0.2, 1: 3}, random_state=0),
        BINARY,
        None,
    ),
    "NKELM": (lambda: fixed.NKELMRegressor(C=100.0, random_state=0), Y, W),
    "NKELM, intercept": (lambda: fixed.NKELMRegressor(C=100.0, fit_intercept=True, random_state=0), TWO, None),
    "NKELM, k-means": (lambda: fixed.NKELMRegressor(C=10.0, landmarks="kmeans", random_state=0), Y, None),
    "NKELM, rank": (lambda: fixed.NKELMRegressor(C=10.0, rank=10, random_state=0), Y, None),
    "NKELM, callable": (lambda: fixed.NKELMRegressor(C=10.0, kernel=reference_kernel, random_state=0), Y, None),
    "NKELM, classes": (lambda: fixed.NKELMClassifier(C=100.0, random_state=0), LABELS, W),
    "NKELM, balanced landmarks": (
        lambda: fixed.NKELMClassifier(C=9.0, landmarks="balanced", class_weight="balanced", random_state=0),
        BINARY,
        None,
    ),
    "OSELM": (lambda: ulmus.OSELMRegressor(20, C=100.0, slope=1.0, random_state=0), Y, W),
    "OSELM, information": (
        lambda: ulmus.OSELMRegressor(20, C=10.0, slope=1.0, form="information", random_state=0),
        Y,
        None,
    ),
    "OSELM, classes": (lambda: ulmus.OSELMClassifier(20, C=100.0, slope=1.0, random_state=0), LABELS, W),
    "ELM, ordered": (lambda: ulmus.ELMOrdinalClassifier(20, C=100.0, slope=1.0, random_state=0), RANKS, W),
    "NKELM, ordered": (
        lambda: ulmus.NKELMOrdinalClassifier(20, C=10.0, gamma=1.0, categories=ORDER, random_state=0),
        LABELS,
        W,
    ),
    "OSELM, ordered": (
        lambda: ulmus.OSELMOrdinalClassifier(20, C=10.0, slope=1.0, categories=ORDER, random_state=0),
        LABELS,
        None,
    ),
}
#: A model that chooses everything.
OPEN = {
    "ELM": (lambda: ulmus.ELMRegressor(max_hidden=60, random_state=0), Y, None),
    "NKELM": (lambda: ulmus.NKELMRegressor(max_landmarks=60, random_state=0), Y, W),
    "NKELM, classes": (lambda: ulmus.NKELMClassifier(max_landmarks=60, random_state=0), LABELS, None),
}


def reference_kernel(A, B):
    return np.exp(-np.abs(A[:, None] - B[None]).sum(axis=2))


def cut(y, weight, sizes):
    """The rows as batches of these sizes, and the rest."""
    ends = np.minimum(np.cumsum([0, *sizes]), N)
    for a, b in zip(ends, [*ends[1:], N], strict=True):
        yield (X[a:b], y[a:b]) if weight is None else (X[a:b], y[a:b], weight[a:b])


def same(streamed, whole, tolerance=1e-10):
    """The same answers, to so many digits."""
    assert relative_error(streamed._scores_of(X), whole._scores_of(X)) <= tolerance
    if hasattr(whole, "classes_"):
        assert (streamed.predict(X) == whole.predict(X)).all()
        # the temperature is found by a search that stops at 1e-5
        np.testing.assert_allclose(streamed.predict_proba(X), whole.predict_proba(X), atol=1e-4)
    else:
        assert relative_error(streamed.predict_interval(X), whole.predict_interval(X)) <= 100 * tolerance
        deviation = streamed.predict(X, return_std=True)[1], whole.predict(X, return_std=True)[1]
        assert relative_error(*deviation) <= 1e4 * tolerance


@pytest.mark.parametrize(
    "name",
    cases(
        MODELS,
        "ELM, weights, intercept",
        "ELM, two outputs",
        "ELM, least squares",
        "ELM, balanced",
        "NKELM",
        "NKELM, k-means",
        "NKELM, rank",
        "NKELM, balanced landmarks",
        "OSELM",
        "OSELM, information",
        "OSELM, ordered",
    ),
)
@settings(max_examples=4)
@given(sizes=st.lists(st.integers(0, 300), max_size=4), batch_rows=st.integers(40, 800))
def test_a_streamed_model_is_the_fitted_one(name, sizes, batch_rows):
    make, y, weight = MODELS[name]
    streamed = streaming.fit(make(), lambda: cut(y, weight, sizes), batch_rows=batch_rows)
    same(streamed, make().fit(X, y, weight))


@pytest.mark.parametrize("name", OPEN)
def test_a_sample_of_all_rows_leads_to_the_choices_of_a_fit(name):
    make, y, weight = OPEN[name]
    streamed = streaming.fit(make(), lambda: cut(y, weight, [100, 0, 33]), batch_rows=111)
    whole = make().fit(X, y, weight)
    assert (streamed.C_, streamed.map_.n_features_out) == (whole.C_, whole.map_.n_features_out)
    assert streamed.tuning_.loss == pytest.approx(whole.tuning_.loss, rel=1e-6)
    same(streamed, whole, 1e-8)  # C is large where nothing speaks against it


@pytest.mark.parametrize("features", ["random", "nystrom"])
@settings(max_examples=3)
@given(sizes=st.lists(st.integers(0, 300), max_size=4), batch_rows=st.integers(40, 800))
def test_a_streamed_discriminant_is_the_fitted_one(features, sizes, batch_rows):
    def make():
        return ulmus.ENDA(20, features=features, C=10.0, slope=1.0, gamma=1.0, random_state=0)

    streamed = streaming.fit(make(), lambda: cut(LABELS, W, sizes), batch_rows=batch_rows)
    whole = make().fit(X, LABELS, W)
    assert relative_error(streamed.transform(X), whole.transform(X)) <= 1e-10
    assert (streamed.predict(X) == whole.predict(X)).all()


@pytest.mark.parametrize("make", [fixed.ELMRegressor, fixed.ELMClassifier])
def test_a_map_that_needs_no_rows_gives_the_fitted_model_from_the_smallest_sample(make):
    y = Y if make is fixed.ELMRegressor else LABELS
    options = {"scale": 1.0, "C": 10.0, "random_state": 0}
    streamed = streaming.fit(make(**options), (X, y, W), batch_rows=100, sample_rows=30)
    assert relative_error(streamed._scores_of(X), make(**options).fit(X, y, W)._scores_of(X)) <= 1e-10


def test_landmarks_of_a_small_sample_lead_to_the_weights_of_all_rows():
    streamed = streaming.fit(fixed.NKELMRegressor(C=10.0, random_state=0), (X, Y, W), batch_rows=100, sample_rows=50)
    assert {tuple(z) for z in streamed.map_.landmarks_} <= {tuple(x) for x in X[W > 0]}
    whole = fixed.NKELMRegressor(C=10.0, landmarks=streamed.map_.landmarks_).fit(X, Y, W)
    assert relative_error(streamed.predict(X), whole.predict(X)) <= 1e-10


@pytest.mark.parametrize(
    "name", ["ELM", "NKELM, classes", "OSELM", "OSELM, classes", "NKELM, ordered", "OSELM, ordered"]
)
def test_a_streamed_model_learns_on_as_a_fitted_one(name):
    make, y, weight = MODELS[name]
    half, w = N // 2, np.ones(N) if weight is None else weight + 1
    streamed = streaming.fit(make(), (X[:half], y[:half], w[:half]), batch_rows=100)
    whole = make().fit(X[:half], y[:half], w[:half])
    for model in (streamed, whole):
        model.partial_fit(X[half:], y[half:], sample_weight=w[half:])
        model.unlearn(X[half : half + 20], y[half : half + 20], w[half : half + 20])
    assert relative_error(streamed._scores_of(X), whole._scores_of(X)) <= 1e-9  # a factor was squared and taken again


def test_a_class_that_the_sample_misses_is_learned():
    rare = np.where(np.arange(N) == 650, "rare", "common")
    rare[:300] = "other"
    streamed = streaming.fit(
        fixed.ELMClassifier(scale=1.0, C=10.0, random_state=0), (X, rare), batch_rows=64, sample_rows=20
    )
    assert streamed.classes_.tolist() == ["common", "other", "rare"]
    whole = fixed.ELMClassifier(scale=1.0, C=10.0, random_state=0).fit(X, rare)
    assert relative_error(streamed.decision_function(X), whole.decision_function(X)) <= 1e-10


@pytest.mark.parametrize("cv", [None, 4])
@pytest.mark.parametrize("make", [ulmus.NKELMRegressor, ulmus.ELMRegressor])
def test_C_and_size_are_chosen_by_the_loss_on_all_rows(make, cv):
    """From a sample of 60 of 700 rows; the loss, by brute force, of models that see all rows but those judged."""
    options = {"gamma": 0.3, "max_landmarks": 20} if make is ulmus.NKELMRegressor else {"slope": 1.0, "max_hidden": 20}
    model = streaming.fit(make(cv=cv, random_state=0, **options), (X, Y), batch_rows=100, sample_rows=60)
    trial = next(t for t in reversed(model.tuning_.trials) if t.size == model.map_.n_features_out)
    assert (model.C_, trial.n_rows) == (trial.best_C, 60)
    Phi, T = model.map_.transform(X), Y[:, None]
    sample = np.flatnonzero(np.isin(X[:, 0], streaming_sample(60)))
    folds = np.arange(N) if cv is None else streaming.sums.Folds.dealt(X, cv).of(X)
    errors = []
    for i in sample:
        train = folds != folds[i]
        A = Phi[train] - Phi[train].mean(axis=0)
        beta = np.linalg.solve(A.T @ A + np.eye(A.shape[1]) / model.C_, A.T @ (T[train] - T[train].mean()))
        errors.append(((Phi[i] - Phi[train].mean(axis=0)) @ beta + T[train].mean() - T[i])[0])
    # C may be large: the brute force has lost some digits too
    assert trial.best_loss == pytest.approx(np.mean(np.square(errors)) / Y[sample].var(), rel=1e-5)


def test_no_fold_holds_every_row_of_a_stream():
    """Folds follow from what rows are, and few distinct rows may all be dealt into one."""
    first = streaming.sums.Folds(5)
    together = next(i for i in range(N - 1) if np.ptp(first.of(X[i : i + 2])) == 0)
    few, y = np.repeat(X[together : together + 2], 40, axis=0), np.repeat(Y[together : together + 2], 40)
    deal = streaming.sums.Folds.dealt(few, 5)
    assert len(np.unique(deal.of(few))) == 2
    assert streaming.sums.Folds.dealt(X, 5) == first
    model = streaming.fit(ulmus.ELMRegressor(cv=5, random_state=0), (few, y), batch_rows=20)
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(ValueError, match=r"cv=5 needs rows that differ, .* equal; use cv=None"):
        streaming.fit(ulmus.ELMRegressor(cv=5, random_state=0), (few[:1].repeat(80, axis=0), y), batch_rows=20)


def streaming_sample(count):
    survey = streaming.survey.Survey(count, int(np.random.RandomState(0).randint(2**31 - 1)), classifier=False)
    survey.add(survey.look(streaming.batches.Batch(X, Y, None, 0, "")))
    survey.merge_pending()
    return survey.X[:, 0]


@pytest.mark.parametrize(
    ("n_hidden", "C", "wanted"),
    [(12, 1e6, "correction-1"), (15, 1e8, "correction-1"), (8, None, "correction-1"), (15, 1e10, "triangular")],
)
def test_digits_that_the_sums_lose_are_won_back_by_more_passes(n_hidden, C, wanted):
    """Smooth nodes of one input depend on each other nearly to round-off."""
    one = X[:, :1]
    options = {"n_hidden": n_hidden, "C": C, "random_state": 0}
    passes = []
    model = fixed.ELMRegressor(**options)
    streamed = streaming.fit(model, (one, Y), batch_rows=100, progress=lambda report: passes.append(report.label))
    assert wanted in passes
    assert relative_error(streamed.predict(one), fixed.ELMRegressor(**options).fit(one, Y).predict(one)) <= 1e-10


def test_fewer_rows_than_features_are_solved_like_in_memory():
    model = fixed.NKELMRegressor(200, C=1e3, random_state=0, kernel="laplacian")
    streamed = streaming.fit(model, (X[:100], Y[:100]), batch_rows=17)
    whole = fixed.NKELMRegressor(200, C=1e3, random_state=0, kernel="laplacian").fit(X[:100], Y[:100])
    assert relative_error(streamed.predict(X), whole.predict(X)) <= 1e-10


def test_sparse_batches_are_fitted_as_dense_ones():
    streamed = streaming.fit(fixed.NKELMRegressor(C=10.0, random_state=0), (sparse.csr_array(X), Y), batch_rows=100)
    assert (
        relative_error(streamed.predict(X), fixed.NKELMRegressor(C=10.0, random_state=0).fit(X, Y).predict(X)) <= 1e-10
    )


def test_float32_rows_are_summed_in_double():
    narrow = X.astype(np.float32)
    streamed = streaming.fit(fixed.NKELMRegressor(C=10.0, random_state=0), (narrow, Y), batch_rows=100)
    whole = fixed.NKELMRegressor(C=10.0, random_state=0).fit(narrow.astype(np.float64), Y)
    assert relative_error(streamed.predict(X), whole.predict(X)) <= 1e-10


def test_names_of_columns_are_those_of_the_model(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    for k, (a, b) in enumerate([(0, 300), (300, 300), (300, N)]):
        table[a:b].assign(y=Y[a:b]).to_parquet(tmp_path / f"{k}.parquet")
    streamed = streaming.fit(fixed.ELMRegressor(C=10.0, random_state=0), tmp_path, target="y", features=["c", "a"])
    whole = fixed.ELMRegressor(C=10.0, random_state=0).fit(table[["c", "a"]], Y)
    assert streamed.feature_names_in_.tolist() == ["c", "a"]
    assert relative_error(streamed.predict(table[["c", "a"]]), whole.predict(table[["c", "a"]])) <= 1e-10
    with pytest.raises(ValueError, match="feature names"):
        streamed.predict(table)


def dirty_table():
    rng = np.random.RandomState(3)
    colours = np.array(["red", "green", None], dtype=object)[rng.randint(3, size=N)]
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(rng.uniform(size=N) < 0.1, np.nan, X[:, 1]), "colour": colours})
    return table.assign(y=Y + (colours == "red"))


def encoder():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer([("n", numbers, ["a", "b"]), ("c", OneHotEncoder(), ["colour"])])


@pytest.mark.parametrize("sample_rows", [2000, 300])
def test_categories_and_missing_values_go_through_the_users_transformer(sample_rows, tmp_path):
    table = dirty_table()
    table[:400].to_parquet(tmp_path / "0.parquet")
    table[400:].to_parquet(tmp_path / "1.parquet")
    model = fixed.ELMRegressor(C=10.0, scale=1.0, random_state=0)
    found = streaming.fit(model, tmp_path, target="y", preprocess=encoder(), batch_rows=150, sample_rows=sample_rows)
    assert isinstance(found, Pipeline)
    inputs = table.drop(columns="y")
    if sample_rows > N:  # the transformer has seen all rows
        whole = make_pipeline(encoder(), fixed.ELMRegressor(C=10.0, scale=1.0, random_state=0)).fit(inputs, table["y"])
        assert relative_error(found.predict(inputs), whole.predict(inputs)) <= 1e-9
    else:
        prepared = found[0].transform(inputs)
        whole = fixed.ELMRegressor(C=10.0, scale=1.0, random_state=0).fit(prepared, table["y"])
        assert relative_error(found.predict(inputs), whole.predict(prepared)) <= 1e-10
    out = streaming.predict(found, tmp_path, tmp_path / "out.parquet", features=list(inputs), keep=["y"])
    back = pd.read_parquet(out)
    np.testing.assert_array_equal(back["y"], table["y"])
    np.testing.assert_allclose(back["prediction"], found.predict(inputs), rtol=1e-12)


def test_a_transformer_with_partial_fit_sees_all_rows():
    found = streaming.fit(
        fixed.ELMRegressor(C=10.0, scale=1.0, random_state=0),
        (X, Y),
        preprocess=StandardScaler(),
        batch_rows=90,
        sample_rows=10,
    )
    np.testing.assert_allclose(found[0].mean_, X.mean(axis=0), atol=1e-12)


def test_a_fitted_transformer_is_used_as_it_is():
    scaler = StandardScaler().fit(X[:10])
    found = streaming.fit(fixed.ELMRegressor(C=10.0, random_state=0), (X, Y), preprocess=scaler)
    assert found[0] is scaler


def test_a_model_without_a_feature_map_is_refused_with_advice():
    with pytest.raises(TypeError, match=r"KELMRegressor cannot be fitted to a stream.*NKELM"):
        streaming.fit(ulmus.KELMRegressor(), (X, Y))


@pytest.mark.parametrize(("name", "value"), [("forgetting", 0.9), ("loss", "quantile")])
def test_what_sums_cannot_answer_is_refused(name, value):
    model = fixed.ELMRegressor(C=1.0)
    setattr(model, name, value)  # as online and ordinal models have them
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        streaming.fit(model, (X, Y))


def test_an_iterative_solver_is_refused_where_rows_are_summed():
    model = ulmus.NKELMRegressor(20, solver="iterative")
    with pytest.raises(ValueError, match=r'solver="iterative" of NKELMRegressor.*Set solver="auto" or "direct"'):
        streaming.fit(model, (X, Y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_rows": 0}, "batch_rows must be a positive integer, got 0"),
        ({"sample_rows": 1.5}, "sample_rows must be a positive integer, got 1.5"),
    ],
)
def test_bad_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        streaming.fit(fixed.ELMRegressor(), (X, Y), **options)


def test_bad_parameters_of_the_model_are_refused_before_reading():
    with pytest.raises(ValueError, match="The 'C' parameter"):
        streaming.fit(ulmus.ELMRegressor(C=-1), "nowhere.parquet", target="y")
    with pytest.raises(ValueError, match="cv must be None or a number of folds"):
        streaming.fit(ulmus.ELMRegressor(cv=[([0], [1])]), "nowhere.parquet", target="y")
    with pytest.raises(ValueError, match="criterion"):
        streaming.fit(ulmus.ELMRegressor(criterion="error"), "nowhere.parquet", target="y")


def test_a_source_without_rows_is_refused():
    with pytest.raises(SourceError, match="no rows"):
        streaming.fit(fixed.ELMRegressor(C=1.0), lambda: iter([(X[:0], Y[:0])]))
    with pytest.raises(SourceError, match="no rows of positive weight"):
        streaming.fit(fixed.ELMRegressor(C=1.0), (X, Y, np.zeros(N)))


def test_the_number_of_threads_changes_nothing():
    one, two = (
        streaming.fit(
            ulmus.NKELMRegressor(gamma=0.5, max_landmarks=40, random_state=0, n_jobs=n), (X, Y), batch_rows=64
        )
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.beta_, two.beta_)


def test_a_finished_checkpoint_gives_the_model_again_without_reading(tmp_path):
    def run():
        labels = []
        model = ulmus.NKELMClassifier(max_landmarks=40, random_state=None)
        streaming.fit(model, (X, LABELS), checkpoint=tmp_path, progress=lambda report: labels.append(report.label))
        return model, labels

    first, second = run(), run()
    assert first[1]
    assert not second[1]
    np.testing.assert_array_equal(first[0].beta_, second[0].beta_)
    np.testing.assert_array_equal(first[0].predict_proba(X), second[0].predict_proba(X))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda: (fixed.ELMRegressor(C=2.0, random_state=0), (X, Y), {}), r"parameters C was 1\.0, is now 2\.0"),
        (lambda: (fixed.NKELMRegressor(C=1.0, random_state=0), (X, Y), {}), "model was .*ELMRegressor"),
        (lambda: (fixed.ELMRegressor(C=1.0, random_state=0), (X[:300], Y[:300]), {}), "source X shape was"),
        (lambda: (fixed.ELMRegressor(C=1.0, random_state=0), (X + 1, Y), {}), "source X crc was"),
        (lambda: (fixed.ELMRegressor(C=1.0, random_state=0), (X, Y), {"batch_rows": 50}), "batch_rows was 64"),
        (lambda: (fixed.ELMRegressor(C=1.0, random_state=0), (X, Y), {"preprocess": StandardScaler()}), "preprocess"),
    ],
    ids=["parameter", "model", "fewer rows", "other rows", "batches", "transformer"],
)
def test_a_checkpoint_of_something_else_is_refused_with_the_reason(change, reason, tmp_path):
    streaming.fit(fixed.ELMRegressor(C=1.0, random_state=0), (X, Y), batch_rows=64, checkpoint=tmp_path)
    model, source, options = change()
    with pytest.raises(CheckpointError, match=reason):
        streaming.fit(model, source, **{"batch_rows": 64, "checkpoint": tmp_path, **options})


def test_a_file_that_has_changed_is_refused_and_named(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
    table.to_parquet(tmp_path / "rows.parquet")
    options = {"target": "y", "checkpoint": tmp_path / "state"}
    streaming.fit(fixed.ELMRegressor(C=1.0, random_state=0), tmp_path / "rows.parquet", **options)
    table.assign(y=0.0).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(CheckpointError, match=r"rows\.parquet was"):
        streaming.fit(fixed.ELMRegressor(C=1.0, random_state=0), tmp_path / "rows.parquet", **options)


@pytest.mark.parametrize("given", [{"gamma": 0.5}, {}, {"gamma": 0.5, "cv": 3}], ids=["C", "C and width", "C, folds"])
def test_a_C_that_the_sums_of_all_rows_choose_is_not_sought_on_the_sample(given, monkeypatch):
    """It is that of a map that was begun with its own C, which another one replaced."""
    given = {"fit_intercept": True, **given}
    model = ulmus.NKELMRegressor(30, random_state=0, **given)
    monkeypatch.setattr(Tuner, "choose_C", None)
    streaming.fit(model, (X, Y), sample_rows=200, progress=False)
    C = np.array([trial.C for trial in model.tuning_.trials if trial.stage == "size"][-1])
    assert model.C_ in C
    given = {**given, "gamma": model.gamma_, "C": model.C_}
    again = ulmus.NKELMRegressor(30, landmarks=model.map_.landmarks_, **given).fit(X, Y)
    assert relative_error(model.predict(X), again.predict(X)) < 1e-8


def test_sums_choose_C_only_with_choose_true():
    steps = streaming.Steps(ulmus.NKELMRegressor(30, gamma=0.5, random_state=0))
    steps.begin(steps.read(X[:200], Y[:200]), oversize=True)
    summary = steps.summarise(steps.rows(X, Y))
    with pytest.raises(ValueError, match="choose=True"):
        steps.finish(summary)
    assert steps.finish(summary, choose=True).C_ > 0


@pytest.mark.parametrize("given", [{"max_hidden": 16}, {"n_hidden": 15}], ids=["size and C", "C"])
def test_digits_are_won_back_for_the_C_that_was_chosen(given):
    """Not for that of the sample: one correction then suffices, and rows are not gone over by QR."""
    one, passes = X[:, :1], []
    y = np.sin(3 * one[:, 0]) + 1e-6 * np.random.RandomState(0).normal(size=N)
    model = ulmus.ELMRegressor(slope=1.0, fit_intercept=True, random_state=0, **given)
    streaming.fit(model, (one, y), sample_rows=60, progress=lambda report: passes.append(report.label))
    assert set(passes) == {"survey", "sums", "correction-1"}
    Phi = model.map_.transform(one)
    A = np.vstack([Phi - Phi.mean(axis=0), np.eye(Phi.shape[1]) / np.sqrt(model.C_)])
    beta = np.linalg.lstsq(A, np.append(y - y.mean(), np.zeros(Phi.shape[1])), rcond=None)[0]
    assert relative_error(model.predict(one), A[:N] @ beta + y.mean()) < 1e-7

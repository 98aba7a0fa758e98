"""Bad input is refused with a message that says what was wrong; odd input simply works."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import ulmus
from data import classification, regression, relative_error, rows
from fixed import ELMClassifier, ELMRegressor, KELMClassifier, KELMRegressor, NKELMClassifier, NKELMRegressor
from ulmus import NystromMap, RandomLayer

REGRESSORS = [
    ELMRegressor(10, C=8.0, random_state=0),
    ELMRegressor(10, C=None, random_state=0),
    ELMRegressor(10, activation="gaussian", C=8.0, random_state=0),
    KELMRegressor(gamma=0.5, C=8.0),
    NKELMRegressor(10, gamma=0.5, C=8.0, random_state=0),
]
CLASSIFIERS = [
    ELMClassifier(10, C=8.0, random_state=0),
    KELMClassifier(gamma=0.5, C=8.0),
    NKELMClassifier(10, gamma=0.5, C=8.0, random_state=0),
]
MAPS = [RandomLayer(10, random_state=0), NystromMap(10, gamma=0.5, random_state=0)]
#: A warning with the number is welcome where rank or digits are lost; the tests below ask for answers.
quiet = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def named(model):
    return str(model).replace("\n", "")


regressors = pytest.mark.parametrize("model", REGRESSORS, ids=named)
classifiers = pytest.mark.parametrize("model", CLASSIFIERS, ids=named)
everyone = pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS + MAPS, ids=named)
models = pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=named)


def targets(n):
    """Good for regressors and classifiers alike."""
    return np.arange(n) % 2


# ---------------------------------------------------------------------------------------------------- refused: rows


def spoiled(value):
    X = rows(20, 3)
    X[7, 1] = value
    return X


BAD_ROWS = {
    "nan": (spoiled(np.nan), ValueError, "contains NaN"),
    "inf": (spoiled(np.inf), ValueError, "contains infinity"),
    "-inf": (spoiled(-np.inf), ValueError, "contains infinity"),
    "nan in csr": (sparse.csr_array(spoiled(np.nan)), ValueError, "contains NaN"),
    "one-dimensional": (rows(20, 1)[:, 0], ValueError, "Expected 2D array, got 1D array instead"),
    "three-dimensional": (np.zeros((20, 3, 2)), ValueError, "dim 3"),
    "complex": (rows(20, 3) * 1j, ValueError, "Complex data not supported"),
    "words": (np.array([["a", "b", "c"]] * 20, dtype=object), ValueError, "could not convert string to float: 'a'"),
    "no columns": (
        np.zeros((20, 0)),
        ValueError,
        r"0 feature\(s\) \(shape=\(20, 0\)\) while a minimum of 1 is required",
    ),
    "no rows": (np.zeros((0, 3)), ValueError, r"0 sample\(s\)"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
@everyone
def test_bad_rows_are_refused(model, case):
    X, error, message = BAD_ROWS[case]
    with pytest.raises(error, match=message):
        clone(model).fit(X, targets(X.shape[0]))


@pytest.mark.parametrize("case", [case for case in BAD_ROWS if case not in ("no columns", "three-dimensional")])
@everyone
def test_bad_rows_are_refused_at_prediction(model, case):
    X, error, message = BAD_ROWS[case]
    fitted = clone(model).fit(rows(30, 3), targets(30))
    with pytest.raises(error, match=message):
        (fitted.predict if hasattr(fitted, "predict") else fitted.transform)(X)


@everyone
def test_a_wrong_number_of_features_is_refused_with_both_numbers(model):
    fitted = clone(model).fit(rows(30, 3), targets(30))
    for X in (rows(5, 4), sparse.csr_array(rows(5, 4))):
        with pytest.raises(ValueError, match=r"X has 4 features, but .* is expecting 3 features"):
            (fitted.predict if hasattr(fitted, "predict") else fitted.transform)(X)


@everyone
def test_columns_of_words_in_a_frame_are_refused(model):
    frame = pd.DataFrame({"x": rows(20, 1)[:, 0], "name": ["elm"] * 20})
    with pytest.raises(ValueError, match="could not convert string to float: 'elm'"):
        clone(model).fit(frame, targets(20))


# ------------------------------------------------------------------------------------------------- refused: targets


@pytest.mark.parametrize(("value", "message"), [(np.nan, "contains NaN"), (np.inf, "contains infinity")])
@models
def test_bad_targets_are_refused(model, value, message):
    y = targets(20).astype(float)
    y[3] = value
    with pytest.raises(ValueError, match=message):
        clone(model).fit(rows(20, 3), y)


@models
def test_lengths_that_differ_are_refused_with_both_numbers(model):
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[20, 19\]"):
        clone(model).fit(rows(20, 3), targets(19))


@classifiers
def test_one_class_is_refused_by_name(model):
    with pytest.raises(ValueError, match=r"needs at least two classes.*one class, .*elm"):
        clone(model).fit(rows(20, 3), ["elm"] * 20)
    weight = (targets(20) == 1).astype(float)
    with pytest.raises(ValueError, match=r"positive weight.*one class"):
        clone(model).fit(rows(20, 3), targets(20), sample_weight=weight)


@classifiers
def test_continuous_labels_are_refused(model):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        clone(model).fit(rows(20, 3), rows(20, 1)[:, 0])


# ------------------------------------------------------------------------------------------------- refused: weights


BAD_WEIGHTS = {
    "all zero": (np.zeros(20), "at least one non-zero"),
    "negative": (np.r_[-1.0, np.ones(19)], "Negative values"),
    "nan": (np.r_[np.nan, np.ones(19)], "sample_weight contains NaN"),
    "too few": (np.ones(19), r"sample_weight.shape == \(19,\), expected \(20,\)"),
    "two columns": (np.ones((20, 2)), "1D array"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
@models
def test_bad_weights_are_refused(model, case):
    weight, message = BAD_WEIGHTS[case]
    with pytest.raises(ValueError, match=message):
        clone(model).fit(rows(20, 3), targets(20), sample_weight=weight)


# ---------------------------------------------------------------------------------------------- refused: parameters


@models
@pytest.mark.parametrize("C", [0, -3, -0.5, np.inf, np.nan, "large"])
def test_C_must_be_positive(model, C):
    with pytest.raises(ValueError, match=rf"'C' parameter of {type(model).__name__} must be .* Got {C!r} instead"):
        clone(model).set_params(C=C).fit(rows(20, 3), targets(20))


@pytest.mark.parametrize("model", [KELMRegressor(gamma=0.5), NKELMRegressor(10, gamma=0.5)], ids=named)
def test_a_kernel_model_needs_a_C(model):
    with pytest.raises(ValueError, match=r"'C' parameter of .* Got None instead"):
        clone(model).set_params(C=None).fit(rows(20, 3), targets(20))


BAD_OPTIONS = [
    ("n_hidden", [0, -1, 2.5, None, "many"], [RandomLayer(), ELMRegressor(C=8.0), ELMClassifier(C=8.0)]),
    ("n_landmarks", [0, -1, 2.5, None, "many"], [NystromMap(gamma=1.0), NKELMRegressor(gamma=1.0, C=8.0)]),
    ("rank", [0, 2.5], [NystromMap(gamma=1.0), NKELMRegressor(5, gamma=1.0, C=8.0)]),
    ("gamma", [0, -1.0, "wide"], [NystromMap(), KELMRegressor(C=8.0), NKELMRegressor(5, C=8.0)]),
    ("kernel", ["gauss", 3], [NystromMap(gamma=1.0), KELMRegressor(gamma=1.0, C=8.0)]),
    ("degree", [0, -1], [NystromMap(gamma=1.0), KELMRegressor(gamma=1.0, C=8.0)]),
    ("activation", ["sigmoidal", None], [RandomLayer(5), ELMRegressor(5, C=8.0)]),
    ("weights", ["gaussian", None], [RandomLayer(5), ELMRegressor(5, C=8.0)]),
    ("scale", [0, -1.0, "automatic"], [RandomLayer(5), ELMRegressor(5, C=8.0)]),
    ("slope", [0, -1.0], [RandomLayer(5), ELMRegressor(5, C=8.0)]),
]


@pytest.mark.parametrize(
    ("name", "value", "model"),
    [(name, value, model) for name, values, models_ in BAD_OPTIONS for value in values for model in models_],
    ids=lambda v: named(v) if hasattr(v, "fit") else None,
)
def test_bad_parameters_are_refused_by_name_and_value(name, value, model):
    with pytest.raises(ValueError, match=rf"'{name}' parameter of {type(model).__name__} must be .* Got {value!r}"):
        clone(model).set_params(**{name: value}).fit(rows(20, 3), targets(20))


@pytest.mark.parametrize("family", [KELMRegressor, NKELMRegressor])
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda A, B: np.ones((len(A), len(B) + 1)), r"must return an array of shape \(len\(X\), len\(Z\)\)"),
        (lambda A, B: np.ones(len(A)), "must return an array of shape"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "returned NaN or infinity"),
    ],
)
def test_a_callable_kernel_with_a_wrong_answer_is_refused(family, kernel, message):
    with pytest.raises(ValueError, match=message):
        family(kernel=kernel, C=8.0).fit(rows(20, 3), targets(20))


def test_inner_product_kernels_of_zero_rows_are_refused_with_the_reason():
    with pytest.raises(ValueError, match="no landmark has a positive kernel value with itself"):
        NystromMap(5, kernel="linear").fit(np.zeros((20, 3)))


# ---------------------------------------------------------------------------------------------------- simply works


@quiet
@models
def test_more_nodes_or_landmarks_than_rows(model):
    X, y = rows(6, 3), targets(6)
    size = {"n_hidden": 50} if hasattr(model, "n_hidden") else {"n_landmarks": 50} if "NKELM" in named(model) else {}
    fitted = clone(model).set_params(**size).fit(X, y)
    assert fitted.score(X, y) > 0.5
    if "NKELM" in named(model):
        assert fitted.n_landmarks_ <= 6


@quiet
@models
def test_constant_features_change_little_or_nothing(model):
    X, _ = regression(60)
    y = (X[:, 0] > 0).astype(int)
    padded = np.column_stack([X, np.full(60, 3.0), np.zeros(60), np.full(60, 0.1)])
    fitted = clone(model).fit(padded, y)
    assert np.isfinite(fitted.predict(padded).astype(float)).all()
    if isinstance(model, ulmus.KELMRegressor | ulmus.KELMClassifier):
        assert relative_error(fitted.predict(padded), clone(model).fit(X, y).predict(X)) < 1e-10


@quiet
@models
def test_rows_that_are_all_the_same(model):
    X, y = np.full((20, 3), 0.7), targets(20)
    predicted = clone(model).fit(X, y).predict(X)
    assert len(set(predicted)) == 1
    if isinstance(model, tuple(map(type, REGRESSORS))):
        assert predicted[0] == pytest.approx(0.5, abs=0.05)


@quiet
@models
def test_duplicate_rows(model):
    X, y = rows(30, 3), targets(30)
    fitted = clone(model).fit(np.vstack([X] * 5), np.tile(y, 5))
    C = None if model.C is None else 5 * model.C
    once = clone(model).set_params(C=C).fit(X, y)
    assert relative_error(fitted.predict(X), once.predict(X)) < 1e-8


@quiet
@regressors
def test_a_single_row(model):
    X, T = rows(1, 3), np.array([2.0])
    fitted = clone(model).fit(X, T)
    assert fitted.predict(X) == pytest.approx(2.0, rel=0.2)
    assert np.isfinite(fitted.predict(rows(5, 3, seed=1))).all()


@quiet
@regressors
def test_a_single_column(model):
    X, T = regression(50, m=1)
    assert clone(model).fit(X, T).score(X, T) > 0.5


@quiet
@pytest.mark.parametrize("model", [ELMRegressor(40, C=1024.0, random_state=0)], ids=named)
def test_features_of_scales_that_differ_by_twelve_powers_of_ten_all_count(model):
    X = rows(300, 2)
    T = np.sin(X[:, 0]) + np.cos(X[:, 1])
    assert clone(model).fit(X * [1e-6, 1e6], T).score(X * [1e-6, 1e6], T) > 0.95


@quiet
@models
def test_features_of_very_different_scales_give_finite_answers(model):
    X, y = rows(60, 3) * [1e-6, 1.0, 1e6], targets(60)
    assert np.isfinite(clone(model).fit(X, y).predict(X).astype(float)).all()


HUGE = [
    *REGRESSORS,
    *CLASSIFIERS,
    *(
        KELMRegressor(kernel=k, gamma=0.5, C=8.0)
        for k in ("linear", "poly", "sigmoid", "cosine", "arcsine", "matern32")
    ),
    *(NKELMRegressor(10, kernel=k, gamma=0.5, C=8.0, random_state=0) for k in ("linear", "poly", "laplacian_l1")),
    ELMRegressor(10, activation="relu", scale=1.0, C=8.0, random_state=0),
    ELMRegressor(10, activation="mexican_hat", scale=1.0, C=8.0, random_state=0),
    ELMRegressor(10, direct_links=True, scale=1.0, C=8.0, random_state=0),
    ELMRegressor(10, activation="identity", scale=1.0, C=None, random_state=0),
]


@quiet
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the answer is what is asked for here
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("size", [1e20, 1e150, 1e300])
@pytest.mark.parametrize("model", HUGE, ids=named)
def test_huge_values_give_a_finite_answer_or_an_error_that_says_so(model, size, kind):
    X, y = kind(size * rows(30, 3)), targets(30)
    try:
        predicted = clone(model).fit(X, y).predict(X)
    except (ValueError, np.linalg.LinAlgError) as error:
        assert "overflow" in str(error) or "too large" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(predicted.astype(float)).all()


@quiet
@everyone
def test_huge_values_at_prediction_give_a_finite_answer_or_an_error_that_says_so(model):
    fitted = clone(model).fit(rows(30, 3), targets(30))
    for X in (1e150 * rows(10, 3), 1e300 * rows(10, 3), (1e30 * rows(10, 3)).astype(np.float32)):
        try:
            answer = (fitted.predict if hasattr(fitted, "predict") else fitted.transform)(X)
        except ValueError as error:
            assert "overflow" in str(error)  # noqa: PT017
        else:
            assert np.isfinite(answer.astype(float)).all()


@quiet
@classifiers
def test_a_class_with_one_sample_is_learnt(model):
    X, y = classification(40, classes=2)
    X, y = np.vstack([X, [[9.0, 9.0, 9.0]]]), np.r_[y, 7]
    fitted = clone(model).set_params(class_weight="balanced", C=1024.0).fit(X, y)
    assert list(fitted.classes_) == [0, 1, 7]
    if not isinstance(model, ulmus.NKELMClassifier):  # whose landmarks may not reach it
        assert fitted.predict(X[-1:])[0] == 7


@models
def test_good_input_causes_no_warning(model):
    X, y = rows(200, 3), targets(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).fit(X, y, sample_weight=np.linspace(0.5, 2, 200)).predict(X)

"""Several labels a row: every label is a problem of two classes, and all of them are solved at once."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import hamming_loss, log_loss
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.preprocessing import StandardScaler

import ulmus
from ulmus import AdaptiveClassifier, ELMClassifier, KELMClassifier, NKELMClassifier, OSELMClassifier, streaming
from ulmus.scores import scores

X, Y = make_multilabel_classification(500, 8, n_classes=4, n_labels=2, random_state=0)
X = StandardScaler().fit_transform(X)
TRAIN, TEST = slice(0, 350), slice(350, None)
GIVEN = [
    ELMClassifier(60, slope=0.5, C=1.0, random_state=0),
    KELMClassifier(gamma=0.05, C=3.0),
    NKELMClassifier(80, gamma=0.05, C=3.0, random_state=0),
]
ADAPTIVE = AdaptiveClassifier(loss="squared", effort="fast", random_state=0)
OPEN = [ELMClassifier(random_state=0), KELMClassifier(random_state=0), NKELMClassifier(random_state=0), ADAPTIVE]
names = lambda model: type(model).__name__  # noqa: E731


@pytest.mark.parametrize("model", GIVEN, ids=names)
def test_every_label_is_the_model_of_two_classes_that_it_would_be_alone(model):
    model.fit(X[TRAIN], Y[TRAIN])
    together, chances = model.decision_function(X[TEST]), model.predict_proba(X[TEST])
    assert together.shape == chances.shape == (150, 4)
    for k in range(4):
        alone = type(model)(**model.get_params()).fit(X[TRAIN], Y[TRAIN, k])
        np.testing.assert_allclose(together[:, k], alone.decision_function(X[TEST]), atol=1e-8)
        np.testing.assert_allclose(chances[:, k], alone.predict_proba(X[TEST])[:, 1], atol=1e-6)
        assert model.temperature_[k] == pytest.approx(alone.temperature_, rel=1e-4)


@pytest.mark.parametrize("model", OPEN, ids=names)
def test_a_model_without_arguments_beats_the_shares_of_the_labels(model):
    model.fit(X[TRAIN], Y[TRAIN])
    predicted = model.predict(X[TEST])
    assert predicted.shape == Y[TEST].shape
    assert set(np.unique(predicted)) <= {0, 1}
    np.testing.assert_array_equal(predicted, model.predict_proba(X[TEST]) > 0.5)
    usual = np.broadcast_to(Y[TRAIN].mean(axis=0) > 0.5, Y[TEST].shape)
    assert hamming_loss(Y[TEST], predicted) < 0.8 * hamming_loss(Y[TEST], usual)
    assert model.score(X[TEST], Y[TEST]) == (predicted == Y[TEST]).all(axis=1).mean()
    for k in range(4):
        share = np.full(150, Y[TRAIN, k].mean())
        assert log_loss(Y[TEST, k], model.predict_proba(X[TEST])[:, k]) < log_loss(Y[TEST, k], share)


def test_parameters_are_chosen_by_the_mean_loss_of_the_labels():
    model = NKELMClassifier(60, gamma=0.05, criterion="squared", random_state=0).fit(X[TRAIN], Y[TRAIN])
    T, trial = 2.0 * Y[TRAIN] - 1, model.tuning_.trials[-1]
    Phi = model.map_.transform(X[TRAIN])
    for C, loss in zip(trial.C[::9], trial.loss[::9], strict=True):
        G = Phi.T @ Phi + np.eye(Phi.shape[1]) / C
        hat = Phi @ np.linalg.solve(G, Phi.T)
        left_out = T - (T - hat @ T) / (1 - np.diag(hat))[:, None]
        assert loss == pytest.approx(((left_out - T) ** 2).mean(), rel=1e-6)


@pytest.mark.parametrize("make", [sparse.csr_matrix, lambda y: y.astype(bool), lambda y: y.tolist(), pd.DataFrame])
def test_how_the_matrix_comes_does_not_matter(make):
    expected = GIVEN[2].fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST])
    found = NKELMClassifier(**GIVEN[2].get_params()).fit(X[TRAIN], make(Y[TRAIN])).predict_proba(X[TEST])
    np.testing.assert_array_equal(found, expected)


def test_labels_have_the_names_of_the_columns():
    frame = pd.DataFrame(Y[TRAIN], columns=["sea", "sun", "sand", "wind"])
    model = KELMClassifier(gamma=0.05, C=3.0).fit(X[TRAIN], frame)
    assert model.classes_.tolist() == ["sea", "sun", "sand", "wind"]
    assert model.explain(X[:3], X[:10]).output_names == ["sea", "sun", "sand", "wind"]
    told = str(model.summary())
    assert "labels right" in told
    assert "4: sea, sun, sand, wind" in told


@pytest.mark.parametrize("model", GIVEN, ids=names)
def test_weights_are_copies(model):
    count = np.random.RandomState(0).randint(0, 4, 350)
    weighed = type(model)(**model.get_params()).fit(X[TRAIN], Y[TRAIN], sample_weight=count)
    copied = type(model)(**model.get_params()).fit(
        np.repeat(X[TRAIN], count, axis=0), np.repeat(Y[TRAIN], count, axis=0)
    )
    np.testing.assert_allclose(weighed.decision_function(X[TEST]), copied.decision_function(X[TEST]), atol=1e-7)


def test_a_label_that_all_rows_have_is_certain_but_for_what_rows_can_tell():
    constant = np.column_stack([Y[TRAIN, :2], np.ones(350, int)])
    with pytest.warns(ulmus.NumericalWarning):
        model = NKELMClassifier(30, gamma=0.05, C=3.0, random_state=0).fit(X[TRAIN], constant)
    assert (model.predict(X[TEST])[:, 2] == 1).all()
    assert (model.predict_proba(X[TEST])[:, 2] > 0.95).all()


@pytest.mark.parametrize("model", [GIVEN[2], ADAPTIVE], ids=names)
def test_models_are_saved_scored_and_searched(tmp_path, model):
    model = clone(model).fit(X[TRAIN], Y[TRAIN])
    ulmus.save(model, tmp_path / "labels.ulmus")
    again = ulmus.load(tmp_path / "labels.ulmus")
    np.testing.assert_array_equal(again.predict_proba(X[TEST]), model.predict_proba(X[TEST]))
    found = scores(model, X[TEST], Y[TEST])
    assert found[0].value == 1 - hamming_loss(Y[TEST], model.predict(X[TEST]))
    assert found[1].value == model.score(X[TEST], Y[TEST])
    area = cross_val_score(model, X[TRAIN], Y[TRAIN], cv=3, scoring="roc_auc")
    assert (area > 0.7).all()
    assert model.is_far(X[TEST] + 50).all()


def test_what_is_for_one_label_a_row_is_refused(tmp_path):
    model = NKELMClassifier(30, gamma=0.05, C=3.0, random_state=0).fit(X[TRAIN], Y[TRAIN])
    asked = {
        "predict_set": lambda: model.predict_set(X),
        "partial_fit": lambda: model.partial_fit(X, Y),
        "unlearn": lambda: model.unlearn(X[:5], Y[:5]),
        "value of rows": lambda: model.row_values(X[TRAIN], Y[TRAIN]),
        "counterfactuals": lambda: model.counterfactuals(X[:1], X, target=1),
        "report": lambda: ulmus.report(model, X, Y, tmp_path / "page.html"),
        "ONNX": lambda: ulmus.onnx.export(model, tmp_path / "labels.onnx"),
        "classifiers of streams": lambda: streaming.fit(NKELMClassifier(30, gamma=0.05, C=3.0), (X, Y)),
    }
    for what, ask in asked.items():
        with pytest.raises(ValueError, match=f"{what}.*single label per row"):
            ask()
    for wrong in ({"loss": "log"}, {"class_weight": "balanced"}, {"decision": "balanced"}):
        with pytest.raises(ValueError, match=f"multilabel targets need {next(iter(wrong))}="):
            NKELMClassifier(30, **wrong).fit(X, Y)
    with pytest.raises(ValueError, match=r"must hold 0 and 1 .*got \[0, 1, 2\]"):
        NKELMClassifier().fit(X, Y + Y[:, ::-1])


def test_an_adaptive_model_of_equal_labels_is_that_of_two_classes():
    """The view is shared by all labels, and equal labels choose the view that one of them would."""
    twice = np.column_stack([Y[TRAIN, 0], Y[TRAIN, 0]])
    model, alone = clone(ADAPTIVE).fit(X[TRAIN], twice), clone(ADAPTIVE).fit(X[TRAIN], Y[TRAIN, 0])
    np.testing.assert_allclose(*model.predict_proba(X[TEST]).T, rtol=1e-9)
    assert model.view_.kernel == alone.view_.kernel
    np.testing.assert_allclose(model.predict_proba(X[TEST])[:, 0], alone.predict_proba(X[TEST])[:, 1], atol=1e-6)


def test_adaptive_models_of_frames_name_their_labels():
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(a=np.where(X[:, 0] > 0, "high", "low"))
    labels = pd.DataFrame(Y, columns=["sea", "sun", "sand", "wind"])
    model = clone(ADAPTIVE).fit(frame[TRAIN], labels[TRAIN])
    assert "4: sea, sun, sand, wind" in str(model.summary())
    assert model.explain(frame[:2], frame[:10]).values.shape == (2, 8, 4)
    assert hamming_loss(Y[TEST], model.predict(frame[TEST])) < 0.3
    assert model.predict_proba(frame[TEST]).shape == (150, 4)
    with pytest.raises(ValueError, match=r'need loss="squared"; otherwise wrap it.*MultiOutputClassifier'):
        AdaptiveClassifier(effort="fast").fit(frame, labels)


@pytest.mark.parametrize(
    "model", [AdaptiveClassifier(effort="fast", random_state=0), OSELMClassifier(20, random_state=0)], ids=names
)
def test_models_for_one_label_a_row_say_how_to_have_several(model):
    with pytest.raises(ValueError, match="MultiOutputClassifier"):
        model.fit(X, Y)
    wrapped = MultiOutputClassifier(model).fit(X[TRAIN], Y[TRAIN, :2])
    assert hamming_loss(Y[TEST, :2], wrapped.predict(X[TEST])) < 0.3

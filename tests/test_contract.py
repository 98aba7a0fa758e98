"""Every estimator keeps scikit-learn's contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ulmus import (
    ENDA,
    KLDA,
    NNDA,
    ELMClassifier,
    ELMRegressor,
    ENDAEnsemble,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    NystromMap,
    OSELMClassifier,
    OSELMRegressor,
    RandomLayer,
    RobustELMRegressor,
    RobustNKELMRegressor,
)

ESTIMATORS = [
    RandomLayer(20),
    NystromMap(20),
    ELMRegressor(),
    ELMClassifier(),
    ELMRegressor(C=None, n_hidden=10),
    KELMRegressor(),
    KELMClassifier(),
    NKELMRegressor(),
    NKELMClassifier(),
    ENDA(),
    ENDA(features="nystrom", head="mean"),
    KLDA(),
    NNDA(20, max_iter=50),
    ENDAEnsemble(ENDA(20), n_members=3),
    OSELMRegressor(20),
    OSELMClassifier(20),
    OSELMRegressor(10, C=1.0, form="covariance"),
    RobustELMRegressor(),
    RobustNKELMRegressor(),
]


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)

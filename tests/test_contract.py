"""Every estimator keeps scikit-learn's contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ulmus import (
    ELMClassifier,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    NystromMap,
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
    RobustELMRegressor(),
    RobustNKELMRegressor(),
]


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)

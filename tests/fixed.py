"""The models with nothing left to choose: for tests that ask what a formula gives, not what the data prefer."""

import ulmus

LAYER = {"activation": "sigmoid", "slope": 1.0, "fit_intercept": False}
KERNEL = {"gamma": 1.0, "fit_intercept": False}


def ELMRegressor(n_hidden=20, **options):
    return ulmus.ELMRegressor(n_hidden, **{**LAYER, **options})


def ELMClassifier(n_hidden=20, **options):
    return ulmus.ELMClassifier(n_hidden, **{**LAYER, **options})


def KELMRegressor(**options):
    return ulmus.KELMRegressor(**{**KERNEL, **options})


def KELMClassifier(**options):
    return ulmus.KELMClassifier(**{**KERNEL, **options})


def NKELMRegressor(n_landmarks=20, **options):
    return ulmus.NKELMRegressor(n_landmarks, **{**KERNEL, **options})


def NKELMClassifier(n_landmarks=20, **options):
    return ulmus.NKELMClassifier(n_landmarks, **{**KERNEL, **options})

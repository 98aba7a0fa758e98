"""
Why this prediction? Shapley values
===================================

Shapley values of a kernel model are exact: the bars add up to the prediction. On the right every point is a patient.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ulmus import BeeswarmDisplay, KELMRegressor, WaterfallDisplay
from ulmus.explain import explain

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = make_pipeline(StandardScaler(), KELMRegressor(random_state=0)).fit(X[:400], y[:400])
reasons = explain(model, X[400:], background=X[:50])

figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
WaterfallDisplay.from_explanation(reasons, row=0, ax=axes[0])
BeeswarmDisplay.from_explanation(reasons, ax=axes[1])
plt.show()

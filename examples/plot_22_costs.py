"""
Errors with unequal costs
=========================

Missing an old abalone costs five times as much as a false alarm. ``decision`` turns the same probabilities into the
class of least expected cost, without a refit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.preprocessing import StandardScaler

from ulmus import NKELMClassifier, datasets

abalone = datasets.load("abalone")
X = StandardScaler().fit_transform(abalone.data)
y = np.where(abalone.target > 11, "old", "young")
model = NKELMClassifier(loss="log", max_landmarks=250, random_state=0).fit(X[:2000], y[:2000])
costs = np.array([[0, 5], [1, 0]])  # rows: the truth, columns: the answer; old, young

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, decision in zip(axes, ("accuracy", costs), strict=True):
    predicted = model.set_params(decision=decision).predict(X[3000:])
    paid = costs[(y[3000:] == "young").astype(int), (predicted == "young").astype(int)].sum()
    ConfusionMatrixDisplay.from_predictions(y[3000:], predicted, ax=ax, colorbar=False, cmap="Greens")
    ax.set_title(f"{'as few errors as possible' if isinstance(decision, str) else 'least cost'}: cost {paid}")
plt.show()

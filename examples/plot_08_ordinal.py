"""
Ordinal classification
======================

Ages of abalones in five classes: an ordinal model is off by fewer ranks than one that ignores the order.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.preprocessing import StandardScaler

from ulmus import NKELMClassifier, NKELMOrdinalClassifier, datasets

abalone = datasets.load("abalone")
y = np.searchsorted(np.quantile(abalone.target, [0.2, 0.4, 0.6, 0.8]), abalone.target)
X = StandardScaler().fit_transform(abalone.data)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), constrained_layout=True)
for ax, model in zip(axes, (NKELMOrdinalClassifier(random_state=0), NKELMClassifier(random_state=0)), strict=True):
    predicted = model.fit(X[:3000], y[:3000]).predict(X[3000:])
    ConfusionMatrixDisplay.from_predictions(y[3000:], predicted, ax=ax, colorbar=False, cmap="Greys")
    ax.set_title(f"{type(model).__name__}: mean rank error {np.abs(predicted - y[3000:]).mean():.3f}")
plt.show()

"""
Unlearning rows
===============

``unlearn`` removes rows from a fitted model. The result equals a model of the remaining rows to the last digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from ulmus import OSELMRegressor, datasets

abalone = datasets.load("abalone")
X = StandardScaler().fit_transform(abalone.data)
y = abalone.target
given = {"n_hidden": 100, "slope": 1.0, "scale": 1.0, "C": 100.0, "random_state": 0}
others = OSELMRegressor(**given).partial_fit(X[:3000], y[:3000])
model = OSELMRegressor(**given).partial_fit(X[:3000], y[:3000])
away = []
for start in range(3000, 4000, 100):
    block = slice(start, start + 100)
    model.partial_fit(X[block], y[block])
    learned = np.abs(model.predict(X[:500]) - others.predict(X[:500])).max()
    model.unlearn(X[block], y[block])
    away.append((learned, np.abs(model.predict(X[:500]) - others.predict(X[:500])).max()))

plt.figure(figsize=(7, 3.5), layout="constrained")
learned, unlearned = np.maximum(np.array(away), 1e-16).T
plt.semilogy(learned, "o-", color="tab:orange", label="100 rows learned")
plt.semilogy(unlearned, "s--", color="black", label="and unlearned")
plt.xlabel("block")
plt.ylabel("largest change of a prediction")
plt.legend()
plt.show()

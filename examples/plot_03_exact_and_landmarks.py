"""
How many landmarks are enough?
==============================

The age of abalones from 1,000 rows. With every row a landmark, NKELM equals the exact kernel model KELM; its error is
as low with far fewer.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from ulmus import KELMRegressor, NKELMRegressor, datasets

abalone = datasets.load("abalone")
X = StandardScaler().fit_transform(abalone.data)
y = abalone.target
known, new = slice(0, 1000), slice(1000, 3000)
exact = KELMRegressor(gamma=0.05, C=4.0).fit(X[known], y[known]).predict(X[new])
sizes = [5, 10, 20, 40, 80, 160, 320, 640, 1000]
models = [NKELMRegressor(L, gamma=0.05, C=4.0, random_state=0).fit(X[known], y[known]) for L in sizes]
predicted = [model.predict(X[new]) for model in models]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogx(sizes, [np.abs(p - y[new]).mean() for p in predicted], "o-", color="black", label="NKELM")
left.axhline(np.abs(exact - y[new]).mean(), color="gray", linestyle="--", label="KELM")
left.set(xlabel="landmarks", ylabel="mean absolute error, rings")
left.legend()
right.loglog(sizes, [np.abs(p - exact).max() for p in predicted], "o-", color="black")
right.set(xlabel="landmarks", ylabel="largest difference from KELM, rings")
plt.show()

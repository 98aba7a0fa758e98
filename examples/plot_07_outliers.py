"""
Robust regression with wrong targets
====================================

In one of ten abalones the rings are written with a zero too many. Least squares follows these rows; a robust loss
bounds what a single row can do.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import NKELMRegressor, RobustNKELMRegressor, datasets

abalone = datasets.load("abalone")
X = abalone.data[:400, [abalone.feature_names.index("Shell weight")]] * 10
y = abalone.target[:400].astype(float)
wrong = np.random.RandomState(0).permutation(400)[:40]
y[wrong] *= 10
grid = np.linspace(X.min(), X.max(), 300)[:, None]
robust = RobustNKELMRegressor(random_state=0).fit(X, y)
plain = NKELMRegressor(random_state=0).fit(X, y)
clean = NKELMRegressor(random_state=0).fit(np.delete(X, wrong, axis=0), np.delete(y, wrong))

plt.figure(figsize=(8, 4), layout="constrained")
plt.plot(X, y, ".", color="lightgray")
plt.plot(grid, clean.predict(grid), color="gray", linewidth=4, alpha=0.5, label="without the wrong rows")
plt.plot(grid, plain.predict(grid), color="tab:orange", label="squared loss")
plt.plot(grid, robust.predict(grid), "--", color="black", label="robust loss")
plt.ylim(0, 60)
plt.xlabel("shell weight")
plt.ylabel("rings")
plt.legend()
plt.show()

# %%
# Of the forty rows with the largest outlier scores, so many have wrong targets:
found = np.argsort(-robust.outlier_scores(X, y))[:40]
print(f"{np.isin(found, wrong).sum()} of 40")

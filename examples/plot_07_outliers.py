"""
Two gross outliers
==================

Ridge regression bends towards them; a robust loss bounds what one row can do.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import NKELMRegressor, RobustNKELMRegressor, datasets

X, y = datasets.make_sinc(300, noise=0.1, outliers=True, random_state=0)
grid = np.linspace(-15, 15, 500)[:, None]
robust = RobustNKELMRegressor(random_state=0).fit(X, y)
plain = NKELMRegressor(random_state=0).fit(X, y)

plt.figure(figsize=(8, 4))
plt.plot(X, y, ".", color="lightgray")
plt.plot(grid, datasets.sinc(grid), color="gray", linewidth=4, alpha=0.5, label="sin(x)/x")
plt.plot(grid, plain.predict(grid), "-", color="tab:orange", label="squared loss")
plt.plot(grid, robust.predict(grid), "--", color="black", label="robust loss")
plt.legend()
plt.show()

# %%
# The rows that stand out most:
worst = np.argsort(-robust.outlier_scores(X, y))[:2]
print(X[worst, 0], y[worst])

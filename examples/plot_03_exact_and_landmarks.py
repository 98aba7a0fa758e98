"""
How many landmarks are enough?
==============================

With as many landmarks as rows NKELM equals KELM; long before that it is as good.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import KELMRegressor, NKELMRegressor, datasets

X, y = datasets.make_sinc(400, random_state=0)
X_test = np.linspace(-15, 15, 500)[:, None]
exact = KELMRegressor(gamma=0.5, C=100.0).fit(X, y).predict(X_test)
sizes = [5, 10, 20, 40, 80, 160, 320, 400]
models = [NKELMRegressor(L, gamma=0.5, C=100.0, random_state=0).fit(X, y) for L in sizes]
away = [np.abs(model.predict(X_test) - exact).max() for model in models]
left = [model.residual_kernel(X_test).max() for model in models]

plt.figure(figsize=(7, 4))
plt.loglog(sizes, np.maximum(away, 1e-15), "o-", color="black", label="largest distance to KELM")
plt.loglog(sizes, np.maximum(left, 1e-15), "s--", color="tab:blue", label="largest residual kernel")
plt.xlabel("landmarks")
plt.legend()
plt.show()

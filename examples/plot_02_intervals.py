"""
Intervals that widen away from the data
=======================================

Two kinds of uncertainty from one fit: intervals for new targets from leave-one-out residuals, and the deviation of the
Gaussian process whose mean the model is.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import NKELMRegressor, datasets

X, y = datasets.make_sinc(200, noise=0.1, random_state=0)
inside = np.abs(X[:, 0]) < 10
model = NKELMRegressor(random_state=0).fit(X[inside], y[inside])
grid = np.linspace(-20, 20, 400)[:, None]
mean, deviation = model.predict(grid, return_std=True)
low, high = model.predict_interval(grid, coverage=0.9).T

plt.figure(figsize=(8, 4))
plt.fill_between(
    grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, color="tab:blue", alpha=0.15, label="±2 deviations"
)
plt.plot(grid, low, "--", color="gray", label="90 % interval")
plt.plot(grid, high, "--", color="gray")
plt.plot(grid, mean, color="black", label="prediction")
plt.plot(X[inside], y[inside], ".", color="tab:orange", label="rows")
plt.ylim(-1.5, 2)
plt.legend()
plt.show()

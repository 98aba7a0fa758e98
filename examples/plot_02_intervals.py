"""
Prediction intervals that widen away from the data
==================================================

The acceleration of a helmet after an impact; the model has seen the first 40 ms. One fit gives intervals for new
measurements, from leave-one-out errors, and the standard deviation of the curve itself. Both grow where there are no
rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import NKELMRegressor, datasets

helmet = datasets.load("mcycle")
seen = helmet.data[:, 0] < 40
X, y = helmet.data / 10, helmet.target
model = NKELMRegressor(random_state=0).fit(X[seen], y[seen])
grid = np.linspace(0, 7, 400)[:, None]
mean, deviation = model.predict(grid, return_std=True)
low, high = model.predict_interval(grid, coverage=0.9, method="plain").T

plt.figure(figsize=(8, 4), layout="constrained")
band = {"color": "tab:blue", "alpha": 0.15, "label": "±2 standard deviations"}
plt.fill_between(10 * grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, **band)
plt.plot(10 * grid, low, "--", color="gray", label="90 % interval")
plt.plot(10 * grid, high, "--", color="gray")
plt.plot(10 * grid, mean, color="black", label="prediction")
plt.plot(10 * X[seen], y[seen], ".", color="tab:orange", label="training rows")
plt.xlabel("milliseconds")
plt.ylabel("acceleration, g")
plt.legend()
plt.show()

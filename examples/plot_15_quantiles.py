"""
Quantile regression
===================

Accelerations of a helmet after an impact: calm at first, then wild. A quantile loss fits the 5th, 50th and 95th
percentiles directly; held-out predictions calibrate them.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import NKELMRegressor, datasets

helmet = datasets.load("mcycle")
levels = (0.05, 0.5, 0.95)
model = NKELMRegressor(loss="quantile", quantiles=levels, random_state=0).fit(helmet.data, helmet.target)
grid = np.linspace(helmet.data.min(), helmet.data.max(), 300)[:, None]
low, middle, high = model.predict_quantiles(grid, levels).T

plt.figure(figsize=(8, 4))
plt.fill_between(grid[:, 0], low, high, color="tab:green", alpha=0.2, label="5 % to 95 %")
plt.plot(grid, middle, color="black", label="median")
plt.plot(helmet.data, helmet.target, ".", color="gray")
plt.xlabel("milliseconds after the impact")
plt.ylabel("acceleration, g")
plt.legend()
plt.show()

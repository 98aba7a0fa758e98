"""
Random layers: the slope matters more than the number of nodes
==============================================================

The same 100 random nodes with three slopes, and the slope that leave-one-out chooses.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import ELMRegressor, datasets

X, y = datasets.make_sinc(300, noise=0.05, random_state=0)
grid = np.linspace(-15, 15, 400)[:, None]
figure, axes = plt.subplots(1, 4, figsize=(14, 3.2), sharey=True, constrained_layout=True)
for ax, slope in zip(axes, (0.5, 4.0, 40.0, "auto"), strict=True):
    model = ELMRegressor(100, slope=slope, random_state=0).fit(X, y)
    ax.plot(X, y, ".", color="lightgray")
    ax.plot(grid, model.predict(grid), color="black")
    ax.set_title(f"slope {slope}" if slope != "auto" else f'slope "auto": {model.slope_:.2g}')
plt.show()

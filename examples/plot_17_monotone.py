"""
Monotonic constraints
=====================

A heavier shell does not make an abalone younger. ``monotonic_cst`` enforces this, even where rows are few.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import NKELMRegressor, datasets

abalone = datasets.load("abalone")
shell = abalone.data[:150, [list(abalone.feature_names).index("Shell weight")]]
rings = abalone.target[:150]
grid = np.linspace(shell.min(), shell.max(), 300)[:, None]

plt.figure(figsize=(8, 4))
plt.plot(shell, rings, ".", color="lightgray")
for direction, style in ((0, "--"), (1, "-")):
    model = NKELMRegressor(gamma=20.0, monotonic_cst=[direction], random_state=0).fit(shell, rings)
    plt.plot(grid, model.predict(grid), style, color="black", label=["free", "must not fall"][direction])
plt.xlabel("weight of the shell")
plt.ylabel("rings")
plt.legend()
plt.show()

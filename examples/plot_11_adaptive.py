"""
A metric that is learned
========================

Two of five features matter. The adaptive model finds them, and its local stage catches the fine structure that a
global model of 500 landmarks misses.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import AdaptiveRegressor, NKELMRegressor

rng = np.random.RandomState(0)
X = rng.uniform(-1, 1, (6000, 5))
y = X[:, 0] + X[:, 1] ** 2 + 0.7 * np.sign(np.sin(25 * X[:, 0]) * np.sin(25 * X[:, 1])) + 0.05 * rng.normal(size=6000)
adaptive = AdaptiveRegressor(effort="fast", random_state=0).fit(X[:5000], y[:5000])
plain = NKELMRegressor(max_landmarks=500, random_state=0).fit(X[:5000], y[:5000])
for name, model in (("adaptive", adaptive), ("plain", plain)):
    print(f"{name}: R² = {model.score(X[5000:], y[5000:]):.3f}")

plt.figure(figsize=(6, 3.5))
plt.bar(range(5), adaptive.feature_importances_, color="gray", edgecolor="black")
plt.xlabel("feature")
plt.ylabel("importance")
plt.show()

"""
Counterfactuals: what would have to change?
===========================================

The nearest patient of the same age for whom the model would predict less than 120, and how far that is in standard
deviations of each column.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from ulmus import AdaptiveRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
patient = X.iloc[[int(np.argmin(np.abs(model.predict(X) - 160)))]]
other = model.counterfactuals(patient, X, threshold=120, fixed=["age"])
print(f"{model.predict(patient)[0]:.0f} becomes {model.predict(other)[0]:.0f}")

steps = (np.asarray(other, float)[0] - patient.to_numpy()[0]) / X.std().to_numpy()
plt.figure(figsize=(6, 3.5), layout="constrained")
plt.barh(X.columns, steps, color=np.where(steps < 0, "tab:green", "tab:orange"))
plt.axvline(0, color="black", linewidth=1)
plt.xlabel("change, in deviations of the column")
plt.show()

"""
Finding mislabelled rows
========================

``row_values`` measures what each training row does for the predictions of the others, in closed form. Twenty of 600
labels were replaced here; nearly all of them have the lowest values.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from ulmus import KELMClassifier, datasets

segment = datasets.load("image_segmentation")
rng = np.random.RandomState(0)
rows = rng.permutation(len(segment.target))[:600]
X, y = StandardScaler().fit_transform(segment.data[rows]), segment.target[rows].copy()
flipped = np.arange(20)
y[flipped] = rng.choice(np.unique(y), 20)
flipped = flipped[y[flipped] != segment.target[rows[flipped]]]

values = KELMClassifier(random_state=0).fit(X, y).row_values(X, y)
order = np.argsort(values)
found = np.cumsum(np.isin(order, flipped))

plt.figure(figsize=(6, 3.5), layout="constrained")
plt.plot(np.arange(1, 101), found[:100], color="black", label="by row_values")
plt.plot([0, 100], [0, 100 * len(flipped) / 600], "--", color="gray", label="by chance")
plt.xlabel("rows looked at")
plt.ylabel(f"mislabelled rows found, of {len(flipped)}")
plt.legend()
plt.show()

"""
A learned metric
================

Seven kinds of surfaces from 19 measurements of image segments. The adaptive model takes them in their own units and
learns which of them matter; the plain kernel model needs them scaled.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from ulmus import AdaptiveClassifier, NKELMClassifier, datasets

segment = datasets.load("image_segmentation")
rows = np.random.RandomState(0).permutation(len(segment.target))
known, new = rows[:1000], rows[1000:]
X, y = segment.data, segment.target
adaptive = AdaptiveClassifier(effort="fast", random_state=0).fit(X[known], y[known])
scaler = StandardScaler().fit(X[known])
plain = NKELMClassifier(max_landmarks=500, random_state=0).fit(scaler.transform(X[known]), y[known])
print(f"adaptive: {adaptive.score(X[new], y[new]):.3f}")
print(f"NKELM: {plain.score(scaler.transform(X[new]), y[new]):.3f}")

order = np.argsort(adaptive.feature_importances_)[-10:]
plt.figure(figsize=(6, 3.5), layout="constrained")
plt.barh(np.array(segment.feature_names)[order], adaptive.feature_importances_[order], color="tab:green")
plt.xlabel("importance")
plt.show()

"""
Out-of-distribution rows
========================

A classifier of digits that has never seen a zero or a one must still predict something. ``is_far`` flags such rows
without knowing their labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from ulmus import NKELMClassifier, datasets

pens = datasets.load("pendigits")
X, y = pens.data / 100, pens.target
known = np.flatnonzero(y >= 2)[:2000]
new = np.arange(len(y) - 3000, len(y))
scaler = StandardScaler().fit(X[known])
model = NKELMClassifier(max_landmarks=500, random_state=0).fit(scaler.transform(X[known]), y[known])
far = model.is_far(scaler.transform(X[new]), rate=0.05)

digits = np.unique(y)
plt.figure(figsize=(6, 3.5), layout="constrained")
plt.bar(digits, [far[y[new] == digit].mean() for digit in digits], color=["tab:orange"] * 2 + ["lightgray"] * 8)
plt.axhline(0.05, color="black", linestyle="--", label="of digits like those of the training: 5 %")
plt.xticks(digits)
plt.xlabel("digit (zero and one were not in the training rows)")
plt.ylabel("share called far")
plt.legend()
plt.show()

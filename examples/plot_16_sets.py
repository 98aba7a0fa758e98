"""
Prediction sets: one class where it is clear, several where it is not
=====================================================================

``predict_set(X, coverage=0.95)`` lists the plausible classes of a row; the true one is among them for 95 % of new rows.
Here: kinds of soil, seen by a satellite.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from ulmus import NKELMClassifier, datasets

satimage = datasets.load("satimage")
(X, y), (X_new, y_new) = satimage.train, satimage.test
scaler = StandardScaler().fit(X)
model = NKELMClassifier(max_landmarks=500, random_state=0).fit(scaler.transform(X), y)
sets = model.predict_set(scaler.transform(X_new), coverage=0.95)
inside = sets[np.arange(len(y_new)), np.searchsorted(model.classes_, y_new)]
print(f"the true class is in the set of {inside.mean():.1%} of the rows")

sizes = sets.sum(axis=1)
wrong = model.predict(scaler.transform(X_new)) != y_new
counts = np.unique(sizes)
plt.figure(figsize=(6, 3.5), layout="constrained")
plt.bar(counts, [np.mean(sizes == k) for k in counts], color="lightgray", label="share of rows")
plt.plot(counts, [wrong[sizes == k].mean() for k in counts], "o-", color="black", label="share wrong among them")
plt.xticks(counts)
plt.xlabel("classes in the set")
plt.legend()
plt.show()

"""
Concept drift: forgetting old rows
==================================

The concept makes half a turn while 10,000 rows arrive. A learner that forgets follows it.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import OSELMClassifier, datasets

X, y = datasets.make_drift(10_000, random_state=0)
plt.figure(figsize=(8, 4))
for forgetting, style in ((1.0, "-"), (0.999, "--")):
    model = OSELMClassifier(100, forgetting=forgetting, C=100.0, random_state=0)
    model.partial_fit(X[:100], y[:100], classes=[0, 1])
    wrong = []
    for start in range(100, len(X), 100):
        block = slice(start, start + 100)
        wrong.append(np.mean(model.predict(X[block]) != y[block]))
        model.partial_fit(X[block], y[block])
    rolling = np.convolve(wrong, np.ones(5) / 5, mode="valid")
    plt.plot(100 * np.arange(len(rolling)), rolling, style, color="black", label=f"forgetting {forgetting}")
plt.xlabel("rows seen")
plt.ylabel("error on the next rows")
plt.legend()
plt.show()

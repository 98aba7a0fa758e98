"""
A raw data frame, and which columns matter
==========================================

Text, categories and missing values go in as they are. ``summary()`` shows on one screen what was fitted, what was
chosen, the scores on held-out rows and the most important columns.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from ulmus import AdaptiveClassifier, datasets

abalone = datasets.load("abalone")
frame = pd.DataFrame(abalone.data, columns=abalone.feature_names)
frame["Sex"] = frame["Sex"].map({0: "male", 1: "female", 2: "infant"})
frame.loc[frame.index % 10 == 0, "Height"] = np.nan  # holes
old = np.where(abalone.target > 9, "old", "young")
model = AdaptiveClassifier(effort="fast", random_state=0).fit(frame[:2000], old[:2000])
print(model.summary())

# %%
# Importances are those of the learned metric: along which columns answers change.
order = np.argsort(model.feature_importances_)
plt.figure(figsize=(6, 3.5), layout="constrained")
plt.barh(frame.columns[order], model.feature_importances_[order], color="tab:green")
plt.title(f"{model.score(frame[3000:], old[3000:]):.0%} right on rows that it has not seen")
plt.show()

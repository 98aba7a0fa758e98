"""
Partial dependence and accumulated effects
==========================================

Partial dependence sets an input to a value in all rows; accumulated effects add up the changes of predictions near the
rows' own values. With correlated inputs (here the weights of one animal), only the second uses rows that exist.
"""

import matplotlib.pyplot as plt
import pandas as pd

from ulmus import AdaptiveRegressor, EffectsDisplay, datasets

abalone = datasets.load("abalone")
frame = pd.DataFrame(abalone.data, columns=abalone.feature_names)
model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame[:2000], abalone.target[:2000])

for kind in ("average", "accumulated"):
    EffectsDisplay.from_estimator(model, frame[:500], ["Shell weight", "Shucked weight"], kind=kind)
    plt.gcf().suptitle({"average": "partial dependence", "accumulated": "accumulated effects"}[kind])
plt.show()

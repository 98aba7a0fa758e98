"""
Automatic tuning: what was tried, and what was chosen
=====================================================

``NKELMClassifier()`` chooses the width of its kernel, the number of landmarks and the penalty C by exact leave-one-out.
``TuningDisplay`` shows what it tried.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import StandardScaler

from ulmus import NKELMClassifier, TuningDisplay, datasets

satimage = datasets.load("satimage")
X, y = satimage.train
scaler = StandardScaler().fit(X)
model = NKELMClassifier(random_state=0).fit(scaler.transform(X), y)
print(f"accuracy {model.score(scaler.transform(satimage.test[0]), satimage.test[1]):.3f}")
print(f"gamma = {model.gamma_:.3g}, C = {model.C_:.3g}, {model.n_landmarks_} landmarks")

# %%
# Stars mark the choice.
TuningDisplay.from_estimator(model)
plt.show()

"""
Are the probabilities calibrated?
=================================

``predict_proba`` is calibrated on leave-one-out scores: among rows that are given 80 %, about 80 % belong to the class.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.preprocessing import StandardScaler

from ulmus import NKELMClassifier, datasets

waveform = datasets.load("waveform21")
X = StandardScaler().fit_transform(waveform.data)
y = (waveform.target == 0).astype(int)
model = NKELMClassifier(random_state=0).fit(X[:3000], y[:3000])

CalibrationDisplay.from_predictions(y[3000:], model.predict_proba(X[3000:])[:, 1], n_bins=10, name="NKELMClassifier()")
plt.show()

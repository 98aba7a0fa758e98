"""
Classes in two dimensions
=========================

The digits of ten writers' pens, projected by linear discriminant analysis and by ENDA.
"""

import matplotlib.pyplot as plt
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from ulmus import ENDA, ProjectionDisplay, datasets

pendigits = datasets.load("pendigits")
X, y = StandardScaler().fit_transform(pendigits.data[:1500]), pendigits.target[:1500]
ProjectionDisplay.compare(
    X,
    y,
    {
        "linear discriminant analysis": LinearDiscriminantAnalysis(n_components=2),
        "ENDA": ENDA(300, n_components=2, random_state=0),
    },
    s=10,
)
plt.show()

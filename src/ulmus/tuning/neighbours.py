"""What nearest neighbours tell of targets, whatever the model (the delta test)."""

import numpy as np


def told_by_neighbours(X: np.ndarray, T: np.ndarray) -> float:
    r"""Share of the targets' variance that rows and their nearest neighbours have in common.

    Half the mean square of :math:`t_i - t_{n(i)}` is about the variance of the noise where the function hardly moves
    between neighbours, and the variance of the targets where it moves much, or where there is none.
    """
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=1).fit(X).kneighbors(return_distance=False)[:, 0]
    variance = float(((T - T.mean(axis=0)) ** 2).mean())
    return 1 - float(((T - T[nearest]) ** 2).mean()) / (2 * variance) if variance > 0 else 0.0

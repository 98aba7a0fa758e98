"""The random hidden layer."""

from collections.abc import Callable
from math import isfinite
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ulmus import engine
from ulmus._sklearn import StrOptions, check_sample_weight, fit_context
from ulmus.features.activations import ACTIVATIONS
from ulmus.features.kernels import DISTANCE, CrossKernel, KernelParameters, dense
from ulmus.features.sampling import distinct_rows
from ulmus.parameters import AUTO, COUNT, POSITIVE, THREADS, Parameter, Parameters, estimator

#: Rows from which centres and widths of radial nodes are drawn, at most.
CENTRE_ROWS = 2**15

Draw = Callable[[np.random.RandomState, int, int], np.ndarray]


def _orthogonal(rng: np.random.RandomState, n_nodes: int, m: int) -> np.ndarray:
    """Blocks of m mutually orthogonal rows, each of squared norm m."""
    blocks = []
    for _ in range(-(-n_nodes // m)):
        Q, R = np.linalg.qr(rng.standard_normal((m, m)))
        blocks.append((Q * np.sign(np.diag(R))).T * np.sqrt(m))
    return np.concatenate(blocks)[:n_nodes]


def _uniform(rng: np.random.RandomState, n_nodes: int, m: int) -> np.ndarray:
    return rng.uniform(-1, 1, (n_nodes, m))


def _uniform01(rng: np.random.RandomState, n_nodes: int, m: int) -> np.ndarray:
    return rng.uniform(0, 1, (n_nodes, m))


def _normal(rng: np.random.RandomState, n_nodes: int, m: int) -> np.ndarray:
    return rng.standard_normal((n_nodes, m))


#: How weights and biases are drawn, and their root mean square. Rows are drawn node by node, so that the first l rows
#: do not depend on how many follow.
WEIGHTS: dict[str, tuple[Draw, Draw, float]] = {
    "uniform": (_uniform, _uniform, 1 / np.sqrt(3)),
    "uniform01": (_uniform01, _uniform01, 1 / np.sqrt(3)),
    "normal": (_normal, _normal, 1.0),
    "orthogonal": (_orthogonal, _normal, 1.0),
}

#: Slope from which on pre-activations, which have unit variance before, are not all near 0.
STEEP = 2.0**-4
LAYER: Parameters = {
    "activation": Parameter("tanh", (StrOptions(set(ACTIVATIONS)),), "str", "See :class:`~ulmus.RandomLayer`."),
    "weights": Parameter(
        "uniform",
        (StrOptions(set(WEIGHTS)),),
        '{"uniform", "uniform01", "normal", "orthogonal"}',
        """Distribution of the input weights: uniform on (-1, 1) or (0, 1), standard normal, or orthogonal blocks.""",
    ),
    "scale": Parameter(
        "auto",
        (AUTO, POSITIVE),
        '"auto" or float',
        """``"auto"`` standardises the features inside the layer and gives pre-activations unit variance, whatever the
        units and the number of features; nodes saturate or go linear otherwise. A number multiplies the weights as
        drawn and leaves the features alone.""",
    ),
    "slope": Parameter(
        "auto",
        (AUTO, POSITIVE),
        'float or "auto"',
        "Factor on the pre-activations; it matters more than the number of nodes.",
    ),
    "direct_links": Parameter(
        False,
        ("boolean",),
        "bool",
        "Link inputs to outputs as well (a random vector functional link network).",
    ),
}


@estimator(
    {"n_hidden": Parameter(100, (COUNT,), "int", "Number of nodes.")}
    | LAYER
    | {
        "activation": LAYER["activation"].but(
            text="""One of "sigmoid", "tanh", "sine", "cosine", "hardlim", "relu", "softplus", "mexican_hat",
            "identity", "gaussian", "multiquadric". ``gaussian`` and ``multiquadric`` are radial nodes: their centres
            are rows of the data, their widths are distances between rows."""
        ),
        "slope": Parameter(
            1.0,
            (POSITIVE,),
            "float",
            r"Factor on the pre-activations (the :math:`\lambda` of a sigmoid with slope).",
        ),
    }
    | THREADS,
    positional=1,
)
class RandomLayer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""A layer of random hidden nodes.

    The weights are drawn once and never trained. The nodes **nest**: with the same ``random_state`` the first l nodes
    are the layer with l nodes.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_hidden)
        Input weights, scale and slope included (affine activations).
    biases_ : ndarray of shape (n_hidden,)
    centres_, widths_ : ndarray
        Centres (in standardised units) and widths of radial nodes.
    mean_, unit_ : ndarray of shape (n_features,)
        Standardised rows are ``(x - mean_) * unit_``.

    See Also
    --------
    NystromMap : Features of a kernel through landmark rows.
    ELMRegressor : Ridge regression on these features.

    Notes
    -----
    :math:`h_j(x) = g(\lambda(w_j \cdot x + b_j))` with the activation g, random weights and the slope :math:`\lambda`;
    of radial nodes :math:`h_j(x) = g(\lambda\|x - c_j\|/\sigma_j)`, with rows for centres :math:`c_j` and distances
    between rows for widths :math:`\sigma_j`.

    References
    ----------
    W. F. Schmidt, M. A. Kraaijveld, R. P. W. Duin (1992). Feedforward neural networks with random weights.
    Y.-H. Pao, G.-H. Park, D. J. Sobajic (1994). Learning and generalization characteristics of the random vector
    functional-link net. G.-B. Huang, Q.-Y. Zhu, C.-K. Siew (2006). Extreme learning machine: theory and applications.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import RandomLayer
    >>> X = np.random.RandomState(0).normal(size=(100, 3))
    >>> wide = RandomLayer(n_hidden=20, random_state=0).fit_transform(X)
    >>> narrow = RandomLayer(n_hidden=5, random_state=0).fit_transform(X)
    >>> bool((wide[:, :5] == narrow).all())
    True
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Draw the nodes and scale them to the data.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows in the means and deviations behind ``scale="auto"``.

        Returns
        -------
        self
        """
        if getattr(X, "is_checked", False):
            self.n_features_in_ = X.shape[1]
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rng = check_random_state(self.random_state)
        weight_rng, bias_rng, row_rng = (np.random.RandomState(seed) for seed in rng.randint(2**31 - 1, size=3))
        m = X.shape[1]
        if self.scale == "auto":
            self.mean_, deviation = weighted_moments(X, sample_weight)
            self.unit_ = np.divide(1.0, deviation, out=np.zeros(m), where=deviation > 0)
        else:
            self.mean_, self.unit_ = np.zeros(m), np.ones(m)
        if ACTIVATIONS[self.activation].argument == "distance":
            self._draw_centres(X, sample_weight, row_rng)
        else:
            self._draw_weights(m, weight_rng, bias_rng)
        return self

    weights_: np.ndarray
    biases_: np.ndarray
    centres_: np.ndarray
    widths_: np.ndarray

    def _draw_weights(self, m: int, weight_rng: np.random.RandomState, bias_rng: np.random.RandomState) -> None:
        draw, draw_bias, root_mean_square = WEIGHTS[self.weights]
        W = draw(weight_rng, self.n_hidden, m).T
        b = draw_bias(bias_rng, self.n_hidden, 1)[:, 0]
        if self.scale == "auto":
            active = max(1, int(np.count_nonzero(self.unit_)))
            W = W / (root_mean_square * np.sqrt(active))
            b = b / root_mean_square
        else:
            W = W * self.scale
        # slope (w·(x − mean)/deviation + b): the deviation is folded into w, and for sparse rows the mean into b
        self._set_affine(self.slope * W * self.unit_[:, None], self.slope * b)

    def _set_affine(self, W: np.ndarray, centred_biases: np.ndarray) -> None:
        self.weights_, self._centred_biases = np.ascontiguousarray(W), centred_biases
        self.biases_ = centred_biases - self.mean_ @ self.weights_
        if not (np.isfinite(self.weights_).all() and np.isfinite(self.biases_).all()):
            raise ValueError("hidden weights overflow: the features are too large; standardise them first")
        with np.errstate(over="ignore"):
            self._narrow_weights = self.weights_.astype(np.float32)

    def _draw_centres(self, X: Any, weight: np.ndarray | None, rng: np.random.RandomState) -> None:
        # by the rows themselves and not by where they stand, so that weights equal repeats
        rows, mass = distinct_rows(X, CENTRE_ROWS, weight, rng)
        share = np.cumsum(mass) / mass.sum()
        pick = np.minimum(np.searchsorted(share, rng.random_sample((self.n_hidden, 3)), side="right"), len(rows) - 1)
        pick[:, 2] = np.where(pick[:, 2] == pick[:, 1], (pick[:, 1] + 1) % len(rows), pick[:, 2])
        U = self._standardise(X[rows[pick.ravel()]], np.float64).reshape(self.n_hidden, 3, -1)
        width = np.linalg.norm(U[:, 1] - U[:, 2], axis=1)
        self._set_radial(U[:, 0], np.where(width > 0, width, 1.0))

    def _set_radial(self, centres: np.ndarray, widths: np.ndarray) -> None:
        self.centres_, self.widths_ = np.ascontiguousarray(centres), widths
        self._distance = CrossKernel(DISTANCE, self.centres_, KernelParameters(gamma=1.0))

    def _standardise(self, X: Any, dtype: Any) -> np.ndarray:
        return ((dense(X, np.float64) - self.mean_) * self.unit_).astype(dtype, copy=False)

    @property
    def centred_biases_(self) -> np.ndarray:
        """Biases of affine nodes for centred rows: pre-activations are ``(x − mean_) · weights_`` plus these."""
        return self._centred_biases

    @property
    def centre_distance_(self) -> CrossKernel:
        """The map from standardised rows to their distances from the centres of radial nodes."""
        return self._distance

    @property
    def n_features_out(self) -> int:
        """Number of features: nodes, plus inputs under ``direct_links``."""
        return self.n_hidden + (self.n_features_in_ if self.direct_links else 0)

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out

    def prefix_sizes(self) -> list[int]:
        """Numbers of features of the smaller layers worth looking at."""
        direct = self.n_features_out - self.n_hidden
        return sorted({direct + max(1, self.n_hidden // k) for k in (4, 2, 1)})

    def prefix(self, size: int) -> "RandomLayer":
        """The fitted layer of the first ``size`` features."""
        nodes = size - (self.n_features_out - self.n_hidden)
        short = clone(self).set_params(n_hidden=nodes)
        for name in ("mean_", "unit_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(short, name, getattr(self, name))
        if ACTIVATIONS[self.activation].argument == "distance":
            short._set_radial(self.centres_[:nodes], self.widths_[:nodes])
        else:
            short._set_affine(self.weights_[:, :nodes], self._centred_biases[:nodes])
        return short

    def transform_block(self, X: Any, out: np.ndarray) -> None:
        """Write the features of the rows ``X`` into ``out`` (no validation)."""
        nodes = out[:, -self.n_hidden :]
        if self.direct_links:
            out[:, : self.n_features_in_] = self._standardise(X, out.dtype)
            nodes = np.empty(nodes.shape, out.dtype)
        activation = ACTIVATIONS[self.activation]
        with np.errstate(over="ignore", invalid="ignore"):
            if activation.argument == "distance":
                self._distance.transform_block(self._standardise(X, out.dtype), nodes)
                nodes *= (self.slope / self.widths_).astype(out.dtype)
            else:
                W = self.weights_ if out.dtype == np.float64 else self._narrow_weights
                if sparse.issparse(X):
                    nodes[:] = X.astype(out.dtype, copy=False) @ W
                    nodes += self.biases_.astype(out.dtype)
                else:
                    np.matmul((X - self.mean_).astype(out.dtype, copy=False), W, out=nodes)
                    nodes += self._centred_biases.astype(out.dtype, copy=False)
            steep = activation.steep if out.dtype == np.float64 and self.slope >= STEEP else None
            (steep or activation.apply)(nodes)
            total = np.vdot(nodes, nodes) if len(nodes) == 1 else nodes.sum()
        if not isfinite(total) and not np.isfinite(nodes).all():
            raise ValueError(
                f"hidden nodes overflow: the largest entry of the rows is {abs(X).max():.3g}; standardise the features"
            )
        if self.direct_links:
            out[:, self.n_features_in_ :] = nodes

    def transform(self, X: Any) -> np.ndarray:
        """Hidden features of ``X``, in the floating type of ``X``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_hidden)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        out = np.empty((X.shape[0], self.n_features_out), X.dtype)
        return engine.transform(self, X, out, n_jobs=self.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def weighted_moments(X: Any, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and deviation of every column; a constant column has deviation 0."""
    n = X.shape[0]
    w = np.ones(n) if weight is None else weight
    total = w.sum()
    squares = _sparse_squares if sparse.issparse(X) else _squares
    with np.errstate(over="ignore", invalid="ignore"):
        mean = sum(w[s] @ X[s].astype(np.float64, copy=False) for s in engine.slabs(n)) / total
        square = sum(squares(X[s], w[s], mean) for s in engine.slabs(n)) / total
    if not np.isfinite(square).all():
        raise ValueError(
            f"the variance of a feature overflows: its largest entry is {abs(X).max():.3g}; rescale the features"
        )
    deviation = np.sqrt(square)
    return mean, np.where(deviation > 10 * np.finfo(X.dtype).eps * np.abs(mean), deviation, 0.0)


def _squares(X: np.ndarray, w: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """``Σ w (x − mean)²`` of every column."""
    return w @ (X.astype(np.float64, copy=False) - mean) ** 2


def _sparse_squares(X: Any, w: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The same of CSR rows, whose entries that are not stored are 0."""
    m, column = X.shape[1], X.indices
    stored = np.repeat(w, np.diff(X.indptr))
    off = np.bincount(column, stored * (X.data.astype(np.float64) - mean[column]) ** 2, m)
    full = np.bincount(column, minlength=m) == X.shape[0]  # nothing is left, and no round-off of it
    return off + np.where(full, 0.0, np.maximum(w.sum() - np.bincount(column, stored, m), 0.0)) * mean**2

"""Descriptions of parameters that several models share, written once."""

from collections.abc import Callable
from textwrap import indent

_SHARED = {
    "n_landmarks": """n_landmarks : int or "auto", default="auto"
    Number of landmark rows L. ``"auto"`` doubles it while that lowers the leave-one-out loss by more than its
    standard error or 1 %, up to ``max_landmarks``. More than there are distinct rows means all of them.""",
    "max_landmarks": """max_landmarks : int, default=2000
    Bound for ``n_landmarks="auto"``; cost grows with its square.
solver : {"auto", "direct", "iterative"}, default="auto"
    ``"direct"`` sums :math:`K_{xz}^TK_{xz}` and factors it; ``"iterative"`` multiplies by it without forming it, for
    landmarks too many to square (C and gamma are then chosen on ``max_landmarks`` of them). ``"auto"`` asks
    :func:`ulmus.devices.routes.choose_route`.
tol, max_iter : float and int, default=1e-6 and 300
    Of the iterative route: the relative residual, verified in float64, to stop at, and the most iterations.""",
    "n_hidden": """n_hidden : int or "auto", default="auto"
    Number of hidden nodes L. ``"auto"`` doubles it while that lowers the leave-one-out loss by more than its
    standard error or 1 %, up to ``max_hidden``.""",
    "max_hidden": """max_hidden : int, default=2000
    Bound for ``n_hidden="auto"``; cost grows with its square.""",
    "layer": """activation : str, default="tanh"
    See :class:`~ulmus.RandomLayer`.
weights : {"uniform", "uniform01", "normal", "orthogonal"}, default="uniform"
    Distribution of the input weights.
scale : "auto" or float, default="auto"
    ``"auto"`` gives pre-activations unit variance whatever the units of the features; a number multiplies the
    weights as drawn.
slope : float or "auto", default="auto"
    Factor on the pre-activations; it matters more than the number of nodes.
direct_links : bool, default=False
    Link inputs to outputs as well (a random vector functional link network).""",
    "kernel": """kernel : str or callable, default="rbf"
    See :class:`~ulmus.NystromMap` for the names and formulas.
gamma : float or "auto", default="auto"
    Kernel scale, :math:`\\exp(-\\gamma\\|x-z\\|^2)` for ``rbf``.
degree, coef0 : float, default=3 and 1
    Of the polynomial and sigmoid kernels.""",
    "C": """C : float or "auto", default="auto"
    Penalty; larger is weaker, the ridge is ``I/C``.""",
    "C_or_none": """C : float, "auto" or None, default="auto"
    Penalty; larger is weaker, the ridge is ``I/C``. None is the least-squares solution of smallest norm.""",
    "landmarks": """landmarks : str or array of shape (n_landmarks, n_features), default="uniform"
    How landmark rows are drawn, or the rows themselves; see :class:`~ulmus.NystromMap`.
rank : int, optional
    Keep the first ``rank`` eigenpairs of the landmark kernel.""",
    "common": """fit_intercept : bool or "auto", default="auto"
    Fit an unpenalised constant. ``"auto"``: for regressors with ``C="auto"``; the closed form of the literature,
    without a constant, otherwise.
criterion : {"auto", "squared", "absolute", "error"}, default="auto"
    Loss by which parameters are chosen. ``"auto"``: squared error for regressors (``"absolute"`` is the other
    choice), an error count with soft edges for classifiers (``"error"`` counts, ``"squared"`` is that of the codes).
cv : int, splitter or None, default=None
    How that loss is held out: None is exact leave-one-out; k folds come from statistics per fold. ``fit(groups=...)``
    keeps groups together.""",
    "class_weight": """class_weight : dict or "balanced", optional
    Weights of the classes.""",
    "run": """device : {"auto", "cpu", "cuda"}, default="cpu"
    Where the rows are summed: ``"cuda"`` is a GPU (extra ``[gpu]``), ``"auto"`` takes one where there is one and the
    fit is large. Fitted attributes are NumPy arrays in any case.
random_state : int, RandomState or None, default=None
    Makes fits repeatable, whatever the number of threads.
n_jobs : int or None, default=-1
    Threads.
verbose : bool, default=False
    Print what the search for parameters finds.""",
}

NYSTROM = ("n_landmarks", "kernel", "C", "landmarks", "max_landmarks", "common")
KERNEL = ("kernel", "C", "common")
RANDOM = ("n_hidden", "layer", "C_or_none", "max_hidden", "common")


def documented(*names: str) -> Callable[[type], type]:
    """Put the shared descriptions in place of ``<parameters>`` in a class docstring."""
    text = indent("\n".join(_SHARED[name] for name in (*names, "run")), "    ")

    def fill(cls: type) -> type:
        assert cls.__doc__ is not None
        cls.__doc__ = cls.__doc__.replace("    <parameters>", text)
        return cls

    return fill

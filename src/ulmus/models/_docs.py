"""Descriptions of parameters that several models share, written once."""

from collections.abc import Callable
from textwrap import indent

_SHARED = {
    "n_landmarks": """n_landmarks : int or "auto", default="auto"
    Number of landmark rows L. ``"auto"`` doubles it while that promises to lower the leave-one-out loss by more
    than 1 %, up to ``max_landmarks``. More than there are distinct rows means all of them.""",
    "max_landmarks": """max_landmarks : int, default=2000
    Bound for ``n_landmarks="auto"``; cost grows with its square.""",
    "solver": """solver : {"auto", "direct", "iterative"}, default="auto"
    ``"direct"`` sums :math:`K_{xz}^TK_{xz}` and factors it; ``"iterative"`` multiplies by it without forming it, for
    landmarks too many to square (C and gamma are then chosen on ``max_landmarks`` of them). ``"auto"`` asks
    :func:`ulmus.devices.routes.choose_route`.
tol, max_iter : float and int, default=1e-6 and 300
    Of the iterative route: the relative residual, verified in float64, to stop at, and the most iterations.""",
    "n_hidden": """n_hidden : int or "auto", default="auto"
    Number of hidden nodes L. ``"auto"`` doubles it while that promises to lower the leave-one-out loss by more
    than 1 %, up to ``max_hidden``.""",
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
    "metric": """metric : {"auto", "diagonal", "full", "low_rank"}, array or None, default=None
    The kernel sees :math:`x \\to Ax`. ``"auto"`` learns one factor for each feature from the gradients of a first
    model, where that lowers the leave-one-out loss (``"diagonal"`` is another name for it); ``"full"`` learns all of A,
    ``"low_rank"`` its leading directions; see :class:`~ulmus.LearnedMetric`. An array is A itself: factors, or
    [feature, direction]. ``metric_`` is what is in use, ``feature_importances_`` is read from it.""",
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
criterion : {"auto", "squared", "absolute", "error", "gcv"}, default="auto"
    Loss by which parameters are chosen. ``"auto"``: squared error for regressors (``"absolute"`` is the other
    choice), an error count with soft edges for classifiers (``"error"`` counts, ``"squared"`` is that of the codes).
    ``"gcv"`` is generalised cross-validation, a squared error from sums alone: for rows that are dear to read twice.
cv : int, splitter or None, default=None
    How that loss is held out, and what calibrates probabilities and intervals: None is exact leave-one-out; k folds
    come from statistics per fold. ``fit(groups=...)`` keeps groups together.""",
    "adaptive": """effort : {"fast", "default", "best"}, default="default"
    How much time is spent: on the choice of the view, on landmarks, and on local partitions (2, 4 or 8).
categorical_features : "from_dtype" or array-like, default="from_dtype"
    Columns that hold categories, by position or name, besides the text, categorical and boolean columns of a frame.
criterion : {"auto", "squared", "absolute", "error"}, default="auto"
    Loss by which everything is chosen; see :class:`~ulmus.NKELMRegressor`.
max_memory : float, default=2
    Gigabytes that the fitted model may hold. The local stage keeps the training rows; it gets fewer partitions, or is
    left out, where it would need more.""",
    "repeatable": """random_state : int, RandomState or None, default=None
    Makes fits repeatable, whatever the number of threads.
n_jobs : int or None, default=-1
    Threads.
verbose : bool, default=False
    Print what every stage finds.""",
    "robust": """loss : str, default="sqrt"
    ``"sqrt"``, ``"polynomial"``, ``"cubic"``, ``"quartic"``, ``"huber"``, ``"logcosh"`` or ``"squared"``; see
    :mod:`ulmus.losses` for the formulas.
h : float or "auto", default="auto"
    Scale of the loss in units of the targets, for all but ``"sqrt"`` and ``"squared"``: errors above 1/h count by
    their size. ``"auto"``: from the median absolute deviation of residuals, such that for Gaussian errors the model
    is 95 % as efficient as least squares.
tau : float or "auto", default="auto"
    The same for ``"sqrt"``, where errors above :math:`\\sqrt\\tau` count by their size.
C : float or "auto", default="auto"
    Weight of the losses against :math:`\\frac12\\|\\beta\\|^2`, in units of the targets.""",
    "search": """fit_intercept : bool or "auto", default="auto"
    Fit a constant; ``"auto"`` does.
intercept_penalty : float, default=0.0
    Penalty on the constant beside that on the weights: 0 leaves it free, 1 makes it a weight like any other.
criterion : {"auto", "squared", "absolute"}, default="auto"
    Loss by which C is chosen; ``"auto"`` is the robust loss itself.
cv : int, splitter or None, default=None
    How that loss is held out: None is leave-one-out, approximated by one Newton step; k folds are fitted.
    ``fit(groups=...)`` keeps groups together.""",
    "newton": """tol : float or "auto", default="auto"
    Newton's method stops when its next step is shorter than ``tol · max(transition_, ‖β‖)``. ``"auto"``: 1e-10, and
    1e-5 where the features of the rows take more than 64 MiB and every iteration computes them again.
max_iter : int, default=100
    Newton steps at most.
delta1, delta2 : float, default=1e-4 and 0.9
    A step length has to lower the objective by ``delta1`` of what the slope promises, and to leave ``delta2`` of the
    slope at most.
beta, rho, rho1 : float, default=1, 0.5 and 0.5
    Where the search looks when the full step will not do: ``beta · rho^j``, then back from ``1/rho`` times that by
    powers of ``rho1``.""",
    "online": """forgetting : float, default=1.0
    Weight that every row leaves to each row before it, in (0, 1]. 0.999 remembers some 1000 rows. The penalty does not
    fade.
form : {"root", "covariance", "information"}, default="root"
    What is carried from row to row.
warm_up : int, default=500
    Rows from which the scale of the inputs, and all that is ``"auto"``, is chosen. With ``scale``, ``slope``, ``C`` and
    ``n_hidden`` given, or ``C=None``, there is no warm-up.""",
    "loss": """loss : {"squared", "cubic", "quartic", "huber", "sqrt", "logcosh"}, default="squared"
    A robust loss weighs every row by :math:`f'(e)/e` of its error before it is learned: one round of reweighting, and
    so approximate. ``"polynomial"`` is refused, because its weights rise with the error.
loss_scale : float or "auto", default="auto"
    Error from which a row counts less. ``"auto"``: from the median of recent absolute errors.""",
    "class_weight": """class_weight : dict or "balanced", optional
    Weights of the classes.""",
    "bit_loss": """loss : {"squared", "logistic"}, default="squared"
    Loss of the bits in training. ``"squared"`` is the closed form; ``"logistic"`` (Newton's method, some ten solves
    per bit) makes them log-odds, so that probabilities need no calibration.""",
    "ordinal": """decoding : {"loss", "hamming", "threshold"}, default="loss"
    From bits to a class: smallest exponential loss, smallest Hamming distance, or number of positive bits.
categories : "auto" or array of shape (n_classes,), default="auto"
    All labels, lowest first; some may be absent from the training rows. ``"auto"``: numbers by value, pandas ordered
    Categorical and polars Enum by their categories.
cost_matrix : array of shape (n_classes, n_classes), optional
    ``cost_matrix[true, predicted]``: ``predict`` returns the class of least expected cost. It takes no part in
    ``fit``.
class_weight : dict or "balanced", optional
    Weights of the classes.""",
    "cpu": """device : {"cpu"}, default="cpu"
    Where the rows are summed.""",
    "device": """device : {"auto", "cpu", "cuda"}, default="cpu"
    Where the rows are summed: ``"cuda"`` is a GPU (extra ``[gpu]``), ``"auto"`` takes one where there is one and the
    fit is large. Fitted attributes are NumPy arrays in any case.""",
    "run": """random_state : int, RandomState or None, default=None
    Makes fits repeatable, whatever the number of threads.
n_jobs : int or None, default=-1
    Threads.
verbose : bool, default=False
    Print what the search for parameters finds.""",
}

NYSTROM = ("n_landmarks", "kernel", "C", "landmarks", "max_landmarks", "common")
ITERATIVE = (*NYSTROM[:2], "metric", *NYSTROM[2:-1], "solver", "common")
KERNEL = ("kernel", "metric", "C", "common")
RANDOM = ("n_hidden", "layer", "C_or_none", "max_hidden", "common")


def documented(*names: str) -> Callable[[type], type]:
    """Put the shared descriptions in place of ``<parameters>`` in a class docstring."""
    ending: tuple[str, ...] = ("run",) if "device" in names else ("cpu", "run")
    if "repeatable" in names:
        ending = ()
    text = indent("\n".join(_SHARED[name] for name in (*names, *ending)), "    ")

    def fill(cls: type) -> type:
        assert cls.__doc__ is not None
        cls.__doc__ = cls.__doc__.replace("    <parameters>", text)
        return cls

    return fill

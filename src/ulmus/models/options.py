"""The parameters of the models, each written once; a named model is a union of these tables."""

from numbers import Real

from ulmus._sklearn import Hidden, Interval, StrOptions
from ulmus.codings import DECODERS
from ulmus.devices.accelerator import DEVICES, HIDDEN
from ulmus.features.nystrom import KERNEL, LANDMARKS
from ulmus.features.random_layer import LAYER
from ulmus.losses import LOSSES
from ulmus.online.learner import FORMS
from ulmus.parameters import AUTO, COUNT, POSITIVE, SHARE, THREADS, Parameter, Parameters
from ulmus.tuning import GCV
from ulmus.tuning.metric import FORMS as METRIC_FORMS

# Features

HIDDEN_NODES: Parameters = {
    "n_hidden": Parameter(
        "auto",
        (AUTO, COUNT),
        'int or "auto"',
        """Number of hidden nodes L. ``"auto"`` doubles it while that promises to lower the leave-one-out loss by more
        than 1 %, up to ``max_hidden``.""",
    )
}
MAX_HIDDEN: Parameters = {
    "max_hidden": Parameter(2000, (COUNT,), "int", 'Bound for ``n_hidden="auto"``; cost grows with its square.')
}
LANDMARK_COUNT: Parameters = {
    "n_landmarks": Parameter(
        "auto",
        (AUTO, COUNT),
        'int or "auto"',
        """Number of landmark rows L. ``"auto"`` doubles it while that promises to lower the leave-one-out loss by more
        than 1 %, up to ``max_landmarks``. More than there are distinct rows means all of them.""",
    )
}
MAX_LANDMARKS: Parameters = {
    "max_landmarks": Parameter(2000, (COUNT,), "int", 'Bound for ``n_landmarks="auto"``; cost grows with its square.')
}
METRIC: Parameters = {
    "metric": Parameter(
        None,
        (StrOptions({"auto", *METRIC_FORMS}), "array-like", None),
        '{"auto", "diagonal", "full", "low_rank"}, array or None',
        r"""The kernel sees :math:`x \to Ax`. ``"auto"`` learns one factor for each feature from the gradients of a
        first model, where that lowers the leave-one-out loss (``"diagonal"`` is another name for it); ``"full"`` learns
        all of A, ``"low_rank"`` its leading directions; see :class:`~ulmus.LearnedMetric`. An array is A itself:
        factors, or [feature, direction]. ``metric_`` is what is in use, ``feature_importances_`` is read from it.""",
    )
}

# The solve

PENALTY: Parameters = {
    "C": Parameter(
        "auto",
        (AUTO, POSITIVE),
        'float or "auto"',
        "Inverse strength of the penalty, as in scikit-learn's ``SVC``: the ridge is ``I/C``.",
    )
}
PENALTY_OR_NONE: Parameters = {
    "C": Parameter(
        "auto",
        (AUTO, POSITIVE, None),
        'float, "auto" or None',
        """Inverse strength of the penalty, as in scikit-learn's ``SVC``: the ridge is ``I/C``. None is the
        least-squares solution of smallest norm.""",
    )
}
ITERATIVE: Parameters = {
    "solver": Parameter(
        "auto",
        (StrOptions({"auto", "direct", "iterative"}),),
        '{"auto", "direct", "iterative"}',
        r"""``"direct"`` sums :math:`K_{xz}^TK_{xz}` and factors it; ``"iterative"`` multiplies by it without forming
        it, for landmarks too many to square (C and gamma are then chosen on ``max_landmarks`` of them). ``"auto"`` asks
        :func:`ulmus.devices.routes.choose_route`.""",
    ),
    "tol": Parameter(
        1e-6, (SHARE,), "float", "Of the iterative route: the relative residual, verified in float64, to stop at."
    ),
    "max_iter": Parameter(300, (COUNT,), "int", "Of the iterative route: the most iterations."),
}
BIT_LOSS: Parameters = {
    "loss": Parameter(
        "squared",
        (StrOptions({"squared", "logistic"}),),
        '{"squared", "logistic"}',
        """Loss of the bits in training. ``"squared"`` is the closed form; ``"logistic"`` (Newton's method, some ten
        solves per bit) makes them log-odds, so that probabilities need no calibration.""",
    )
}

QUANTILE_LOSS: Parameters = {
    "loss": Parameter(
        "squared",
        (StrOptions({"squared", "quantile"}),),
        '{"squared", "quantile"}',
        r"""``"quantile"`` fits the quantiles of the targets, by the pinball loss and Newton's method: ``predict`` gives
        the one nearest to the median, ``predict_quantiles``, ``predict_interval`` and ``predict_distribution`` stand on
        all of them. Features are those of squares, and C has their units, see :mod:`ulmus.solvers.quantile`.""",
    ),
    "quantiles": Parameter(
        (0.05, 0.5, 0.95),
        ("array-like",),
        "array-like of float",
        """The levels that ``loss="quantile"`` fits. Others can be asked for as well: they lie between, or beyond.""",
    ),
}

MONOTONE: Parameters = {
    "monotonic_cst": Parameter(
        None,
        ("array-like", dict, None),
        "array-like of int of shape (n_features,), dict or None",
        """Inputs along which answers must not fall (1), must not rise (-1) or may do both (0); by name in a dict, the
        others are 0. Of classifiers: the probability of the second of two classes. ``monotone_violation_`` is what is
        left of falls on a fine grid within the range of the data, as a share of the answers' range; above 0 there is a
        warning.""",
    )
}

# How parameters are chosen

INTERCEPT: Parameters = {
    "fit_intercept": Parameter(
        "auto",
        ("boolean", AUTO),
        'bool or "auto"',
        """Fit an unpenalised intercept. ``"auto"``: for regressors with ``C="auto"``, otherwise none, as in the
        literature.""",
    )
}
CRITERION: Parameters = {
    "criterion": Parameter(
        "auto",
        (StrOptions({"auto", "squared", "absolute", "error", GCV}),),
        '{"auto", "squared", "absolute", "error", "gcv"}',
        """Loss by which parameters are chosen. ``"auto"``: squared error for regressors (``"absolute"`` is the other
        choice), a smoothed error rate for classifiers (``"error"`` is the error rate itself, ``"squared"`` the
        squared error of the codes). ``"gcv"`` is generalised cross-validation, a squared error from sums alone: for
        rows that are expensive to read twice.""",
    )
}
FOLDS: Parameters = {
    "cv": Parameter(
        None,
        ("cv_object",),
        "int, splitter or None",
        """Cross-validation by which that loss is computed, and probabilities and intervals are calibrated: None is
        exact leave-one-out; folds are left out by subtracting their sums. ``fit(groups=...)`` keeps groups
        together.""",
    )
}
SEARCH: Parameters = INTERCEPT | CRITERION | FOLDS

# Labels

CLASS_WEIGHT: Parameters = {
    "class_weight": Parameter(
        None, (dict, StrOptions({"balanced"}), None), 'dict or "balanced"', "Weights of the classes."
    )
}
ORDERED: Parameters = {
    "decoding": Parameter(
        "loss",
        (StrOptions(set(DECODERS)),),
        '{"loss", "hamming", "threshold"}',
        "From bits to a class: smallest exponential loss, smallest Hamming distance, or number of positive bits.",
    ),
    "categories": Parameter(
        "auto",
        (AUTO, "array-like"),
        '"auto" or array of shape (n_classes,)',
        """All labels, lowest first; some may be absent from the training rows. ``"auto"``: numbers by value, pandas
        ordered Categorical and polars Enum by their categories.""",
    ),
    "cost_matrix": Parameter(
        None,
        ("array-like", None),
        "array of shape (n_classes, n_classes)",
        """``cost_matrix[true, predicted]``: ``predict`` returns the class of least expected cost. It takes no part in
        ``fit``.""",
    ),
} | CLASS_WEIGHT

# Where and how a fit runs

VERBOSE: Parameters = {"verbose": Parameter(False, ("boolean",), "bool", "Print what the search for parameters finds.")}
RUN: Parameters = {
    "device": Parameter(
        "cpu",
        (StrOptions(set(DEVICES)), Hidden(StrOptions({HIDDEN}))),
        '{"auto", "cpu", "cuda"}',
        """Where the work that grows with the rows is done: ``"cuda"`` is a GPU (extra ``[gpu]``), ``"auto"`` takes one
        where there is one and the fit is large. Fitted attributes are NumPy arrays in any case.""",
    ),
    **THREADS,
    **VERBOSE,
}
RUN_ON_CPU: Parameters = {
    **RUN,
    "device": Parameter("cpu", (StrOptions({"cpu"}),), '{"cpu"}', "Where the rows are summed."),
}

# Rows that never end

ONLINE: Parameters = {
    "forgetting": Parameter(
        1.0,
        (Interval(Real, 0, 1, closed="right"),),
        "float",
        """Weight that every row leaves to each row before it, in (0, 1]. 0.999 remembers some 1000 rows. The penalty
        does not fade.""",
    ),
    "form": Parameter(
        "root",
        (StrOptions(set(FORMS)),),
        '{"root", "covariance", "information"}',
        "What is carried from row to row.",
    ),
    "warm_up": Parameter(
        500,
        (COUNT,),
        "int",
        """Rows from which the scale of the inputs, and all that is ``"auto"``, is chosen. With ``scale``, ``slope``,
        ``C`` and ``n_hidden`` given, or ``C=None``, there is no warm-up.""",
    ),
}
ONLINE_LOSS: Parameters = {
    "loss": Parameter(
        "squared",
        (StrOptions(set(LOSSES)),),
        '{"squared", "cubic", "quartic", "huber", "sqrt", "logcosh"}',
        r"""A robust loss weighs every row by :math:`f'(e)/e` of its error before it is learned: one round of
        reweighting, and so approximate. ``"polynomial"`` is refused, because its weights rise with the error.""",
    ),
    "loss_scale": Parameter(
        "auto",
        (AUTO, POSITIVE),
        'float or "auto"',
        'Error from which a row counts less. ``"auto"``: from the median of recent absolute errors.',
    ),
}

# Robust losses

ROBUST_LOSS: Parameters = {
    "loss": Parameter(
        "sqrt",
        (StrOptions(set(LOSSES)),),
        "str",
        """``"sqrt"``, ``"polynomial"``, ``"cubic"``, ``"quartic"``, ``"huber"``, ``"logcosh"`` or ``"squared"``; see
        :mod:`ulmus.losses` for the formulas.""",
    ),
    "h": Parameter(
        "auto",
        (AUTO, POSITIVE),
        'float or "auto"',
        """Scale of the loss in units of the targets, for all but ``"sqrt"`` and ``"squared"``: errors above 1/h count
        by their size. ``"auto"``: from the median absolute deviation of residuals, such that for Gaussian errors the
        model is 95 % as efficient as least squares.""",
    ),
    "tau": Parameter(
        "auto",
        (AUTO, POSITIVE),
        'float or "auto"',
        r"""The same for ``"sqrt"``, where errors above :math:`\sqrt\tau` count by their size.""",
    ),
    "C": Parameter(
        "auto",
        (AUTO, POSITIVE),
        'float or "auto"',
        r"Weight of the losses against :math:`\frac12\|\beta\|^2`, in units of the targets.",
    ),
}
ROBUST_SEARCH: Parameters = {
    "fit_intercept": Parameter("auto", ("boolean", AUTO), 'bool or "auto"', 'Fit a constant; ``"auto"`` does.'),
    "intercept_penalty": Parameter(
        0.0,
        (Interval(Real, 0, None, closed="left"),),
        "float",
        """Penalty on the constant beside that on the weights: 0 leaves it free, 1 makes it a weight like any other.""",
    ),
    "criterion": CRITERION["criterion"].but(
        kind='{"auto", "squared", "absolute"}',
        text='Loss by which C is chosen; ``"auto"`` is the robust loss itself.',
    ),
    "cv": FOLDS["cv"].but(
        text="""Cross-validation for that loss: None is leave-one-out, approximated by one Newton step; folds are
        fitted. ``fit(groups=...)`` keeps groups together.""",
    ),
}
NEWTON: Parameters = {
    "tol": Parameter(
        "auto",
        (AUTO, POSITIVE),
        'float or "auto"',
        """Newton's method stops when its next step is shorter than ``tol · max(transition_, ‖β‖)``. ``"auto"``: 1e-10,
        and 1e-5 where the features of the rows take more than 64 MiB and every iteration computes them again.""",
    ),
    "max_iter": Parameter(100, (COUNT,), "int", "Newton steps at most."),
    "delta1": Parameter(
        1e-4, (SHARE,), "float", "A step has to lower the objective by this share of what the slope promises."
    ),
    "delta2": Parameter(0.9, (SHARE,), "float", "A step has to leave this share of the slope at most."),
    "beta": Parameter(
        1.0, (POSITIVE,), "float", "Where the search looks when the full step will not do: at ``beta · rho^j``."
    ),
    "rho": Parameter(0.5, (SHARE,), "float", "Factor between the lengths that are tried."),
    "rho1": Parameter(0.5, (SHARE,), "float", "Factor of the way back from ``1/rho`` times the length that was found."),
}

# Discriminant models

PROJECTION: Parameters = {
    "n_components": Parameter(
        None,
        (COUNT, None),
        "int",
        "Directions that are kept, at most one less than there are classes (the default).",
    )
}
HEAD: Parameters = {
    "head": Parameter(
        "knn",
        (StrOptions({"knn", "mean"}),),
        '{"knn", "mean"}',
        """How projections are classified: by the votes of the nearest training rows, or by the distances to the class
        means, whose probabilities are calibrated on rows left out.""",
    ),
    "n_neighbors": Parameter(
        "auto",
        (AUTO, COUNT),
        'int or "auto"',
        '``"auto"`` is chosen by 10-fold cross-validation among the projected rows.',
    ),
}
DISCRIMINANT_SEARCH: Parameters = {
    "criterion": Parameter(
        "auto",
        (StrOptions({"auto", "error", "squared"}),),
        '{"auto", "error", "squared"}',
        "Loss by which parameters are chosen; see :class:`~ulmus.ELMClassifier`.",
    ),
    "cv": FOLDS["cv"].but(text="Cross-validation for that loss: None is exact leave-one-out."),
}

# What the named models take

ELM: Parameters = HIDDEN_NODES | LAYER | PENALTY_OR_NONE | MAX_HIDDEN | SEARCH
KELM: Parameters = KERNEL | METRIC | PENALTY | SEARCH
NKELM: Parameters = LANDMARK_COUNT | KERNEL | METRIC | PENALTY | LANDMARKS | MAX_LANDMARKS | SEARCH
OSELM: Parameters = (
    {"n_hidden": HIDDEN_NODES["n_hidden"].but(default=300)} | LAYER | PENALTY_OR_NONE | ONLINE | MAX_HIDDEN | SEARCH
)
ROBUST_ELM: Parameters = HIDDEN_NODES | LAYER | ROBUST_LOSS | MAX_HIDDEN | ROBUST_SEARCH | NEWTON | RUN_ON_CPU
ROBUST_NKELM: Parameters = (
    LANDMARK_COUNT | KERNEL | ROBUST_LOSS | LANDMARKS | MAX_LANDMARKS | ROBUST_SEARCH | NEWTON | RUN_ON_CPU
)

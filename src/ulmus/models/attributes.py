"""What fitted models show: every attribute once, with the part of ``fitted_`` behind it and its entry in docstrings."""

from typing import Any

from ulmus.models._metric import importances_in_use, metric_in_use
from ulmus.models.fitted import views

#: The metric that a kernel sees by.
METRIC: dict[str, Any] = {"metric_": property(metric_in_use), "feature_importances_": property(importances_in_use)}

WEIGHTS: dict[str, Any] = views(
    C=("weights.C", "float", "The penalty in use."),
    tuning=("weights.tuning", "Tuning", "What was searched (when something was)."),
    intercept=("weights.intercept", "ndarray", "The constant of every output."),
)
MAPPED: dict[str, Any] = WEIGHTS | views(
    beta=("weights.beta", "ndarray", "Output weights on the features of ``map_``, a column for each output or bit."),
    route=("weights.route", "str", "How the weights were computed."),
    monotone_violation="weights.fall",
)
RANDOM: dict[str, Any] = MAPPED | views(
    slope=("weights.width", "float", "The slope of the nodes in use."),
    n_hidden=("weights.size", "int", "The number of nodes in use."),
    map=("weights.features", "RandomLayer", "The hidden layer."),
)
NYSTROM: dict[str, Any] = (
    METRIC
    | MAPPED
    | views(
        gamma=("weights.width", "float", "The gamma of the kernel in use."),
        n_landmarks=("weights.size", "int", "The number of landmarks in use."),
        map=("weights.features", "NystromMap", "The fitted feature map."),
        cross_kernel=("weights.cross", "CrossKernel", "The kernel to the landmarks."),
        landmark_weights=(
            "weights.landmark_weights",
            "ndarray",
            "The same weights on kernel values, a row per landmark.",
        ),
    )
)
ITERATED: dict[str, Any] = NYSTROM | views(
    n_iter=("weights.n_iter", "int", "Iterations; 1 on the direct route."),
    residual=(
        "weights.residual",
        "float",
        """On the iterative route, which has no ``beta_``: the verified relative residual. There ``map_`` is the map of
        the first 1,000 landmarks, from which ``residual_kernel`` (then an upper bound), standard deviations and the
        widths of intervals come.""",
    ),
)
KERNEL: dict[str, Any] = (
    METRIC
    | WEIGHTS
    | views(
        gamma=("weights.gamma", "float", "The gamma of the kernel in use."),
        alpha=(
            "weights.alpha",
            "ndarray",
            "Dual weights, one row per training row (in the order of ``cross_kernel_.Z``).",
        ),
        cross_kernel=("weights.cross", "CrossKernel", "The kernel to the training rows."),
    )
)
#: What a classifier minimises.
LOSS: dict[str, Any] = views(loss="certainty.loss")

ROBUST: dict[str, Any] = views(
    C=("weights.C", "float", "The penalty in use, of each output where there are several."),
    h=("weights.h", "float", 'The scale of the loss, per output (``tau_`` of the loss ``"sqrt"``).'),
    tau="weights.tau",
    transition=(
        "weights.transition",
        "float",
        "The error at which the loss turns from curved to straight, per output.",
    ),
    weights=(
        "weights.row_weights",
        "ndarray of the shape of ``y``",
        ":math:`f'(e)/e` of every training row over its largest value: 1 counts fully, near 0 hardly.",
    ),
    n_iter=("weights.n_iter", "int", "Newton iterations (the most over outputs)."),
    converged=("weights.converged", "bool", "Whether the stop rule was met."),
    path=(
        "weights.path",
        "NewtonPath",
        "Objective, gradient norm, step norm and step length of every iteration (a list of them for several outputs).",
    ),
    tuning=("weights.plain.tuning", "Tuning", "What was searched on tempered targets: width and size."),
    penalty_tuning=("weights.penalty_tuning", "RobustTuning", "What was searched by the robust loss: C."),
    beta=("weights.plain.beta", "ndarray", "Output weights on the features of ``map_``."),
    intercept=("weights.plain.intercept", "ndarray", "The constant of every output."),
)
ROBUST_RANDOM: dict[str, Any] = ROBUST | views(
    slope=("weights.plain.width", "float", "The slope of the nodes in use."),
    n_hidden=("weights.plain.size", "int", "The number of nodes in use."),
    map=("weights.plain.features", "RandomLayer", "The hidden layer."),
)
ROBUST_NYSTROM: dict[str, Any] = ROBUST | views(
    gamma=("weights.plain.width", "float", "The gamma of the kernel in use."),
    n_landmarks=("weights.plain.size", "int", "The number of landmarks in use."),
    map=("weights.plain.features", "NystromMap", "The fitted feature map."),
    cross_kernel="weights.plain.cross",
    landmark_weights=("weights.plain.landmark_weights", "ndarray", "The same weights on kernel values."),
)

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


def _layer(at: str) -> dict[str, Any]:
    """A random layer, whose weights are there."""
    return views(
        slope=(f"{at}.width", "float", "The slope of the nodes in use."),
        n_hidden=(f"{at}.size", "int", "The number of nodes in use."),
        map=(f"{at}.features", "RandomLayer", "The hidden layer."),
    )


def _landmarks(at: str) -> dict[str, Any]:
    """A Nyström map, whose weights are there."""
    on_kernel = "The same weights on kernel values, a row per landmark."
    return views(
        gamma=(f"{at}.width", "float", "The gamma of the kernel in use."),
        n_landmarks=(f"{at}.size", "int", "The number of landmarks in use."),
        map=(f"{at}.features", "NystromMap", "The fitted feature map."),
        cross_kernel=(f"{at}.cross", "CrossKernel", "The kernel to the landmarks."),
        landmark_weights=(f"{at}.landmark_weights", "ndarray", on_kernel),
    )


RANDOM: dict[str, Any] = MAPPED | _layer("weights")
NYSTROM: dict[str, Any] = METRIC | MAPPED | _landmarks("weights")
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
ROBUST_RANDOM: dict[str, Any] = ROBUST | _layer("weights.plain")
ROBUST_NYSTROM: dict[str, Any] = ROBUST | _landmarks("weights.plain")

PROJECTED: dict[str, Any] = views(
    classes=("targets.classes", "ndarray", "The labels."),
    n_components=("targets.n_components", "int", "The number of directions."),
    left_out="certainty.left_out",
    n_samples_fit="n_rows",
)
DISCRIMINANT: dict[str, Any] = PROJECTED | views(
    means=("certainty.means", "ndarray of shape (n_classes, n_components)", "Projected class means."),
    head=("certainty.head", "Neighbours or Means", "The classifier in the projection."),
    n_neighbors=("certainty.head.k", "int", "The number of neighbours in use."),
)
PENALISED: dict[str, Any] = DISCRIMINANT | views(
    C=("weights.C", "float", "The penalty in use."),
    tuning=("weights.tuning", "Tuning", "What was searched (when something was)."),
    eigenvalues=(
        "weights.eigenvalues",
        "ndarray of shape (n_components,)",
        r":math:`\lambda`: scatter between classes over (penalised) scatter within, along each direction.",
    ),
)
PROJECTED_MAP: dict[str, Any] = PENALISED | views(
    slope=("weights.slope", "float", "The slope of the nodes in use."),
    gamma=("weights.gamma", "float", "The gamma of the kernel in use, of Nyström features."),
    n_hidden=("weights.n_hidden", "int", "The number of nodes in use."),
    n_landmarks=("weights.n_landmarks", "int", "The number of landmarks in use, of Nyström features."),
    map=("weights.features", "RandomLayer or NystromMap", "The feature map."),
    weights=("weights.weights", "ndarray", "The directions W, with :math:`W^T(S_w + I/C)W = I`."),
    centre=("weights.centre", "ndarray", r"The mean :math:`\mu` of the features."),
    statistics=("weights.statistics", "Statistics", "The sums behind the model; they add over blocks of rows."),
)
PROJECTED_KERNEL: dict[str, Any] = PENALISED | views(
    gamma=("weights.gamma", "float", "The gamma of the kernel in use."),
    alpha=(
        "weights.alpha",
        "ndarray",
        "Dual directions, one row per training row (in the order of ``cross_kernel_.Z``).",
    ),
    offset=("weights.offset", "ndarray of shape (n_components,)", "What is taken from the projections."),
    cross_kernel=("weights.cross", "CrossKernel", "The kernel to the training rows."),
)
NETWORK: dict[str, Any] = DISCRIMINANT | views(
    coefs=("weights.coefs", "list of ndarray", "Weights into the first and into the second hidden layer."),
    intercepts=("weights.intercepts", "list of ndarray", "Their constants."),
    n_iter=("weights.n_iter", "int", "Passes over the rows."),
    loss_curve=("weights.loss_curve", "list of float", "Loss after each pass."),
)
MEMBERS: dict[str, Any] = PROJECTED | views(
    members=("weights.members", "list of ENDA", "Members of positive weight."),
    member_weights=("weights.member_weights", "ndarray", "The weights a of all members; those of the pruned are 0."),
    turns=("weights.turns", "ndarray", "What aligns each member's projection: ``[member, direction, component]``."),
    shrinkage=("weights.shrinkage", "float", "The value in use."),
    held_out_error=(
        "weights.held_out_error",
        "float",
        "Squared error of the combined probabilities on the rows they were chosen by, per row.",
    ),
)

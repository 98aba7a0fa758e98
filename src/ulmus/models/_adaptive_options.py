"""The parameters of adaptive models, each written once."""

from ulmus._sklearn import StrOptions
from ulmus.features.table_encoder import ENCODER
from ulmus.models._effort import EFFORTS
from ulmus.models.options import CRITERION, QUANTILE_LOSS, RUN, VERBOSE
from ulmus.parameters import POSITIVE, THREADS, Parameter, Parameters

ADAPTIVE: Parameters = {
    "effort": Parameter(
        "default",
        (StrOptions(set(EFFORTS)),),
        '{"fast", "default", "best"}',
        """How much time is spent: on the choice of the view, on landmarks, on local partitions (2, 4 or 8), and on how
        many sets of boosted trees there are (3, 5 or 5).""",
    ),
    "categorical_features": Parameter(
        "from_dtype",
        (StrOptions({"from_dtype"}), "array-like"),
        '"from_dtype" or array-like',
        """Columns that hold categories, by position or name, besides those of a frame that are some by their type or
        their values.""",
    ),
    **ENCODER,
    "criterion": CRITERION["criterion"].but(
        kind='{"auto", "squared", "absolute", "error"}',
        text="Loss by which everything is chosen; see :class:`~ulmus.NKELMRegressor`.",
    ),
}
TREES: Parameters = {
    "trees": Parameter(
        True,
        ("boolean",),
        "bool",
        """Whether boosted trees join the kernels, with the share that rows left out speak for: of regressors, and of
        classifiers by log loss. ``trees_`` holds them, ``tree_weight_`` is their share. Without them every effect of a
        training row has a closed form.""",
    )
}
ADAPTIVE_QUANTILES: Parameters = {
    "loss": QUANTILE_LOSS["loss"].but(
        text="""``"quantile"``: both stages are fitted by squares, and quantiles of their errors on rows left out by the
        pinball loss. ``predict`` gives the quantile nearest to the median; ``predict_quantiles``, ``predict_interval``
        and ``predict_distribution`` stand on all of them.""",
    ),
    "quantiles": QUANTILE_LOSS["quantiles"],
}
MEMORY: Parameters = {
    "max_memory": Parameter(
        2.0,
        (POSITIVE,),
        "float",
        """Gigabytes that the fitted model may hold. The local stage keeps the training rows; it gets fewer partitions,
        or is left out, where it would need more.""",
    )
}
ADAPTIVE_RUN: Parameters = {
    "device": RUN["device"],
    **MEMORY,
    **THREADS,
    "verbose": VERBOSE["verbose"].but(text="Print what every stage finds."),
}

"""The parameters of adaptive models, each written once."""

from ulmus._sklearn import StrOptions
from ulmus.features.table_encoder import ENCODER
from ulmus.models._effort import EFFORTS
from ulmus.models.options import CRITERION, QUANTILE_LOSS, RUN, VERBOSE
from ulmus.parameters import POSITIVE, THREADS, Parameter, Parameters
from ulmus.tuning import GCV

ADAPTIVE: Parameters = {
    "effort": Parameter(
        "default",
        (StrOptions(set(EFFORTS)),),
        '{"fast", "default", "best"}',
        "How much time is spent: on the choice of the view, on landmarks, and on local partitions (2, 4 or 8).",
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
ADAPTIVE_QUANTILES: Parameters = {
    "loss": QUANTILE_LOSS["loss"].but(
        text="""``"quantile"``: both stages are fitted by squares, and quantiles of their errors on rows left out by the
        pinball loss. ``predict`` gives the quantile nearest to the median; ``predict_quantiles``, ``predict_interval``
        and ``predict_distribution`` stand on all of them.""",
    ),
    "quantiles": QUANTILE_LOSS["quantiles"],
}
#: Of adaptive classifiers: loss → criteria by which the rest may be chosen.
LOSS_CRITERIA = {
    "log": ("auto", "log_loss", "error", "auc", "balanced"),
    "auto": ("auto", "log_loss"),
    "squared": ("auto", "error", "squared", GCV),
}
CLASS_LOSS: Parameters = {
    "loss": Parameter(
        "log",
        (StrOptions(set(LOSS_CRITERIA)),),
        '{"log", "squared", "auto"}',
        """What global model and leaves minimise: ``"log"`` is softmax (logistic for two classes), ``"squared"`` squares
        to ±1 codes, which are then turned into probabilities. ``"auto"`` fits both in the same view, for the time of
        both, and keeps squares where they lower the log loss of held-out rows by more than 2 %.""",
    ),
    "criterion": ADAPTIVE["criterion"].but(
        kind='{"auto", "log_loss", "error", "auc", "balanced", "squared"}',
        allowed=(StrOptions({name for names in LOSS_CRITERIA.values() for name in names}),),
        text="""What is to be low on held-out rows where C and the local stage of a log model are chosen: ``"auto"`` is
        ``"log_loss"``; the others are the error, 1 − AUC, and 1 − the mean recall of the classes. For
        ``loss="squared"`` everything is chosen by ``"auto"`` (an error count with soft edges), ``"error"`` or
        ``"squared"``.""",
    ),
}
DECISION: Parameters = {
    "decision": Parameter(
        "accuracy",
        (StrOptions({"accuracy", "balanced"}), "array-like"),
        '{"accuracy", "balanced"} or array of shape (n_classes, n_classes)',
        """What ``predict`` makes of probabilities: the likeliest class, the one most above its share of the training
        rows (for imbalanced classes: it maximises the mean recall), or that of least expected ``cost[true,
        predicted]``. It takes no part in ``fit``.""",
    )
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

"""The parameters of classifiers: what they minimise, how they decide, and the weights of classes."""

from ulmus._sklearn import StrOptions
from ulmus.models._adaptive_options import ADAPTIVE
from ulmus.models.options import CLASS_WEIGHT, CRITERION, INTERCEPT
from ulmus.parameters import Parameter, Parameters
from ulmus.tuning import GCV

#: Of classifiers: loss → criteria by which the rest may be chosen.
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
        """What global model and leaves minimise: ``"log"`` is softmax (logistic for two classes), ``"squared"`` is
        least squares on ±1 targets, whose scores are then turned into probabilities. ``"auto"`` fits both in the
        same view, for the time of both, and keeps least squares where that lowers the log loss of held-out rows by
        more than 2 %.""",
    ),
    "criterion": ADAPTIVE["criterion"].but(
        kind='{"auto", "log_loss", "error", "auc", "balanced", "squared"}',
        allowed=(StrOptions({name for names in LOSS_CRITERIA.values() for name in names}),),
        text="""What is to be low on held-out rows where C and the local stage of a log model are chosen: ``"auto"`` is
        ``"log_loss"``; the others are the error, 1 − AUC, and 1 − the mean recall of the classes. For
        ``loss="squared"`` everything is chosen by ``"auto"`` (a smoothed error rate), ``"error"`` or
        ``"squared"``.""",
    ),
}
SCORE_LOSS: Parameters = {
    "loss": Parameter(
        "squared",
        (StrOptions({"squared", "log"}),),
        '{"squared", "log"}',
        """What weights minimise. ``"squared"``: least squares on ±1 targets, in closed form; probabilities are fitted
        to scores of rows left out. ``"log"``: the log loss, softmax of several classes and logistic of two, by
        Newton's method on the same features; its C is that of scikit-learn's ``LogisticRegression``, and its
        probabilities are its own.""",
    ),
    "fit_intercept": INTERCEPT["fit_intercept"].but(
        text="""Fit an unpenalised intercept. ``"auto"``: for ``loss="log"``, otherwise none, as in the literature.""",
    ),
    "criterion": CRITERION["criterion"].but(
        kind='{"auto", "error", "squared", "gcv", "log_loss", "auc", "balanced"}',
        allowed=(StrOptions({name for names in LOSS_CRITERIA.values() for name in names}),),
        text="""Loss by which parameters are chosen. ``"auto"`` is a smoothed error rate (``"error"`` is the error rate
        itself, ``"squared"`` the squared error of the codes); ``"gcv"`` is generalised cross-validation, a squared
        error from sums alone. C of ``loss="log"`` is chosen by ``"log_loss"``, its ``"auto"``, or by ``"error"``,
        ``"auc"`` (1 − AUC) or ``"balanced"`` (1 − the mean recall of the classes); gamma and sizes are then those of
        squares.""",
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
#: Of classifiers whose loss can be chosen.
CLASSES: Parameters = SCORE_LOSS | DECISION | CLASS_WEIGHT

"""Our self-tuned models against what a user would pick, on the user's own machine."""

from experiments import tasks
from experiments.contestants import ABLATIONS
from experiments.contestants.streams import BLOCK, STREAMS
from experiments.suites.arena import ARENA
from experiments.suites.suite import COLUMNS, Suite, stream

BOOSTERS = (
    *("LightGBM", "LightGBM, 500 trees", "LightGBM, 255 leaves"),
    *("HistGradientBoosting", "HistGradientBoosting, 500"),
)
KERNEL_MACHINES = ("SVC/SVR", "KernelRidge", "Nystroem + Ridge", "MLP")

SUITES = {
    suite.name: suite
    for suite in (
        ARENA,
        Suite(
            "tabular",
            "Tables: adaptive models beside boosted trees",
            (*tasks.REGRESSION, *tasks.ORDINAL_LARGE, *tasks.CLASSIFICATION, *tasks.LARGE),
            tasks.EMBEDDED,
            ("Adaptive", "Adaptive, fast", "NKELM"),
            BOOSTERS,
            others=(*KERNEL_MACHINES, "xRFM"),
            once=tasks.LARGE,
        ),
        Suite(
            "ablation",
            "Adaptive models without one of their ingredients",
            tasks.ABLATED,
            tasks.EMBEDDED,
            tuple(ABLATIONS),
            (),
        ),
        Suite(
            "core",
            "Closed-form models beside kernel machines",
            ("satimage", "pendigits", "letter", "ijcnn1", "shuttle", "cal_housing", "cpu_act", "house_16H", "abalone"),
            tasks.EMBEDDED,
            ("NKELM", "ELM"),
            KERNEL_MACHINES,
        ),
        Suite(
            "ordinal",
            "Ordered labels",
            tasks.ORDINAL,
            ("abalone",),
            ("AdaptiveOrdinal", "KELMOrdinal", "NKELMOrdinal"),
            (
                *("mord LogisticAT", "skordinal SVOR", "HistGradientBoosting, rounded", "HistGradientBoosting"),
                "KELM (no order)",
            ),
            load=tasks.load_ordinal,
            seeds=5,
        ),
        Suite(
            "robust",
            "Regression with a tenth of the targets replaced by gross outliers",
            tasks.REGRESSION,
            ("abalone",),
            ("RobustNKELM", "NKELM"),
            ("SVR", "Nystroem + Huber", "HistGradientBoosting, absolute"),
            load=tasks.load_contaminated,
        ),
        Suite(
            "online",
            "Streams: every row is predicted before it is learned",
            tasks.STREAMS,
            ("satimage", "abalone"),
            tuple(STREAMS)[:3],
            tuple(STREAMS)[3:],
            load=tasks.load_stream,
            measure=stream,
            columns=(*COLUMNS, ("Rows a second, predicted and learned", "rows_per_second", "{:,.0f}")),
            how=f"Rows in random order, at most {tasks.STREAM_ROWS:,}. Ours and pyoselm predict and learn "
            f"{BLOCK} rows at a time (single ones at the start), river's models one; all scale inputs by their "
            "running mean and deviation. Ours choose their parameters on the first rows. Seconds are those of the "
            "whole stream, errors those of all its rows, the first included.",
        ),
    )
}

__all__ = ["SUITES", "Suite"]

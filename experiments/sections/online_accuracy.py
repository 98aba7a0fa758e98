"""Section (j): real sets streamed in random order, every row predicted before it is learned, beside river's models."""

import numpy as np

from experiments.contestants.streams import BLOCK, STREAMS
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.suites.suite import stream
from experiments.tasks import STREAM_ROWS, load_stream
from ulmus import datasets

REGRESSION = ("cal_housing", "cpu_act")
CLASSIFICATION = ("pendigits", "ijcnn1")


def accuracy(section: Section, options: Options) -> None:
    section.say(
        f"Rows in random order, at most {STREAM_ROWS}, inputs scaled by their running mean and deviation: for river's "
        "models by its `StandardScaler`, for ours and pyoselm by the same sums, the inputs (not the targets) of the "
        f"present block included. Every row is predicted before it is learned; ours and pyoselm see the first {BLOCK} "
        f"rows one by one and then blocks of {BLOCK} (predicted as a block, then learned), river's one row at a time. "
        "Ours choose their parameters on the first 500 rows, river's have their defaults (Adam with step 0.01). Errors "
        "are over all rows, warm-up included: RMSE over the deviation of the targets, or percent wrong; mean over the "
        "seeds, with the range."
    )
    for regression, names in ((True, REGRESSION), (False, CLASSIFICATION)):
        lines, missing = [], []
        for name in names:
            if name not in datasets.list():
                missing.append(name)
                continue
            found: dict[str, list[tuple[float, float]]] = {}
            for seed in range(options.repeats):
                task = load_stream(name, seed).first(options.rows(STREAM_ROWS))
                for label, make in STREAMS.items():
                    try:
                        answer = stream(make(task, seed), task)
                    except ImportError as error:
                        missing.append(f"{label} ({error})")
                        continue
                    percent = 100 * answer["error"] if regression else answer["error"]
                    found.setdefault(label, []).append((percent, answer["rows_per_second"]))
            for label, results in found.items():
                errors, rates = zip(*results, strict=True)
                spread = f"{min(errors):.2f}..{max(errors):.2f}"
                n = len(task.y)
                lines.append((name, n, label, f"{np.mean(errors):.2f}", spread, f"{np.median(rates):,.0f}"))
        what = "RMSE, % of deviation" if regression else "wrong %"
        if lines:
            section.say(markdown(("set", "rows", "model", what, "range", "rows / s"), lines))
        section.name_missing(list(dict.fromkeys(missing)))

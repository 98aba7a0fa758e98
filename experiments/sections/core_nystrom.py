"""Sections (a) to (c): NKELM in time, memory and float32."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from experiments.contestants.elm import nystroem_ridge
from experiments.runner.measure import Timing, interleave
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.sections.memory import peak_memory
from experiments.sections.problems import COVTYPE_TEST, COVTYPE_TRAIN, covtype
from experiments.tasks import Task, official
from ulmus import NKELMClassifier, NKELMRegressor, NystromMap

C_LARGE = 2.0**20
N_LANDMARKS = 1000
FIRST = "Ulmus"
RIVAL = "Nystroem + Ridge"

# (a) NKELM

#: (scaling, gamma, least ratio to scikit-learn, least share of the floor): the document's gamma under both usual
#: scalings, and one over the number of features.
COVTYPE_CASES = (
    ("standardised", 2.0**-2, 4.3, 0.75),
    ("standardised", 1 / 54, 4.0, 0.70),
    ("scaled to [0, 1]", 2.0**-2, 3.5, 0.62),
)


def gemm(size: int) -> Callable[[], np.ndarray]:
    """A square float64 product, the yardstick of the floor."""
    A, B, out = np.random.RandomState(0).standard_normal((3, size, size))
    return lambda: np.matmul(A, B, out=out)


def nkelm(section: Section, options: Options) -> None:
    """Fit and predict at CovType's shape against scikit-learn with the same landmarks, and against the floor."""
    raw = covtype(options.rows(COVTYPE_TRAIN), options.rows(COVTYPE_TEST))
    for scaling, gamma, ratio, share in COVTYPE_CASES:
        nkelm_case(section, options, raw.scaled(scaling), gamma, ratio, share)


def nkelm_case(section: Section, options: Options, task: Task, gamma: float, ratio: float, share: float) -> None:
    n, m = task.X.shape
    X, T, L, C = task.X, task.T, N_LANDMARKS, C_LARGE
    X32, X32_test = X.astype(np.float32), task.X_test.astype(np.float32)
    Z = Nystroem(gamma=gamma, n_components=L, random_state=0).fit(X).components_

    def ours(landmarks: np.ndarray | str) -> NKELMRegressor:
        return NKELMRegressor(L, gamma=gamma, C=C, landmarks=landmarks, random_state=0)

    size = 1000 if options.quick else 4000
    fits = interleave(
        {
            FIRST: lambda: ours(Z).fit(X, T),
            RIVAL: lambda: nystroem_ridge(L, gamma, C).fit(X, T),
            "Ulmus, float32": lambda: ours(Z).fit(X32, T),
            "Ulmus, own landmarks": lambda: ours("uniform").fit(X, T),
            "gemm": gemm(size),
        },
        options.repeats,
    )
    rate = 2 * size**3 / fits.pop("gemm").median
    inputs = {name: X32_test if name.endswith("float32") else task.X_test for name in fits}
    predictions = interleave(
        {name: lambda name=name: fits[name].result.predict(inputs[name]) for name in fits}, options.repeats
    )

    section.say(
        f"**{task.name}**, {n} × {m}, {T.shape[1]} outputs, {len(task.X_test)} test rows; L = {L}, "
        f"gamma = {gamma:.4g}, C = 2^20; scikit-learn's landmarks for both. "
        f"Seconds: median (least..most) of {options.repeats}."
    )
    section.say(
        markdown(
            ("model", "fit", "× Ulmus", "predict", "× Ulmus", "accuracy %", "route"),
            (
                (
                    name,
                    fits[name],
                    f"{fits[name].ratio_to(fits[FIRST]):.2f}",
                    predictions[name],
                    f"{predictions[name].ratio_to(predictions[FIRST]):.2f}",
                    f"{task.accuracy(predictions[name].result):.2f}",
                    getattr(fits[name].result, "route_", "-"),
                )
                for name in fits
            ),
        )
    )
    condition = fits[FIRST].result.map_.condition_
    flops = n * L**2 + 2 * n * m * L
    floor = flops / rate
    section.say(
        f"Floor: nL² + 2nmL = {flops:.3g} flops at {rate / 1e9:.1f} GFLOP/s (matrix product, same run) = "
        f"{floor:.3g} s. Condition number of K_zz: {condition:.1e}."
    )
    quick = options.quick
    section.claim("fit, scikit-learn / Ulmus", fits[RIVAL].ratio_to(fits[FIRST]), ratio, at_least=True, quick=quick)
    section.claim(
        "predict, scikit-learn / Ulmus", predictions[RIVAL].ratio_to(predictions[FIRST]), 8, at_least=True, quick=quick
    )
    section.claim("floor / fit", floor / fits[FIRST].median, share, at_least=True, quick=quick)
    section.claim(
        "fit, float64 / float32", fits[FIRST].ratio_to(fits["Ulmus, float32"]), 1.6, at_least=True, quick=quick
    )
    section.warn(fits)


# (b) memory


def memory(section: Section, options: Options) -> None:
    """Peak memory of NKELM as the rows grow."""
    cases = [("nkelm", 10**5), ("nkelm", 10**6), ("nkelm_labels", 10**5), ("nkelm_labels", 10**6)]
    cases.append(("nystroem_ridge", 10**5))
    peaks = {(job, n): peak_memory(job, options.rows(n)) for job, n in cases}
    section.say(
        "NKELM and Nystroem + Ridge on generated rows of CovType's shape (54 features, 7 outputs, L = 1000, float64). "
        "MB above libraries and input at the highest moment. The prediction itself is counted; `nkelm_labels` is the "
        "classifier, whose coded labels are counted too."
    )
    section.say(
        markdown(
            ("job", "rows", "input", "fit", "predict", "of which the answer"),
            (
                (job, options.rows(n), *(f"{peak[k]:.0f}" for k in ("input", "fit", "predict", "output")))
                for (job, n), peak in peaks.items()
            ),
        )
    )
    for (job, n), peak in peaks.items():
        if job.startswith("nkelm"):
            worst = max(peak["fit"], peak["predict"] - peak["output"])
            text = f"{job}, {options.rows(n)} rows, MB above input (and answer)"
            section.claim(text, worst, 300, at_least=False, quick=options.quick)


# (c) float32

#: set → (landmarks, gamma): Table 2 of the document; letter is not in it.
FLOAT32_CASES = {
    "satimage": (300, 2.0**-2),
    "shuttle": (1000, 2.0**2),
    "ijcnn1": (1300, 2.0**-2),
    "letter": (1000, 2.0**-2),
    "covtype": (1000, 2.0**-2),
}


def float32(section: Section, options: Options) -> None:
    """Our float32 path against our float64 path on real sets."""
    cases = {name: real(name, options) for name in FLOAT32_CASES}
    results = {name: Pair.measure(task, *FLOAT32_CASES[name], options.repeats) for name, task in cases.items() if task}
    section.say(
        "NKELMClassifier on float64 and on float32 copies of the same standardised rows, with the same landmarks, "
        "C = 2^20. Seconds of a fit."
    )
    header = ("set", "rows", "L", "float64", "float32", "ratio", "% in 64", "% in 32", "route in 64", "route in 32")
    section.say(markdown(header, (results[name].row(name) for name in results)))
    section.name_missing([name for name in cases if name not in results])
    for name, pair in results.items():
        section.claim(f"{name}, float64 / float32", pair.ratio, 1.6, at_least=True, quick=options.quick)
        section.claim(f"{name}, accuracy difference", pair.loss, 0.1, at_least=False, quick=options.quick)


def real(name: str, options: Options) -> Task | None:
    """A real set, standardised, or None."""
    task = covtype(100_000, 50_000) if name == "covtype" else official(name)
    if task is None or task.name.startswith("generated"):
        return None
    return task.first(options.rows(len(task.X))).scaled("standardised")


@dataclass(frozen=True)
class Pair:
    """One problem in both types."""

    n: int
    L: int
    double: Timing
    single: Timing
    accuracy: tuple[float, float]

    @classmethod
    def measure(cls, task: Task, L: int, gamma: float, repeats: int) -> "Pair":
        inputs = {t: (task.X.astype(t), task.X_test.astype(t)) for t in ("float64", "float32")}
        Z = NystromMap(L, gamma=gamma, random_state=0).fit(task.X).landmarks_
        model = NKELMClassifier(L, gamma=gamma, C=C_LARGE, landmarks=Z)
        fits = interleave({t: lambda t=t: clone(model).fit(inputs[t][0], task.y) for t in inputs}, repeats)
        double, single = (100 * fits[t].result.score(inputs[t][1], task.y_test) for t in inputs)
        return cls(len(task.X), L, fits["float64"], fits["float32"], (double, single))

    @property
    def ratio(self) -> float:
        return self.double.ratio_to(self.single)

    @property
    def loss(self) -> float:
        """Points of accuracy between the two."""
        return abs(self.accuracy[0] - self.accuracy[1])

    def row(self, name: str) -> tuple:
        shown = (f"{self.ratio:.2f}", *(f"{a:.2f}" for a in self.accuracy))
        routes = (timing.result.route_ for timing in (self.double, self.single))
        return (name, self.n, self.L, self.double, self.single, *shown, *routes)

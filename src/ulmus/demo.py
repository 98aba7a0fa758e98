"""Adaptive and closed-form models on satellite images: ``python -m ulmus.demo``.

Beside each figure stands the one of the paper that introduced NKELM (W.-Y. Deng, Q.-H. Zheng, L. Chen (2014).
Large-scale kernel extreme learning machine. Chinese Journal of Computers 37(11), Tables 2-4), and below them what
scikit-learn offers for the same task, measured in the same run.
"""

from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ulmus import AdaptiveClassifier, ELMClassifier, KELMClassifier, NKELMClassifier, datasets

GAMMA = 2.0**-2
FITS = 3


@dataclass(frozen=True)
class Contestant:
    """A model, and the accuracy (%) and training time (s) that the paper prints for it."""

    name: str
    settings: str
    model: Any
    printed: tuple[float, float] | None = None


@dataclass(frozen=True)
class Result:
    """Accuracy (%) on the test rows and the median time (s) of a fit."""

    accuracy: float
    seconds: float


def nystroem_ridge(n_landmarks: int, C: float) -> Any:
    """NKELM as a pipeline of scikit-learn."""
    return make_pipeline(
        Nystroem(gamma=GAMMA, n_components=n_landmarks, random_state=0),
        RidgeClassifier(alpha=1 / C),
    )


def sigmoid_layer(n_hidden: int, C: float | None) -> ELMClassifier:
    """The paper's network: sigmoid nodes of slope 1."""
    return ELMClassifier(n_hidden, activation="sigmoid", slope=1.0, C=C, random_state=0)


OURS = "Ulmus"
RIVALS = "scikit-learn"

CONTESTANTS: dict[str, tuple[Contestant, ...]] = {
    OURS: (
        Contestant("Adaptive", "no arguments", AdaptiveClassifier(random_state=0)),
        Contestant("ELM", "300 nodes", sigmoid_layer(300, C=None), (89.80, 4.310)),
        Contestant("RELM", "300 nodes, C = 2^8", sigmoid_layer(300, C=2.0**8)),
        Contestant("KELM", "C = 2^8", KELMClassifier(gamma=GAMMA, C=2.0**8), (91.28, 45.07)),
        Contestant(
            "NKELM",
            "300 landmarks, C = 2^20",
            NKELMClassifier(300, gamma=GAMMA, C=2.0**20, random_state=0),
            (91.25, 6.690),
        ),
        Contestant("NKELM", "1000 landmarks, C = 2^20", NKELMClassifier(1000, gamma=GAMMA, C=2.0**20, random_state=0)),
        Contestant("NKELM", "no arguments", NKELMClassifier(random_state=0)),
    ),
    RIVALS: (
        Contestant("SVC", "C = 2^20", SVC(gamma=GAMMA, C=2.0**20), (90.00, 2.122)),
        Contestant("Nystroem + Ridge", "300 landmarks, C = 2^20", nystroem_ridge(300, C=2.0**20)),
        Contestant("Nystroem + Ridge", "1000 landmarks, C = 2^20", nystroem_ridge(1000, C=2.0**20)),
    ),
}


def measure(model: Any, train: datasets.Part, test: datasets.Part) -> Result:
    """Fit a few times, score once."""
    seconds = []
    for _ in range(FITS):
        start = perf_counter()
        model.fit(*train)
        seconds.append(perf_counter() - start)
    return Result(100 * model.score(*test), median(seconds))


def row(contestant: Contestant, result: Result) -> str:
    """One line of the table."""
    accuracy, seconds = (f"{value:.2f}" for value in contestant.printed) if contestant.printed else ("-", "-")
    return (
        f"  {contestant.name:17s} {contestant.settings:25s} "
        f"{result.accuracy:8.2f} {accuracy:>9s}   {result.seconds:8.3f} {seconds:>9s}"
    )


def main() -> None:
    """Run every contestant and print the table."""
    satimage = datasets.load("satimage")
    (X, y), (X_test, y_test) = satimage.train, satimage.test
    scaler = StandardScaler().fit(X)
    train, test = (scaler.transform(X), y), (scaler.transform(X_test), y_test)

    print(f"Satimage. {satimage.description}.")
    print(f"{len(X)} rows to learn from, {len(X_test)} to be tested on, {X.shape[1]} standardised features.\n")
    print(f"{'':45s} {'accuracy (%)':^18s}   {'fit (seconds)':^18s}")
    print(f"{'':45s} {'here':>8s} {'paper':>9s}   {'here':>8s} {'paper':>9s}")
    results: dict[tuple[str, str], Result] = {}
    for library, contestants in CONTESTANTS.items():
        print(library)
        for contestant in contestants:
            result = results[contestant.name, contestant.settings] = measure(contestant.model, train, test)
            print(row(contestant, result), flush=True)

    ours, rival = (results[name, "1000 landmarks, C = 2^20"] for name in ("NKELM", "Nystroem + Ridge"))
    print(f"\nNKELM fits {rival.seconds / ours.seconds:.1f} times faster than Nystroem + Ridge at 1000 landmarks.")
    print(f"Kernels with settings are exp(-gamma |x - z|^2) with gamma = {GAMMA}. The paper (Deng et al., 2014) names")
    print("300 landmarks for NKELM, but its training time is that of 1000 or more; both are shown.")


if __name__ == "__main__":
    main()

"""Section (p): time and memory of ENDA beside KLDA, and beside scikit-learn's LDA on the same hidden features."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from experiments.runner.measure import interleave
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.sections.memory import peak_memory
from experiments.sections.problems import mixture
from experiments.tasks import official
from ulmus import ENDA, KLDA, RandomLayer
from ulmus.engine import Rows, gram_statistics
from ulmus.solvers.discriminant import solve_discriminant

#: Letter: rows to train on, features, classes, and the document's hidden nodes.
ROWS, FEATURES, CLASSES, L = 16_000, 16, 26, 1100
C, GAMMA, K = 2.0**8, 0.1, 5


def letter(n: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Letter's training rows, standardised, or generated rows of its shape."""
    task = official("letter")
    if task is None:
        X, y = mixture(n, FEATURES, CLASSES)
        return X, y, "generated rows of Letter's shape (set ULMUS_DATA for the real ones)"
    task = task.scaled("standardised").first(n)
    return task.X, task.y, task.name


def speed(section: Section, options: Options) -> None:
    """Fits with all parameters given, so that nothing is searched."""
    X, y, origin = letter(options.rows(ROWS))
    nodes = options.rows(L) if options.quick else L
    repeats = max(1, min(options.repeats, 3))
    with_head = {"n_neighbors": K, "random_state": 0}
    jobs = {
        "ENDA": lambda: ENDA(nodes, slope=1.0, C=C, **with_head).fit(X, y),
        "ENDA, Nyström": lambda: ENDA(nodes, features="nystrom", gamma=GAMMA, C=C, **with_head).fit(X, y),
        "KLDA": lambda: KLDA(gamma=GAMMA, C=C, **with_head).fit(X, y),
    }
    fits = interleave(jobs, repeats)
    names = {"ENDA": "enda", "ENDA, Nyström": "enda_nystrom", "KLDA": "klda"}
    peaks = {name: peak_memory(job, len(X)) for name, job in names.items()}
    section.say(
        f"**{origin}**, {len(X)} × {X.shape[1]}, {len(np.unique(y))} classes; L = {nodes}, k = {K}, nothing searched. "
        "Peak memory above the input, in a process of its own."
    )
    section.say(
        markdown(
            ("model", "fit (s)", "× ENDA", "peak of fit (MB)", "peak of predict (MB)"),
            (
                (k, t, f"{t.ratio_to(fits['ENDA']):.1f}", f"{peaks[k]['fit']:.0f}", f"{peaks[k]['predict']:.0f}")
                for k, t in fits.items()
            ),
        )
    )
    ratio = fits["KLDA"].ratio_to(fits["ENDA"])
    section.claim("fit, KLDA / ENDA", ratio, 20, at_least=True, quick=options.quick)
    beside_lda(section, options, X, y, nodes)


def beside_lda(section: Section, options: Options, X: np.ndarray, y: np.ndarray, nodes: int) -> None:
    """The discriminant part alone: the same hidden features, the same penalty."""
    layer = RandomLayer(nodes, random_state=0).fit(X)
    H = layer.transform(X)
    T = np.equal(y[:, None], np.unique(y)).astype(np.float64)

    class Given:
        n_features_out = nodes

        def transform_block(self, rows: np.ndarray, out: np.ndarray) -> None:
            out[:] = rows

    jobs = {
        "ENDA's solver": lambda: solve_discriminant(gram_statistics(Given(), Rows(H, T)), 1 / C),
        "LDA, eigen": lambda: LinearDiscriminantAnalysis(solver="eigen", shrinkage=1e-4).fit(H, y),
        "LDA, svd": lambda: LinearDiscriminantAnalysis(solver="svd").fit(H, y),
    }
    fits = interleave(jobs, max(1, min(options.repeats, 5)))
    section.say(
        f"The discriminant alone, on the same {len(H)} × {nodes} hidden features (the eigen solver with a little "
        "shrinkage, without which it fails on the singular scatter of hidden nodes)."
    )
    first = fits["ENDA's solver"]
    section.say(
        markdown(("solver", "fit (s)", "× ENDA's"), ((k, t, f"{t.ratio_to(first):.1f}") for k, t in fits.items()))
    )
    section.warn(fits)
    ratio = fits["LDA, eigen"].ratio_to(first)
    section.claim("fit, LDA (eigen) / ENDA's solver", ratio, 4, at_least=True, quick=options.quick)

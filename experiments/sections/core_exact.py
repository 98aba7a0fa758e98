"""Sections (d) and (e): KELM beside KernelRidge, ELM beside GFDL and hpelm."""

import warnings
from statistics import median

import numpy as np
from scipy.linalg import lstsq
from sklearn.kernel_ridge import KernelRidge

from experiments.contestants.elm import OnLayer, Pinv, SyrkCholesky, elm_rivals
from experiments.runner.measure import interleave
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.sections.memory import peak_memory
from experiments.sections.problems import curve, smooth
from ulmus import ELMRegressor, KELMRegressor

FIRST = "Ulmus"

# (d) KELM


def kelm(section: Section, options: Options) -> None:
    """The exact kernel against KernelRidge."""
    n, m, C = options.rows(8000), 20, 2.0**8
    (X, T), (X_test, _) = smooth(n, m), smooth(1000, m, seed=1)
    fits = interleave(
        {
            FIRST: lambda: KELMRegressor(gamma=1 / m, C=C).fit(X, T),
            "KernelRidge": lambda: KernelRidge(kernel="rbf", gamma=1 / m, alpha=1 / C).fit(X, T),
        },
        options.repeats,
    )
    peaks = {FIRST: peak_memory("kelm", n), "KernelRidge": peak_memory("kernel_ridge", n)}
    answers = [timing.result.predict(X_test) for timing in fits.values()]
    difference = np.abs(answers[0] - answers[1]).max() / np.abs(answers[1]).max()
    section.say(f"n = {n}, {m} features, rbf with gamma = 1/{m}, C = 2^8. K itself takes {8e-6 * n * n:.0f} MB.")
    section.say(
        markdown(
            ("model", "fit (s)", "× Ulmus", "peak of fit (MB)"),
            ((k, t, f"{t.ratio_to(fits[FIRST]):.2f}", f"{peaks[k]['fit']:.0f}") for k, t in fits.items()),
        )
    )
    section.say(f"Largest relative difference of the predictions: {difference:.1e}.")
    ratio = fits["KernelRidge"].ratio_to(fits[FIRST])
    section.claim("fit, KernelRidge / Ulmus", ratio, 1.3, at_least=True, quick=options.quick)
    share = peaks[FIRST]["fit"] / peaks["KernelRidge"]["fit"]
    section.claim("peak memory, Ulmus / KernelRidge", share, 0.6, at_least=False, quick=options.quick)


# (e) ELM


def elm(section: Section, options: Options) -> None:
    """The random layer against GFDL and hpelm: time, and digits against float64 lstsq on the same features."""
    elm_time(section, options)
    elm_digits(section, options)


def elm_time(section: Section, options: Options) -> None:
    n, m, L = options.rows(100_000), 50, 1000
    (X, T), (X_test, _) = smooth(n, m), smooth(1000, m, seed=1)

    def ours() -> ELMRegressor:
        return ELMRegressor(L, activation="sigmoid", slope=1.0, C=None, random_state=0).fit(X, T)

    first = ours()
    rivals, missing = elm_rivals(first.map_)
    fits = interleave({FIRST: ours, **{r.name: lambda r=r: r.fit(X, T) for r in rivals}}, options.repeats)

    reference = lstsq(first.map_.transform(X), T)[0]
    errors = {FIRST: relative_error(first.map_.transform(X_test), fits[FIRST].result.beta_, reference)}
    for rival in rivals:
        exact = reference if isinstance(rival, OnLayer) else lstsq(rival.hidden(X), T)[0]
        errors[rival.name] = relative_error(rival.hidden(X_test), rival.beta, exact)
    section.say(f"n = {n}, {m} features, L = {L} sigmoid nodes with the same weights, no ridge.")
    for sentence in missing:
        section.say(sentence)
    section.say(
        markdown(
            ("model", "fit (s)", "× Ulmus", "error against lstsq"),
            ((k, t, f"{t.ratio_to(fits[FIRST]):.2f}", f"{errors[k]:.1e}") for k, t in fits.items()),
        )
    )
    by_pinv, by_cholesky = (fits[rival.name].ratio_to(fits[FIRST]) for rival in rivals)
    section.claim(f"fit, {rivals[0].name} / Ulmus", by_pinv, 3, at_least=True, quick=options.quick)
    section.claim(f"fit, {rivals[1].name} / Ulmus", by_cholesky, 1, at_least=True, quick=options.quick)
    share = errors[FIRST] / errors[rivals[1].name]
    section.claim(f"error, Ulmus / {rivals[1].name}", share, 1, at_least=False, quick=options.quick)
    section.warn(fits)


def relative_error(H: np.ndarray, beta: np.ndarray, reference: np.ndarray) -> float:
    """Relative error of the predictions ``H β``."""
    return float(np.linalg.norm(H @ (beta - reference)) / np.linalg.norm(H @ reference))


#: Exact least squares: NumPy drops singular values below n·eps, SciPy below eps.
REFERENCES = {
    "NumPy lstsq": lambda H, T: np.linalg.lstsq(H, T, rcond=None)[0],
    "SciPy lstsq": lambda H, T: lstsq(H, T)[0],
}
SLOPES = (1.0, 5.0)
DRAWS = 5


def elm_digits(section: Section, options: Options) -> None:
    """A smooth curve, 200 nodes: whoever squares the condition number loses digits."""
    draws = {slope: [curve_errors(slope, seed) for seed in range(DRAWS)] for slope in SLOPES}
    names = list(draws[SLOPES[0]][0])
    section.say(
        "A smooth function of one variable without noise, 2000 rows, L = 200 sigmoid nodes, no ridge: root mean "
        f"squared error between the rows, median of {DRAWS} draws of the nodes."
    )
    section.say(
        markdown(
            ("model", *(f"slope {slope:g}" for slope in SLOPES)),
            ((name, *(f"{median(draw[name] for draw in draws[s]):.1e}" for s in SLOPES)) for name in names),
        )
    )
    for slope in SLOPES:
        for name in REFERENCES:
            share = median(draw[FIRST] / draw[name] for draw in draws[slope])
            section.claim(f"slope {slope:g}, error, Ulmus / {name}", share, 2, at_least=False, quick=False)


def curve_errors(slope: float, seed: int) -> dict[str, float]:
    """Error of every algebra on the same nodes."""
    x, x_test = np.linspace(-1, 1, 2000)[:, None], np.linspace(-0.999, 0.999, 1999)[:, None]
    T = curve(x)

    def error(H: np.ndarray, beta: np.ndarray) -> float:
        return float(np.sqrt(np.mean((H @ beta - curve(x_test)) ** 2)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # every contestant says that the layer has not full rank: that is the point
        model = ELMRegressor(200, activation="sigmoid", slope=slope, C=None, random_state=seed).fit(x, T)
        H, H_test = model.map_.transform(x), model.map_.transform(x_test)
        errors = {name: error(H_test, solve(H, T)) for name, solve in REFERENCES.items()}
        errors[FIRST] = error(H_test, model.beta_)
        for rival in (Pinv(model.map_), SyrkCholesky(model.map_)):
            rival.fit(x, T)
            errors[rival.name] = error(rival.hidden(x_test), rival.beta)
    return errors

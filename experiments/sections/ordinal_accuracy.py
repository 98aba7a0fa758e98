"""Sections q and r: MZE and MAE of ordinal methods on the same splits."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.preprocessing import StandardScaler

from experiments.contestants.ordinal import DOCUMENT, METHODS, OURS, RIVALS
from experiments.reproduce import printed
from experiments.runner.protocol import Answer, Cell, markdown
from experiments.runner.report import Options, Section
from experiments.sections.problems import quantile_classes
from ulmus import datasets

#: The document's sets: source, training rows, and its Table 4 (mean of 20 splits) as (MZE, MAE) of each method.
PRINTED: dict[str, tuple[str, int, dict[str, tuple[float, float]]]] = {
    title: (said.source, said.n_train, {method: (said.mze[method][0], said.mae[method][0]) for method in said.mze})
    for title, said in printed.KELMOR.items()
}
#: Real ordinal sets with official splits (orca_toy is left out: it is generated).
CHU = ("pyrimidines", "machine", "boston", "triazines", "autompg", "diabetes", "wisconsin")
ORCA = (
    *("pasture", "ERA", "balance-scale", "car", "contact-lenses", "tae", "ESL", "LEV", "automobile", "bondrate"),
    *("newthyroid", "squash-stored", "squash-unstored"),
)
REAL = (*(f"chu_{name}_5bins" for name in CHU), *(f"orca_{name}" for name in ORCA))
#: Splits of sets with more training rows than this: the support vector machines take minutes for each.
LARGE, SPLITS_OF_LARGE = 250, 5


Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def random_splits(source: str, n_train: int, repeats: int) -> Iterator[Split]:
    """The document's splits are not at hand: as many random ones of the same sizes."""
    dataset = datasets.load(source)
    y = quantile_classes(dataset.target)
    for seed in range(repeats):
        order = np.random.RandomState(seed).permutation(len(y))
        train, test = order[:n_train], order[n_train:]
        yield dataset.data[train], y[train], dataset.data[test], y[test]


def official_splits(name: str, repeats: int) -> Iterator[Split]:
    """The official splits: all of a small set, the first few of a large one."""
    dataset = datasets.load(name)
    large = int(dataset.splits[0].sum()) > LARGE
    for k in range(min(len(dataset.splits), SPLITS_OF_LARGE if large else repeats)):
        yield *dataset.part("train", k), *dataset.part("test", k)


def errors_of(method: str, seed: int, split: Split) -> Answer:
    """MZE and MAE of one method, made anew, on one split; features are standardised on its training part."""
    X, y, X_test, y_test = split
    scaler = StandardScaler().fit(X)
    predicted = METHODS[method](seed).fit(scaler.transform(X), y).predict(scaler.transform(X_test))
    off = np.abs(predicted.astype(int) - y_test)
    return {"errors": [float((off > 0).mean()), float(off.mean())]}


def compare(section: Section, title: str, methods: Sequence[str], splits: list[Split]) -> dict[str, np.ndarray]:
    """Errors ``[split, (MZE, MAE)]`` of each method; splits run side by side."""
    keys = {(method, seed): f"{title}/{method}/{seed}" for method in methods for seed in range(len(splits))}
    cells = [Cell(key, partial(errors_of, method, seed, splits[seed])) for (method, seed), key in keys.items()]
    found = section.answers(cells, jobs=os.cpu_count() or 1)
    if absent := {answer["missing"] for answer in found.values() if "missing" in answer}:
        raise RuntimeError(f"{title}: {', '.join(sorted(absent))}")
    return {m: np.array([found[keys[m, seed]]["errors"] for seed in range(len(splits))]) for m in methods}


def shown(errors: np.ndarray) -> str:
    return f"{errors.mean():.3f} ± {errors.std():.3f}"


def document_experiment(section: Section, options: Options) -> None:
    """Table 4 of the document beside a run of its methods."""
    names = (*DOCUMENT, *OURS)
    found: dict[str, dict[str, np.ndarray]] = {}
    repeats = 2 if options.quick else options.repeats
    for title, (source, n_train, _) in PRINTED.items():
        found[title] = compare(section, title, names, list(random_splits(source, n_train, repeats)))
        print(title, {name: shown(found[title][name][:, 1]) for name in names}, flush=True)
    section.say(
        f"Five classes of equal frequency, {repeats} random splits, training rows "
        f"{', '.join(f'{title} {n}' for title, (_, n, _) in PRINTED.items())}, all other rows for testing; features "
        "standardised on the training part. The document's five methods choose by 5-fold MAE on grids (C from 10^-3 to "
        "10^3, widths from 2^-12 to 2^2, 100 to 1000 nodes; SVOR is skordinal's, C from 10^-2 to 10^2); self-tuned "
        "models are called without arguments. Mean ± deviation over the splits; *printed* is the document's mean."
    )
    for measure, column in (("MAE", 1), ("MZE", 0)):
        rows = []
        for title, (_, _, said) in PRINTED.items():
            rows.append((f"{title}", *(shown(found[title][name][:, column]) for name in names)))
            rows.append(("*printed*", *(f"{said[name][column]:.3f}" if name in said else "" for name in names)))
        section.say(f"**{measure}**\n\n" + markdown(("set", *names), rows))
    mae = {title: {name: float(errors[:, 1].mean()) for name, errors in found[title].items()} for title in found}
    for name in ("KELMOR", "KELMOR, self-tuned", "KELMOR, logistic"):
        below = sum(mae[title][name] <= PRINTED[title][2]["KELMOR"][1] for title in mae)
        section.claim(f"sets where {name} is at or below the printed MAE", below, 4, at_least=True, quick=options.quick)
        below = sum(mae[title][name] < mae[title]["KELM"] for title in mae)
        section.claim(f"sets where {name} is below KELM in MAE", below, 5, at_least=True, quick=options.quick)


def real_sets(section: Section, options: Options) -> None:
    """MAE on real ordinal sets, and mean ranks."""
    names = (*OURS, *RIVALS)
    sets = REAL[::6] if options.quick else REAL
    rows: list[tuple[Any, ...]] = []
    errors = []
    for name in sets:
        splits = list(official_splits(name, 2 if options.quick else options.repeats))
        found = compare(section, name, names, splits)
        errors.append([found[method].mean(axis=0) for method in names])
        best = min(mae for _, mae in errors[-1])
        cells = [f"**{mae:.3f}**" if mae <= best + 5e-4 else f"{mae:.3f}" for _, mae in errors[-1]]
        rows.append((name, f"{len(splits)} × {len(splits[0][1])}/{len(splits[0][3])}", *cells))
        print(rows[-1], flush=True)
    mean_ranks = {}
    for measure, column in (("MAE", 1), ("MZE", 0)):
        ranks = np.array([rankdata(np.round([e[column] for e in line], 6)) for line in errors])
        mean_ranks[measure] = ranks.mean(axis=0)
        rows.append((f"mean rank, {measure}", "", *(f"{rank:.2f}" for rank in mean_ranks[measure])))
    rows.append(("mean MAE", "", *(f"{np.mean([line[i][1] for line in errors]):.3f}" for i in range(len(names)))))
    section.say(
        f"{len(sets)} real sets with official splits (the first {options.repeats}, or {SPLITS_OF_LARGE} of sets "
        f"with more than {LARGE} training rows), features standardised on the training part. Rivals choose by MAE in "
        "folds of the training part (mord: alpha from 10^-3 to 10^3, 5 folds; SVOR, REDSVM: C from 0.1 to 10 and 100, "
        "gamma from 2^-9 to 1, 3 folds); HistGradientBoosting and our models are called without arguments. MAE, "
        "mean over the splits."
    )
    section.say(markdown(("set", "splits", *names), rows))
    best_rival = min(mean_ranks["MAE"][len(OURS) :])
    best = min(mean_ranks["MAE"][: len(OURS)])
    section.claim(
        "best mean rank of ours / best of the rivals", best / best_rival, 1, at_least=False, quick=options.quick
    )

"""Section (o): how much labels and pictures change from draw to draw, of one model and of an ensemble."""

import warnings
from typing import Any

import numpy as np

from harness import Options, Section, table
from problems import Task, random_split
from ulmus import ENDA, ENDAEnsemble
from ulmus.solvers.procrustes import distance

#: Sets, their hidden nodes, and the features of the model.
SETS = {"wine": 50, "image_segmentation": 200, "waveform21": 200, "pendigits": 200}
DRAWS = 20
MEMBERS = 20
FEATURES = ("random", "nystrom")


def stability(section: Section, options: Options) -> None:
    """Deviation of the error over draws, and the distance of pictures of two draws."""
    draws = 4 if options.quick else DRAWS
    members = 4 if options.quick else MEMBERS
    section.say(
        f"One random split of each set (two thirds to train on), standardised, and {draws} draws of the random parts: "
        f"one ENDA model, and an ensemble of {members} with kappa = 2. Width and C are chosen once, by the first "
        "single model, so that only the draw differs. Error: mean ± deviation over the draws. Pictures: Procrustes "
        "distance between the projections of the test rows by two draws (0 equal, 1 unrelated), mean over pairs; *2-D* "
        "is that of the first two coordinates. *kept* is the mean number of members that were not pruned."
    )
    rows, claims = [], []
    for name, L in SETS.items():
        for features in FEATURES:
            row = measure(name, L, features, draws, members, options)
            rows.append(row["cells"])
            claims.append(row)
    header = ("set", "features", "L", "one: error", "ensemble: error", "deviation ratio", "kept")
    section.say(table((*header, "one: pictures", "2-D", "ensemble: pictures", "2-D"), rows))
    for row in claims:
        text = f"{row['name']}, {row['features']}: "
        quick = options.quick
        section.claim(text + "deviation, ensemble / one", row["deviation"], 0.5, at_least=False, quick=quick)
        section.claim(text + "mean error, ensemble / one", row["mean"], 1.0, at_least=False, quick=quick)
        section.claim(text + "picture distance, ensemble / one", row["picture"], 0.5, at_least=False, quick=quick)


def measure(name: str, L: int, features: str, draws: int, members: int, options: Options) -> dict[str, Any]:
    task = random_split(name, 0)
    assert task is not None
    task = task.scaled("standardised")
    if options.quick:
        task = task.first(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = ENDA(L, features=features, random_state=0).fit(task.X, task.y)
        width = "slope" if features == "random" else "gamma"
        chosen = {"C": first.C_, width: getattr(first, f"{width}_"), "features": features}
        one = [fitted(ENDA(L, random_state=s, **chosen), task) for s in range(draws)]
        several = [
            fitted(ENDAEnsemble(ENDA(L, **chosen), members, kappa=2.0, random_state=s), task) for s in range(draws)
        ]
    errors = {k: np.array([e for e, *_ in found]) for k, found in (("one", one), ("several", several))}
    apart = {
        k: [pictures([Z[:, :p] for _, Z, _ in found]) for p in (None, 2)]
        for k, found in (("one", one), ("several", several))
    }
    deviation = errors["several"].std() / max(errors["one"].std(), 1e-12)
    kept = np.mean([kept for *_, kept in several])
    cells = [name, features, L, *(f"{e.mean():.4f} ± {e.std():.4f}" for e in errors.values()), f"{deviation:.2f}"]
    cells += [f"{kept:.1f}", *(f"{d:.4f}" for k in ("one", "several") for d in apart[k])]
    return {
        "name": name,
        "features": features,
        "cells": cells,
        "deviation": deviation,
        "mean": errors["several"].mean() / max(errors["one"].mean(), 1e-12),
        "picture": apart["several"][0] / apart["one"][0],
    }


def fitted(model: Any, task: Task) -> tuple[float, np.ndarray, int]:
    """Error, projection of the test rows, and number of members."""
    model.fit(task.X, task.y)
    return (
        task.error(model.predict(task.X_test)) / 100,
        model.transform(task.X_test),
        len(getattr(model, "members_", [0])),
    )


def pictures(Z: list[np.ndarray]) -> float:
    """Mean distance of neighbouring draws."""
    return float(np.mean([distance(a, b) for a, b in zip(Z[::2], Z[1::2], strict=True)]))

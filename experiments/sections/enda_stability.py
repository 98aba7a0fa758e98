"""Section (o): how much labels and pictures change from draw to draw, of one model and of an ensemble."""

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.tasks import Task, random_split
from ulmus import ENDA, ENDAEnsemble
from ulmus.solvers.procrustes import distance

#: Sets and their hidden nodes.
SETS = {"wine": 50, "image_segmentation": 200, "waveform21": 200, "pendigits": 200}
DRAWS = 20
MEMBERS = 30
KAPPA = 1.0


def stability(section: Section, options: Options) -> None:
    """Deviation of the error over draws, and the distance of pictures of two draws."""
    draws, members = (4, 4) if options.quick else (DRAWS, MEMBERS)
    section.say(
        f"One random split of each set (two thirds to train on), standardised, and {draws} draws of the random parts: "
        f"one ENDA model, an ensemble of {members} (kappa = {KAPPA:g}), and one model on as many Nyström features. "
        "Width and C are chosen once, so that only the draw differs. Error: mean ± deviation over the draws. Pictures: "
        "Procrustes distance between the projections of the test rows by two draws (0 equal, 1 unrelated), mean over "
        "pairs; *2-D* is that of the first two coordinates. *kept* is the mean number of members that were not pruned."
    )
    rows, results = [], {}
    for name, L in SETS.items():
        task = random_split(name, 0)
        assert task is not None
        task = task.scaled("standardised")
        results[name] = measure(task.first(300) if options.quick else task, L, draws, members)
        rows += [[name, L, kind, *drawn.cells] for kind, drawn in results[name].items()]
    section.say(markdown(("set", "L", "model", "error", "kept", "pictures", "2-D"), rows))
    for name, found in results.items():
        one, several = found["one"], found["ensemble"]
        quick = options.quick
        if one.errors.std() > 0:
            ratio = several.errors.std() / one.errors.std()
            section.claim(f"{name}: deviation of the error, ensemble / one", ratio, 0.5, at_least=False, quick=quick)
            ratio = several.errors.mean() / one.errors.mean()
            section.claim(f"{name}: mean error, ensemble / one", ratio, 1.0, at_least=False, quick=quick)
        ratio = several.apart(None) / one.apart(None)
        section.claim(f"{name}: distance of pictures, ensemble / one", ratio, 0.5, at_least=False, quick=quick)


@dataclass(frozen=True)
class Draws:
    """Errors, projections of the test rows and numbers of members, one for each draw."""

    errors: np.ndarray
    projections: list[np.ndarray]
    members: list[int]

    @classmethod
    def of(cls, models: list[Any], task: Task) -> "Draws":
        errors, projections, members = [], [], []
        for model in models:
            model.fit(task.X, task.y)
            errors.append(task.percent(model.predict(task.X_test)) / 100)
            projections.append(model.transform(task.X_test))
            members.append(len(getattr(model, "members_", [model])))
        return cls(np.array(errors), projections, members)

    def apart(self, coordinates: int | None) -> float:
        """Mean distance of neighbouring draws."""
        return float(np.mean([distance(a[:, :coordinates], b[:, :coordinates]) for a, b in pairwise(self.projections)]))

    @property
    def cells(self) -> list[str]:
        error = f"{self.errors.mean():.4f} ± {self.errors.std():.4f}"
        return [error, f"{np.mean(self.members):.1f}", f"{self.apart(None):.4f}", f"{self.apart(2):.4f}"]


def measure(task: Task, L: int, draws: int, members: int) -> dict[str, Draws]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = ENDA(L, random_state=0).fit(task.X, task.y)
        chosen = {"slope": first.slope_, "C": first.C_}
        nystrom = ENDA(L, features="nystrom", random_state=0).fit(task.X, task.y)
        other = {"features": "nystrom", "gamma": nystrom.gamma_, "C": nystrom.C_}
        seeds = range(draws)
        member = ENDA(L, **chosen)
        return {
            "one": Draws.of([ENDA(L, random_state=s, **chosen) for s in seeds], task),
            "ensemble": Draws.of([ENDAEnsemble(member, members, kappa=KAPPA, random_state=s) for s in seeds], task),
            "one, Nyström": Draws.of([ENDA(L, random_state=s, **other) for s in seeds], task),
        }

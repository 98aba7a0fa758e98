"""Who is ahead: mean rank, Elo, improvability and win rate by ``bencheval``, and ours beside the best booster."""

from collections.abc import Sequence
from importlib import import_module

import numpy as np
from scipy.stats import rankdata

from experiments.runner import Table
from experiments.suites.suite import TIE, median

#: Errors are held to be at least this, so that a ratio to a perfect one can be told.
LEAST = 1e-6


def standing(title: str, who: Sequence[str], errors: np.ndarray, seconds: np.ndarray) -> Table:
    """A leaderboard of those who finished half of the tables or more; the others are named and get no rank.

    A table that one of them did not finish counts as 1 % more than the largest error that anybody made there.
    """
    done = np.isfinite(errors).mean(axis=0)
    ranked = np.flatnonzero(done >= 0.5)
    unranked = [f"{who[j]} ({int(np.isfinite(errors[:, j]).sum())})" for j in range(len(who)) if done[j] < 0.5]
    rows_here = np.isfinite(errors[:, ranked]).any(axis=1)
    found = np.maximum(errors[rows_here][:, ranked], LEAST)
    worst = 1.01 * np.nanmax(np.maximum(errors[rows_here], LEAST), axis=1, keepdims=True, initial=LEAST)
    filled = np.where(np.isnan(found), worst, found)
    ranks = np.array([rankdata(line) for line in filled]).reshape(filled.shape)
    names = [who[int(j)] for j in ranked]
    notes = [f"A table that was not finished counts as 1 % more than its largest error. Of {len(errors)} tables."]
    if unranked:
        notes.append(f"Without a rank, for want of half of the tables (finished): {', '.join(unranked)}.")
    try:
        more = _by_bencheval(names, filled)
    except ImportError:
        notes.append("Elo, improvability and win rate are computed by bencheval, which is not installed.")
        more = {}
    if len(names) < 2 and not more:
        notes.append("One contestant alone has no Elo.")
    rows = []
    for i in np.argsort(ranks.mean(axis=0)) if len(ranks) else []:
        shown = more.get(names[i], ["-"] * 3)
        finished = str(int(np.isfinite(found[:, i]).sum()))
        time = f"{median(seconds[:, ranked[i]]):.3g}"
        rows.append([names[i], f"{ranks[:, i].mean():.2f}", *shown, finished, time])
    header = ["contestant", "mean rank", "Elo (95 %)", "improvability %", "win rate", "tables", "median processor s"]
    return Table(title, header, rows, notes)


def _by_bencheval(names: list[str], errors: np.ndarray) -> dict[str, list[str]]:
    """Elo with its interval, improvability (how far the best is below, in % of one's error) and win rate."""
    evaluator = import_module("bencheval.evaluator").BenchmarkEvaluator(columns_to_agg_extra=None)
    if len(names) < 2:
        return {}
    pandas = import_module("pandas")
    tasks = [f"table {i}" for i in range(len(errors))]
    long = [(name, task, errors[i, j]) for j, name in enumerate(names) for i, task in enumerate(tasks)]
    board = evaluator.leaderboard(pandas.DataFrame(long, columns=["method", "task", "metric_error"]))
    return {
        name: [
            f"{line['elo']:.0f} (+{line['elo+']:.0f} −{line['elo-']:.0f})",
            f"{100 * line['improvability']:.1f}",
            f"{line['winrate']:.2f}",
        ]
        for name, line in board.iterrows()
    }


def against(
    ours: Sequence[str],
    boosters: Sequence[str],
    who: Sequence[str],
    kinds: Sequence[str],
    errors: np.ndarray,
    seconds: np.ndarray,
) -> Table:
    """Each of ours beside the best booster of each table, and their processor time beside two of them."""
    here = [who.index(name) for name in boosters if name in who]
    floor = np.where(np.isnan(errors[:, here]), np.inf, errors[:, here]).min(axis=1, initial=np.inf)
    rows = []
    for name in ours:
        j = who.index(name)
        for kind in ("all", *dict.fromkeys(kinds)):
            chosen = np.array([kind in ("all", k) for k in kinds], dtype=bool)
            judged = chosen & np.isfinite(errors[:, j]) & np.isfinite(floor)
            ratio = np.maximum(errors[judged, j], LEAST) / np.maximum(floor[judged], LEAST)
            won, lost = int((ratio < 1 - TIE).sum()), int((ratio > 1 + TIE).sum())
            far = int((ratio > 1.03).sum())
            times = [
                f"{median(seconds[chosen, j] / seconds[chosen, who.index(rival)]):.2f}" if rival in who else "-"
                for rival in ("LightGBM, 500 trees", "HistGradientBoosting, 500", "CatBoost")
            ]
            standing = f"{won}/{len(ratio) - won - lost}/{lost}"
            rows.append([name, kind, str(len(ratio)), f"{median(ratio):.3f}", standing, str(far), *times])
    header = ["model", "tables", "number", "metric / best booster's, median", "won/tied/lost", "lost by > 3 %"]
    header += [f"processor time / {rival}" for rival in ("LightGBM-500", "HistGB-500", "CatBoost")]
    note = f"The best of {', '.join(boosters)} on each table is picked by its test error, which favours them; ties are "
    note += "within 1 %."
    return Table("Ours beside the best booster", header, rows, [note])


def every_core(who: Sequence[str], one: np.ndarray, every: np.ndarray) -> Table:
    """Seconds on the clock with every core: medians over tables, and beside one thread and LightGBM's."""
    beside = who.index("LightGBM, 500 trees") if "LightGBM, 500 trees" in who else None
    rows = []
    for j in np.argsort([median(every[:, j]) for j in range(len(who))]):
        ratio = "-" if beside is None else f"{median(every[:, j] / every[:, beside]):.2f}"
        gain = f"{median(one[:, j] / every[:, j]):.2f}"
        rows.append([who[j], str(int(np.isfinite(every[:, j]).sum())), f"{median(every[:, j]):.3g}", gain, ratio])
    header = ["contestant", "tables", "seconds", "one thread / every core", "seconds / LightGBM-500"]
    return Table("Seconds to fit on every core, medians over tables", header, rows)

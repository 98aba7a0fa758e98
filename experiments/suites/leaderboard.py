"""Who is ahead: mean rank, Elo, improvability and win rate by ``bencheval``, and ours beside the best booster."""

from collections.abc import Mapping, Sequence
from importlib import import_module

import numpy as np
from scipy.stats import rankdata

from experiments.runner import Table
from experiments.suites.suite import TIE, median

#: Errors are held to be at least this, so that a ratio to a perfect one can be told.
LEAST = 1e-6
#: Whose seconds others are shown in.
BESIDE = "LightGBM, 500 trees"
#: Rows from which two threads are to be worth having.
MANY_ROWS = 5_000


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
    """Each of ours beside the best booster of each table, and their processor time beside three of them."""
    floor = _least(errors, [who.index(name) for name in boosters if name in who])
    rows = []
    for name in ours:
        j = who.index(name)
        for kind in ("all", *dict.fromkeys(kinds)):
            chosen = np.array([kind in ("all", k) for k in kinds], dtype=bool)
            times = [
                f"{median(seconds[chosen, j] / seconds[chosen, who.index(rival)]):.2f}" if rival in who else "-"
                for rival in (BESIDE, "HistGradientBoosting, 500", "CatBoost")
            ]
            rows.append([name, kind, *_beside(errors[chosen, j], floor[chosen]), *times])
    header = ["model", "tables", "number", "metric / best booster's, median", "won/tied/lost", "lost by > 3 %"]
    header += [f"processor time / {rival}" for rival in ("LightGBM-500", "HistGB-500", "CatBoost")]
    note = f"The best of {', '.join(boosters)} on each table is picked by its test error, which favours them; ties are "
    note += "within 1 %."
    return Table("Ours beside the best booster", header, rows, [note])


def each(
    ours: Sequence[str], rivals: Sequence[str], who: Sequence[str], errors: np.ndarray, seconds: np.ndarray
) -> Table:
    """Each of ours beside every contestant, and beside the best of the rivals, picked by its test error."""
    every = f"the best of {len(rivals)} boosters"
    rows = []
    for name in ours:
        j = who.index(name)
        for k, other in enumerate(who):
            if k != j:
                time = f"{median(seconds[:, j] / seconds[:, k]):.2f}"
                rows.append([name, other, *_beside(errors[:, j], errors[:, k]), time])
        if rivals:
            rows.append([name, every, *_beside(errors[:, j], _least(errors, [who.index(r) for r in rivals])), "-"])
    header = ["model", "beside", "tables", "metric / its, median", "won/tied/lost", "lost by > 3 %"]
    return Table("Ours beside each contestant", [*header, "processor time / its"], rows)


def by_rows(
    ours: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    who: Sequence[str],
    found: dict[int, np.ndarray],
    sizes: np.ndarray,
) -> Table:
    """Each of ours beside the best of each group, by the rows to learn from, over tables that have as many."""
    rows = []
    for n, errors in found.items():
        enough = errors[sizes >= n]
        for name in ours:
            for title, group in groups.items():
                floor = _least(enough, [who.index(one) for one in group if one in who])
                rows.append([f"{n:,}", name, title, *_beside(enough[:, who.index(name)], floor)])
    header = ["rows", "model", "beside the best of", "tables", "metric / its, median", "won/tied/lost", "lost by > 3 %"]
    return Table("By the rows to learn from", header, rows)


def every_core(who: Sequence[str], one: np.ndarray, every: np.ndarray, sizes: np.ndarray) -> Table:
    """Seconds on the clock with every core: medians over tables, and beside one thread and LightGBM's."""
    rows, many = [], sizes >= MANY_ROWS
    for j in np.argsort([median(every[:, j]) for j in range(len(who))]):
        ratio = f"{median(every[:, j] / every[:, who.index(BESIDE)]):.2f}" if BESIDE in who else "-"
        gain = one[:, j] / every[:, j]
        shown = [f"{median(every[:, j]):.3g}", f"{median(gain):.2f}", f"{median(gain[many]):.2f}", ratio]
        rows.append([who[j], str(int(np.isfinite(every[:, j]).sum())), *shown])
    times = ["one thread / every core", f"the same from {MANY_ROWS:,} rows on"]
    header = ["contestant", "tables", "seconds", *times, "seconds / LightGBM-500"]
    return Table("Seconds to fit on every core, medians over tables", header, rows)


def _least(errors: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """The lowest error of each table among these contestants; infinite where none of them has one."""
    some = errors[:, list(columns)]
    return np.where(np.isnan(some), np.inf, some).min(axis=1, initial=np.inf)


def _beside(own: np.ndarray, other: np.ndarray) -> list[str]:
    """Of the tables that both have: how many, the median of the ratio, won/tied/lost, and lost by more than 3 %."""
    both = np.isfinite(own) & np.isfinite(other)
    ratio = np.maximum(own[both], LEAST) / np.maximum(other[both], LEAST)
    won, lost = int((ratio < 1 - TIE).sum()), int((ratio > 1 + TIE).sum())
    standing = f"{won}/{len(ratio) - won - lost}/{lost}"
    return [str(len(ratio)), f"{median(ratio):.3f}", standing, str(int((ratio > 1.03).sum()))]

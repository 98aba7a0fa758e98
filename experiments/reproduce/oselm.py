"""The OS-ELM notes have no experiments: their claims are shown instead, with the recursions written out as printed."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from experiments.runner import Answer, Cell, Experiment, Results, Settings, Table
from ulmus import OSELMRegressor, RandomLayer, datasets

#: Nodes: the condition number of the layer grows with them, from about 1e3 to beyond 1e14.
NODES = (10, 20, 40)
#: Rows that arrive at once.
SIZES = (1, 20, 100)
START = 100
#: Distance from which a recursion has lost the solution.
LOST = 1.0
TEST = np.linspace(-15, 15, 501)[:, None]


def _stream(seed: int, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    return datasets.make_sinc(1000 if settings.quick else 5000, noise=0.1, random_state=seed)


def _blocks(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(START, n, size)]


def _distance(predicted: np.ndarray, batch: np.ndarray) -> float:
    """Relative distance of predictions; what is not a number is infinitely far."""
    far = float(np.linalg.norm(predicted - batch) / np.linalg.norm(batch))
    return far if np.isfinite(far) else 1e300


def _printed(nodes: int, size: int, seed: int, settings: Settings) -> Answer:
    """The recursion as printed: distance to the batch solution of the rows so far, and test error, along the stream."""
    X, t = _stream(seed, settings)
    layer = RandomLayer(nodes, activation="tanh", slope=4.0, random_state=seed).fit(X)
    H, T, H_test = layer.transform(X), t[:, None], layer.transform(TEST)
    P = np.linalg.inv(H[:START].T @ H[:START])
    beta = P @ H[:START].T @ T[:START]
    seen, distance, error = [], [], []
    with np.errstate(all="ignore"):
        for block in _blocks(len(H), size):
            h, t = H[block], T[block]
            gain = P @ h.T @ np.linalg.inv(np.eye(len(h)) + h @ P @ h.T)
            P = P - gain @ h @ P
            beta = beta + P @ h.T @ (t - h @ beta)
            if not np.isfinite(beta).all():
                distance.append(1e300)
                break
            if block.stop % 100 and block.stop != len(H):
                continue
            batch = np.linalg.lstsq(H[: block.stop], T[: block.stop], rcond=None)[0]
            seen.append(block.stop)
            distance.append(_distance(H_test @ beta, H_test @ batch))
            error.append(float(np.sqrt(np.mean((H_test @ beta - datasets.sinc(TEST)) ** 2))))
    curve = {"seen": seen, "distance": distance[: len(seen)], "rmse": error} if seed == 0 else {}
    return {**curve, "last": distance[-1], "condition": float(np.linalg.cond(H[:START]))}


def _ours(nodes: int, size: int, seed: int, settings: Settings) -> Answer:
    """The same stream through ``OSELMRegressor`` in its default form, beside ridge regression at its C."""
    X, t = _stream(seed, settings)
    C = 2.0**20
    model = OSELMRegressor(nodes, activation="tanh", slope=4.0, C=C, fit_intercept=False, random_state=seed)
    model.partial_fit(X[:START], t[:START])
    for block in _blocks(len(X), size):
        model.partial_fit(X[block], t[block])
    H, H_test = model.map_.transform(X), model.map_.transform(TEST)
    stacked = np.concatenate([H, np.eye(nodes) / np.sqrt(C)])
    batch = np.linalg.lstsq(stacked, np.append(t, np.zeros(nodes)), rcond=None)[0]
    return {"last": _distance(model.predict(TEST), H_test @ batch), "condition": float(np.linalg.cond(H[:START]))}


def _pyoselm(nodes: int, size: int, seed: int, settings: Settings) -> Answer:
    """The same stream, its inputs in [-1, 1], through pyoselm, beside batch least squares on its own layer."""
    from pyoselm import OSELMRegressor as Theirs

    X, t = _stream(seed, settings)
    model = Theirs(n_hidden=nodes, activation_func="tanh", random_state=seed)
    model.fit(X[:START] / 15, t[:START])
    for block in _blocks(len(X), size):
        model.fit(X[block] / 15, t[block])
    H, H_test = (model._create_random_layer().fit_transform(rows / 15) for rows in (X, TEST))
    batch = np.linalg.lstsq(H, t, rcond=None)[0]
    return {
        "last": _distance(np.ravel(model.predict(TEST / 15)), H_test @ batch),
        "condition": float(np.linalg.cond(H[:START])),
    }


METHODS: dict[str, tuple[str, Callable[[int, int, int, Settings], Answer]]] = {
    "printed": ("recursion as printed", _printed),
    "ours": ("OSELMRegressor, square root", _ours),
    "pyoselm": ("pyoselm", _pyoselm),
}


def cells(settings: Settings) -> Iterator[Cell]:
    """The printed recursion, ours and pyoselm's, for single rows and blocks."""
    for nodes in NODES:
        for size in SIZES:
            for who, (_, work) in METHODS.items():
                for seed in range(settings.repeats(10)):
                    seconds = 1.0 if size == 1 else 0.1
                    yield Cell(f"{who}/{nodes}/{size}/{seed}", partial(work, nodes, size, seed, settings), seconds)


def tables(results: Results, settings: Settings) -> list[Table]:
    """How far the end of the stream is from the batch solution."""
    rows = []
    for nodes in NODES:
        for size in SIZES:
            for who, (label, _) in METHODS.items():
                prefix = f"{who}/{nodes}/{size}/"
                far, condition = results.numbers(prefix, "last"), results.numbers(prefix, "condition")
                if len(far):
                    lost = f"{int((far > LOST).sum())} of {len(far)}"
                    line = [f"{np.median(condition):.0e}", "0 (claim)", _short(float(np.median(far))), lost]
                else:
                    line = ["-", "0 (claim)", results.mean(prefix, "last"), "-"]
                rows.append([str(nodes), str(size), label, *line])
    header = ["nodes", "rows a block", "method", "condition", "document", "here: median distance", "solution lost"]
    notes = (
        "Distance: of predictions to those of batch least squares on all rows, relative; *lost* where it is above 1. "
        "Condition: of the layer's outputs on the first block, median over the draws.",
        "The printed recursion and pyoselm have no penalty; ours has C = 2^20 and is compared with ridge regression "
        "at that C. pyoselm draws its own layer, on inputs in [-1, 1].",
        "Where the distance is above round-off, in the printed recursion: it begins with the inverse of HᵀH, whose "
        "condition is the square of the layer's, and never gains back the digits that are lost there.",
    )
    return [Table("Distance to the batch solution", header, rows, notes)]


def _short(value: float) -> str:
    return f"{value:.1e}" if value < 1e100 else "overflow"


def figures(results: Results, settings: Settings) -> dict[str, Any]:
    """Convergence along the stream."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(NODES), figsize=(12, 6), constrained_layout=True, sharex=True, sharey="row")
    for nodes, (above, below) in zip(NODES, axes.T, strict=True):
        for size, style, colour in zip(SIZES, ("-", "--", ":"), ("black", "tab:blue", "tab:orange"), strict=True):
            answer = results.under(f"printed/{nodes}/{size}/0")[0]
            label = f"blocks of {size}"
            above.plot(answer["seen"], np.clip(answer["rmse"], 0, 10), style, color=colour, label=label)
            below.plot(answer["seen"], np.clip(answer["distance"], 1e-17, 1e3), style, color=colour, label=label)
        above.set(title=f"{nodes} nodes", yscale="log")
        below.set(xlabel="rows seen", yscale="log")
    axes[0, 0].set(ylabel="test RMSE against sin(x)/x")
    axes[1, 0].set(ylabel="distance to batch least squares")
    axes[0, 0].legend()
    plt.close(figure)
    return {"The printed recursion on SinC: test error, and distance to the batch solution, along the stream": figure}


OSELM = Experiment(
    "oselm",
    "Online sequential extreme learning machine (OS-ELM)",
    "Lecture notes on OS-ELM; the method is of N.-Y. Liang et al. (2006), IEEE Transactions on Neural Networks 17(6).",
    cells,
    tables,
    figures,
    (
        "The notes print no figures. In exact arithmetic the distance is 0; what is left is round-off, which the "
        "covariance recursion multiplies by the square of the condition number of the layer.",
        "The notes ask for more rows than nodes in the first block; what is needed is full rank, or a penalty: 100 "
        "rows for 40 nodes are enough by the notes, and too few for a layer of condition 1e14.",
    ),
)

"""The OS-ELM notes have no experiments: their claims are shown instead, with the recursions written out as printed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ulmus import datasets
from ulmus.features.random_layer import RandomLayer
from ulmus.reproduce.protocol import Answer, Cell, Experiment, Results, Settings, Table

NODES = 40
START = 100


def _layer(seed: int, settings: Settings) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Hidden outputs and targets of SinC rows in the order in which they arrive, and of test rows."""
    n = 1000 if settings.quick else 5000
    X, t = datasets.make_sinc(n, noise=0.1, random_state=seed)
    X_test = np.linspace(-15, 15, 501)[:, None]
    layer = RandomLayer(NODES, activation="tanh", slope=4.0, random_state=seed).fit(X)
    return layer.transform(X), t[:, None], layer.transform(X_test), datasets.sinc(X_test)


def _blocks(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(START, n, size)]


def _run(size: int, seed: int, settings: Settings) -> Answer:
    """Distance to the batch solution of all rows so far, and test error, along the stream (claims 1 and 2)."""
    H, T, H_test, truth = _layer(seed, settings)
    P = np.linalg.inv(H[:START].T @ H[:START])
    beta = P @ H[:START].T @ T[:START]
    seen, distance, error = [], [], []
    for block in _blocks(len(H), size):
        h, t = H[block], T[block]
        gain = P @ h.T @ np.linalg.inv(np.eye(len(h)) + h @ P @ h.T)
        P = P - gain @ h @ P
        beta = beta + P @ h.T @ (t - h @ beta)
        if block.stop % 100 and block.stop != len(H):
            continue
        batch = np.linalg.lstsq(H[: block.stop], T[: block.stop], rcond=None)[0]
        seen.append(block.stop)
        distance.append(float(np.linalg.norm(H_test @ (beta - batch)) / np.linalg.norm(H_test @ batch)))
        error.append(float(np.sqrt(np.mean((H_test @ beta - truth) ** 2))))
    return {"seen": seen, "distance": distance, "rmse": error, "last": distance[-1], "condition": np.linalg.cond(H)}


def _ours(size: int, seed: int, settings: Settings) -> Answer:
    """The same stream through ``OSELMRegressor`` in its default form."""
    from ulmus.models.online import OSELMRegressor

    n = 1000 if settings.quick else 5000
    X, t = datasets.make_sinc(n, noise=0.1, random_state=seed)
    C = 2.0**20
    model = OSELMRegressor(NODES, activation="tanh", slope=4.0, C=C, fit_intercept=False, random_state=seed)
    model.partial_fit(X[:START], t[:START])
    for block in _blocks(n, size):
        model.partial_fit(X[block], t[block])
    X_test = np.linspace(-15, 15, 501)[:, None]
    H, H_test = model.map_.transform(X), model.map_.transform(X_test)
    stacked = np.concatenate([H, np.eye(H.shape[1]) / np.sqrt(C)])
    batch = np.linalg.lstsq(stacked, np.append(t, np.zeros(H.shape[1])), rcond=None)[0]
    predicted, reference = model.predict(X_test), H_test @ batch
    return {
        "last": float(np.linalg.norm(predicted - reference) / np.linalg.norm(reference)),
        "rmse": [float(np.sqrt(np.mean((predicted - datasets.sinc(X_test)[:, 0]) ** 2)))],
    }


SIZES = (1, 20, 100)


def cells(settings: Settings) -> Iterator[Cell]:
    """The printed recursion and ours, for single rows and blocks."""
    for seed in range(settings.repeats(10)):
        for size in SIZES:
            yield Cell(f"printed/{size}/{seed}", lambda size=size, seed=seed: _run(size, seed, settings))  # type: ignore[misc]
            yield Cell(f"ours/{size}/{seed}", lambda size=size, seed=seed: _ours(size, seed, settings))  # type: ignore[misc]


def tables(results: Results, settings: Settings) -> list[Table]:
    """How far the end of the stream is from batch least squares."""
    rows = []
    for size in SIZES:
        for who, label in (("printed", "recursion as printed"), ("ours", "OSELMRegressor, square root")):
            far = results.mean(f"{who}/{size}/", "last", "{:.1e}", spread=False)
            rows.append([f"{size}", label, "0 (claim)", far])
    note = "The printed recursion has no penalty; ours has C = 2^20 and is compared with ridge regression at that C."
    return [Table("Distance to the batch solution", ["rows a block", "method", "document", "here"], rows, [note])]


def figures(results: Results, settings: Settings) -> dict[str, Any]:
    """Convergence along the stream."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for (size, style), colour in zip(
        ((1, "-"), (20, "--"), (100, ":")), ("black", "tab:blue", "tab:orange"), strict=True
    ):
        answer = results.under(f"printed/{size}/")[0]
        left.plot(answer["seen"], answer["rmse"], style, color=colour, label=f"blocks of {size}")
        right.plot(
            answer["seen"], np.maximum(answer["distance"], 1e-17), style, color=colour, label=f"blocks of {size}"
        )
    left.set(xlabel="rows seen", ylabel="test RMSE against sin(x)/x", yscale="log")
    right.set(xlabel="rows seen", ylabel="distance to batch least squares", yscale="log")
    left.legend()
    right.legend()
    plt.close(figure)
    return {"OS-ELM on SinC: test error, and distance to the batch solution, along the stream": figure}


OSELM = Experiment(
    "oselm",
    "Online sequential extreme learning machine (OS-ELM)",
    "Lecture notes on OS-ELM; the method is of N.-Y. Liang et al. (2006), IEEE Transactions on Neural Networks 17(6).",
    cells,
    tables,
    figures,
    (
        "The notes print no figures. In exact arithmetic the distance is 0; what is left is round-off, which the "
        "covariance recursion multiplies by the condition number of the layer.",
        "The notes ask for more rows than nodes in the first block; what is needed is full rank, or a penalty.",
    ),
)

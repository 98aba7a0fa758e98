"""What the sections of the GPU share: the card, the problem, and a warm-up."""

import subprocess
from typing import Any

import numpy as np
import torch

from ulmus import NKELMRegressor
from ulmus.devices import triton_kernels as fused

GAMMA = 0.02


def device_facts() -> tuple[str, float]:
    """The card in words, and the limit of its special-function units in values per second."""
    found = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    clock = float(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]) * 1e6
    words = f"{found.name}, {found.multi_processor_count} multiprocessors at up to {clock / 1e9:.2f} GHz, "
    words += f"{found.total_memory / 2**30:.0f} GiB; torch {torch.__version__}, triton {fused.triton.__version__}"
    return words, found.multi_processor_count * 16 * clock


def target(X: Any, xp: Any = np) -> Any:
    """The generating function: smooth, of a few directions, with an interaction."""
    return xp.sin(X[:, 0] + X[:, 1]) + xp.cos(X[:, 2] * X[:, 3]) + 0.5 * xp.tanh(X[:, 4:8].sum(1))


def problem(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Normal rows with noisy targets, and rows to test on with the generating function's values."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 10_000, d))
    f = target(X)
    return X[:n], f[:n] + 0.5 * rng.standard_normal(n), X[n:], f[n:]


def warm_up(d: int) -> None:
    X, y, _, _ = problem(20_000, d, seed=1)
    for options in ({}, {"solver": "iterative", "C": 1.0}):
        NKELMRegressor(2_500, gamma=GAMMA, device="cuda", random_state=0, **options).fit(X, y)

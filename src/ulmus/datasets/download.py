"""Fetch a data set from OpenML once, and keep it in a cache folder with its checksum."""

import hashlib
import io
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ulmus._files import write_bytes

CACHE_VARIABLE = "ULMUS_CACHE"


@dataclass(frozen=True)
class Remote:
    """A data set of OpenML, and the size by which a wrong one is recognised."""

    data_id: int
    rows: int
    features: int


OPENML: dict[str, Remote] = {
    "letter": Remote(6, 20_000, 16),
    "pendigits": Remote(32, 10_992, 16),
    "image_segmentation": Remote(36, 2_310, 19),
    "satimage": Remote(182, 6_430, 36),
    "abalone": Remote(183, 4_177, 8),
    "wine": Remote(187, 178, 13),
    "triazines": Remote(190, 186, 60),
    "wisconsin_prognostic": Remote(191, 194, 32),
    "auto_price": Remote(195, 159, 15),
    "cpu_act": Remote(197, 8_192, 21),
    "delta_elevators": Remote(198, 9_517, 6),
    "pyrimidines": Remote(217, 74, 27),
    "house_8L": Remote(218, 22_784, 8),
    "cpu_small": Remote(227, 8_192, 12),
    "machine_cpu": Remote(230, 209, 6),
    "mnist": Remote(554, 70_000, 784),
    "house_16H": Remote(574, 22_784, 16),
    "skin_segmentation": Remote(1502, 245_057, 3),
    "adult": Remote(1590, 48_842, 14),
    "covtype": Remote(1596, 581_012, 54),
    "shuttle": Remote(40685, 58_000, 9),
}


def cache_folder() -> Path:
    """Where fetched sets are kept: ``ULMUS_CACHE``, or ``ulmus`` in the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ulmus"


def cached(name: str) -> bytes | None:
    """The content of a fetched set, if it is there and agrees with its checksum."""
    file = cache_folder() / f"{name}.npz"
    if not file.exists():
        return None
    content = file.read_bytes()
    stated = file.with_suffix(".sha256")
    if stated.exists() and stated.read_text().strip() == hashlib.sha256(content).hexdigest():
        return content
    warnings.warn(f"{file.name} in the cache does not agree with its checksum; it is fetched again", stacklevel=3)
    return None


def _ask_openml(**query: Any) -> Any:
    from sklearn.datasets import fetch_openml

    return fetch_openml(**query)


def fetch(name: str, fetcher: Callable[..., Any] = _ask_openml) -> bytes:
    """Fetch a set of ``OPENML``, check it, write it to the cache, and return the content of the cache file.

    scikit-learn compares what it receives with OpenML's own checksum. A download that fails there is fetched once more
    from nothing. A set of another size than the catalogue's is refused.
    """
    remote, folder = OPENML[name], cache_folder()
    scratch = folder / "openml" / name
    for last in (False, True):
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            with _progress(name, scratch):
                bunch = fetcher(
                    data_id=remote.data_id, as_frame=False, parser="liac-arff", data_home=str(scratch), n_retries=2
                )
            break
        except ValueError as error:  # scikit-learn's word for a checksum that does not match
            if last or "checksum" not in str(error):
                raise
            warnings.warn(f"the download of {name} was damaged ({error}); it is fetched again", stacklevel=3)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    data = np.asarray(bunch.data, dtype=np.float64)
    if data.shape != (remote.rows, remote.features):
        raise ValueError(
            f"OpenML's data set {remote.data_id} has shape {data.shape}, but {name} has "
            f"({remote.rows}, {remote.features}): it is another set or another version, and is not used"
        )
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        data=data,
        target=numbered(np.asarray(bunch.target)),
        feature_names=np.array([str(feature) for feature in bunch.feature_names]),
        splits=np.empty((0, len(data)), dtype=bool),
    )
    content = buffer.getvalue()
    write_bytes(folder / f"{name}.npz", content)
    write_bytes(folder / f"{name}.sha256", hashlib.sha256(content).hexdigest().encode())
    return content


def numbered(target: np.ndarray) -> np.ndarray:
    """Targets as numbers: floats as they are, labels that are whole numbers by value, other labels by sorted order."""
    if np.issubdtype(target.dtype, np.number):
        return target
    labels, codes = np.unique(target.astype(str), return_inverse=True)
    try:
        return np.array([int(label) for label in labels])[codes]
    except ValueError:
        return codes.astype(np.int64)


@contextmanager
def _progress(name: str, folder: Path) -> Iterator[None]:
    """A line on the terminal with what has arrived so far (OpenML does not say how much will come)."""
    if not sys.stderr.isatty():
        yield
        return
    start, done = monotonic(), threading.Event()

    def show() -> None:
        while not done.wait(0.25):
            arrived = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            print(f"\r{name}: {arrived / 1e6:.1f} MB in {monotonic() - start:.0f} s", end="", file=sys.stderr)

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        print(file=sys.stderr)

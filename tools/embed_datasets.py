"""Write the data sets that come with the package: ``python tools/embed_datasets.py FOLDER_OF_PARQUET_FILES``.

Only sets whose licence allows it (CC BY 4.0, or a published table of measurements), 2 MB in all. Values are kept
exactly: a table of whole numbers is stored in the smallest integer type that holds it, any other as it is. Files are
plain arrays, without pickled objects.
"""

import os
import sys
from pathlib import Path

import numpy as np

from ulmus.datasets.loader import FOLDER_VARIABLE, Dataset, read_parquet

NAMES = ("satimage", "wine", "image_segmentation", "pendigits", "abalone", "waveform21", "mcycle")
LIMIT_BYTES = 2_000_000


def smallest_exact(values: np.ndarray) -> np.ndarray:
    """The same values in the smallest integer type that holds them all, or unchanged."""
    for dtype in (np.uint8, np.int8, np.int16, np.int32):
        limits = np.iinfo(dtype)
        if limits.min <= values.min() and values.max() <= limits.max and (values == np.rint(values)).all():
            return values.astype(dtype)
    return values


def embed(dataset: Dataset, path: Path) -> None:
    """Write one set."""
    classes = np.issubdtype(dataset.target.dtype, np.integer)
    np.savez_compressed(
        path,
        data=smallest_exact(dataset.data),
        target=smallest_exact(dataset.target) if classes else dataset.target,
        feature_names=np.array(dataset.feature_names),
        splits=np.array(dataset.splits, dtype=bool).reshape(len(dataset.splits), len(dataset.target)),
    )


def main(folder: Path, out: Path) -> None:
    """Write every set of ``NAMES`` and report the sizes."""
    total = 0
    for name in NAMES:
        path = out / f"{name}.npz"
        embed(read_parquet(folder / f"{name}.parquet", np.float64), path)
        total += path.stat().st_size
        print(f"{name:20s} {path.stat().st_size:9,d} bytes")
    print(f"{'total':20s} {total:9,d} bytes")
    if total > LIMIT_BYTES:
        raise SystemExit(f"more than {LIMIT_BYTES:,d} bytes")


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get(FOLDER_VARIABLE)
    if not given:
        raise SystemExit(__doc__)
    main(Path(given), Path(__file__).parents[1] / "src" / "ulmus" / "datasets" / "data")

"""Data sets: what comes with the package, what is found in a folder, and what is said when neither holds it."""

import importlib.util
import sys
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import ulmus
from ulmus import datasets
from ulmus.datasets import download, loader

EMBEDDED = sorted(loader.embedded_names())
TOOL = Path(__file__).parents[1] / "tools" / "embed_datasets.py"


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    """An empty cache, and nobody to ask."""

    def unreachable(**_):
        raise URLError("no route to host")

    monkeypatch.setenv("ULMUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download.fetch, "__defaults__", (unreachable,))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of Parquet files that ULMUS_DATA names; the test fills it."""
    monkeypatch.setenv("ULMUS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("ULMUS_DATA", raising=False)


def write(path, **columns):
    parquet.write_table(pyarrow.table(columns), path)


def test_embedded_satimage_is_table_1_of_the_nkelm_document(no_folder):
    satimage = ulmus.datasets.load("satimage")
    X, y = satimage.train
    X_test, y_test = satimage.test
    assert (len(X), len(X_test), X.shape[1], len(np.unique(y))) == (4435, 2000, 36, 6)
    assert (len(y), len(y_test)) == (4435, 2000)
    labels, counts = np.unique(satimage.target, return_counts=True)
    assert dict(zip(labels, counts)) == {1: 1533, 2: 703, 3: 1358, 4: 626, 5: 707, 7: 1508}
    assert (satimage.data.min(), satimage.data.max()) == (27, 157)


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_are_clean_described_and_free_to_share(name, no_folder):
    dataset = datasets.load(name)
    assert dataset.data.dtype == np.float64
    assert np.isfinite(dataset.data).all()
    assert dataset.data.shape == (len(dataset.target), len(dataset.feature_names))
    assert dataset.licence.startswith(("CC BY 4.0", "133 measurements from a published table"))
    assert "doi.org" in dataset.citation
    assert all(split.dtype == bool and len(split) == len(dataset.target) for split in dataset.splits)
    assert np.issubdtype(dataset.target.dtype, np.floating) == (dataset.task == "regression")


def test_embedded_sets_stay_below_two_megabytes():
    assert sum(len((loader.EMBEDDED / f"{name}.npz").read_bytes()) for name in EMBEDDED) < 2_000_000


def test_dtype_is_the_callers_choice(no_folder):
    assert datasets.load("wine", dtype=np.float32).data.dtype == np.float32


def test_a_set_without_an_official_split_says_so(no_folder):
    wine = datasets.load("wine")
    assert wine.split is None
    with pytest.raises(ValueError, match="wine has no official split"):
        _ = wine.train


def test_unknown_name_error_lists_what_is_available_and_the_nearest_name(no_folder):
    with pytest.raises(ValueError, match=r"'satimag'.*ULMUS_DATA is not set.*Did you mean 'satimage'.*wine") as caught:
        datasets.load("satimag")
    assert "pendigits" in str(caught.value)


def test_known_set_that_is_not_here_says_where_to_put_it(folder):
    with pytest.raises(ValueError, match=r"Forest cover type.*holds no covtype\.parquet.*could not be reached"):
        datasets.load("covtype")
    with pytest.raises(ValueError, match=r"holds no covtype\.parquet(?!.*reached)"):
        datasets.load("covtype", download_if_missing=False)


def test_a_name_cannot_leave_the_folder(folder):
    write(folder.parent / "outside.parquet", x=[1.0], target=[1.0])
    with pytest.raises(ValueError, match="no data set"):
        datasets.load("../outside")


def test_parquet_in_the_folder_is_found_with_its_splits(folder):
    write(
        folder / "shuttle.parquet",
        a=pyarrow.array([1, 2, 3], pyarrow.float32()),
        b=[0.1, 0.2, 0.3],
        target=pyarrow.array([7, 1, 7], pyarrow.int32()),
        split_00=["train", "test", "train"],
        split_01=["test", "train", "train"],
    )
    shuttle = datasets.load("shuttle")
    assert "shuttle" in datasets.list()
    assert shuttle.feature_names == ("a", "b")
    np.testing.assert_array_equal(shuttle.data, [[1, 0.1], [2, 0.2], [3, 0.3]])
    np.testing.assert_array_equal(shuttle.train[1], [7, 7])
    np.testing.assert_array_equal(shuttle.part("test", split=1)[0], [[1, 0.1]])
    assert any("another UCI set" in trap for trap in shuttle.traps)


def test_a_file_of_ones_own_is_read_without_a_catalogue_entry(folder):
    write(folder / "mine.parquet", x=[1.0, 2.0], target=[0.5, 0.25])
    mine = datasets.load("mine")
    assert mine.task == "regression"
    assert "not known to the catalogue" in mine.licence


def test_a_file_without_target_is_refused_by_name(folder):
    write(folder / "mine.parquet", x=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"mine\.parquet has no column named target.*'x'"):
        datasets.load("mine")


def test_missing_pyarrow_names_the_extra(folder, monkeypatch):
    write(folder / "mine.parquet", x=[1.0], target=[1.0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "ulmus\[stream\]"'):
        datasets.load("mine")


def test_embedding_keeps_every_value(folder, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("embed_datasets", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    rng = np.random.RandomState(0)
    tables = {
        "bytes": rng.randint(0, 256, 20).astype(float),
        "signed": rng.randint(-128, 128, 20).astype(float),
        "wide": rng.randint(-40_000, 40_000, 20).astype(float),
        "real": rng.standard_normal(20),
    }
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(loader, "EMBEDDED", out)
    for name, x in tables.items():
        write(folder / f"{name}.parquet", x=x, target=np.arange(20), split=["train"] * 15 + ["test"] * 5)
        tool.embed(loader.read_parquet(folder / f"{name}.parquet", np.float64), out / f"{name}.npz")
        stored = datasets.load(name)
        np.testing.assert_array_equal(stored.data[:, 0], x)
        np.testing.assert_array_equal(stored.target, np.arange(20))
        assert len(stored.train[1]) == 15

"""Fetching data: checked on arrival, checked in the cache, fetched again when damaged."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ulmus import datasets
from ulmus.datasets import download

DATA = np.arange(209 * 6.0).reshape(209, 6)
TARGET = np.linspace(0, 1, 209)


class OpenML:
    """A stand-in for the network: answers, or fails with the given errors first."""

    def __init__(self, *errors, data=DATA, target=TARGET):
        self.errors, self.data, self.target, self.asked = list(errors), data, target, []

    def __call__(self, **asked):
        self.asked.append(asked["data_id"])
        if self.errors:
            raise self.errors.pop(0)
        return SimpleNamespace(
            data=self.data, target=self.target, feature_names=[f"x{j}" for j in range(self.data.shape[1])]
        )


@pytest.fixture
def serve(tmp_path, monkeypatch):
    monkeypatch.setenv("ULMUS_CACHE", str(tmp_path))
    monkeypatch.delenv("ULMUS_DATA", raising=False)

    def use(openml):
        monkeypatch.setattr(download.fetch, "__defaults__", (openml,))
        return openml

    return use


def test_a_fetched_set_is_the_servers_and_comes_from_the_cache_the_second_time(serve):
    openml = serve(OpenML())
    first = datasets.load("machine_cpu")
    again = datasets.load("machine_cpu")
    assert openml.asked == [230]
    for got in (first, again):
        assert_array_equal(got.data, DATA)
        assert_array_equal(got.target, TARGET)
        assert got.task == "regression"
        assert got.splits == ()
    assert "machine_cpu" in datasets.list()


def test_a_damaged_download_is_fetched_again(serve):
    openml = serve(OpenML(ValueError("md5 checksum of local file does not match description")))
    with pytest.warns(UserWarning, match="machine_cpu was damaged.*fetched again"):
        assert_array_equal(datasets.load("machine_cpu").data, DATA)
    assert openml.asked == [230, 230]


def test_a_download_that_stays_damaged_is_refused(serve, tmp_path):
    damaged = ValueError("md5 checksum of local file does not match description")
    serve(OpenML(damaged, damaged))
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(ValueError, match="checksum"):
        datasets.load("machine_cpu")
    assert not list(tmp_path.glob("*.npz"))


@pytest.mark.parametrize("damage", ["flip", "cut", "no checksum"])
def test_a_damaged_cache_is_fetched_again(serve, tmp_path, damage):
    openml = serve(OpenML())
    datasets.load("machine_cpu")
    file = tmp_path / "machine_cpu.npz"
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    elif damage == "cut":
        content = content[:-10]
    else:
        (tmp_path / "machine_cpu.sha256").unlink()
    file.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="does not agree with its checksum"):
        assert_array_equal(datasets.load("machine_cpu").data, DATA)
    assert openml.asked == [230, 230]


def test_a_set_of_another_size_is_not_taken_for_the_one_wanted(serve):
    serve(OpenML(data=DATA[:-1]))
    with pytest.raises(ValueError, match=r"data set 230 has shape \(208, 6\), but machine_cpu has \(209, 6\)"):
        datasets.load("machine_cpu")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(["3", "1", "3"], [3, 1, 3]), (["b", "a", "b"], [1, 0, 1]), ([0.5, 2.0, 1.0], [0.5, 2.0, 1.0])],
)
def test_labels_become_numbers(given, wanted):
    assert_array_equal(download.numbered(np.array(given)), wanted)


def test_every_remote_set_is_in_the_catalogue():
    assert set(download.OPENML) <= set(datasets.CATALOGUE)

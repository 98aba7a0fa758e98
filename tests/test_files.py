"""A file is written whole or not at all, and never onto one that is read."""

import os
import stat
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ulmus
from ulmus import _files, streaming
from ulmus._files import SameFileError, refuse_inputs, refuse_same, replacing, write_bytes
from ulmus.cli import main
from ulmus.cli.console import BAD_TABLE, OK, USAGE
from ulmus.tables.read import read_table
from ulmus.tables.write import Writer

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def test_a_block_that_raises_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(problem):
        with replacing(path) as file:
            file.write(b"half of the new")
            raise problem

    for problem in (ValueError, KeyboardInterrupt):
        with pytest.raises(problem):
            fail(problem)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_reader_sees_the_old_file_until_the_block_ends(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_of_a_replaced_file_is_kept_and_a_new_one_has_that_of_the_umask(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_bytes(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    write_bytes(tmp_path / "fresh", b"new")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "fresh").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    for name in ("there", "not yet"):
        link = tmp_path / f"link to {name}"
        link.symlink_to(tmp_path / "far" / name)
        write_bytes(link, b"new")
        assert link.is_symlink()
        assert (tmp_path / "far" / name).read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path / "far")) == ["not yet", "there"]


def test_a_pipe_and_a_device_are_written_to(tmp_path):
    write_bytes("/dev/null", b"gone")
    assert not Path("/dev/null").is_file()
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_bytes(tmp_path / "pipe", b"through")
    reader.join()
    assert found == [b"through"]


def test_a_name_of_255_bytes_can_be_written(tmp_path):
    path = tmp_path / ("ä" * 127 + "x")
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"


def test_what_cannot_be_written_is_said_with_its_name(tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_bytes(tmp_path, b"")
    with pytest.raises(FileNotFoundError, match=r"no/file cannot be written"):
        write_bytes(tmp_path / "no" / "file", b"")
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="read-only and was not overwritten"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"


def test_an_input_is_recognised_under_every_name(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    path.write_text("x")
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("data.csv", "./data.csv", "folder/../data.csv", "link", "hard", path):
        with pytest.raises(SameFileError, match="would be lost"):
            refuse_inputs(name, ["other", path], "-o")
    for name in ("other", "folder/data.csv", "/dev/null"):
        refuse_inputs(name, [path, "/dev/null"], "-o")
    with pytest.raises(SameFileError, match="-o and --report name the same file"):
        refuse_same({"-o": "a", "--report": "folder/../a"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"a": rng.normal(size=60).round(3), "b": rng.normal(size=60).round(3)})
    frame["y"] = (frame["a"] - frame["b"]).round(3)
    frame.to_csv(folder / "data.csv", index=False)
    frame.to_parquet(folder / "data.parquet")
    os.link(folder / "data.csv", folder / "hard.csv")
    (folder / "link.csv").symlink_to(folder / "data.csv")
    assert main(["fit", str(folder / "data.csv"), "--target", "y", "--model", "nkelm", "-o", str(folder / "m")]) == OK
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "predict m data.csv --keep -o data.csv",
        "predict m data.csv --keep -o link.csv",
        "predict m hard.csv -o data.csv",
        "predict m data.parquet -o data.parquet",
        "predict m data.csv -o m",
        "fit data.csv --target y -o data.csv",
        "fit data.csv --target y --report ./data.csv",
        "fit data.csv --target y --test data.parquet -o data.parquet",
        "fit data.csv --target y -o new --report new",
        "fit data.csv --target y --stream -o hard.csv",
        "project data.csv --target y -o link.csv",
        "export m m",
    ],
)
def test_a_command_refuses_to_write_onto_what_it_reads(folder, monkeypatch, capsys, command):
    monkeypatch.chdir(folder)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert main(command.split()) == USAGE
    assert "lost" in capsys.readouterr().err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_standard_input_from_the_output_is_refused(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before, own = (folder / "data.csv").read_bytes(), os.dup(0)
    try:
        with open("data.csv", "rb") as data:
            os.dup2(data.fileno(), 0)
            assert main(["predict", "m", "-", "-o", "data.csv"]) == USAGE
    finally:
        os.dup2(own, 0)
        os.close(own)
    assert "standard input" in capsys.readouterr().err
    assert (folder / "data.csv").read_bytes() == before


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.jsonl", "out.csv.gz"])
def test_a_bad_row_far_down_keeps_the_predictions_that_were_there(folder, tmp_path, monkeypatch, name):
    monkeypatch.setattr("ulmus.tables.pieces.BATCH", 1 << 9)
    (tmp_path / "bad.csv").write_text((folder / "data.csv").read_text() + "1,2,3,4,5\n")
    (tmp_path / name).write_bytes(b"precious")
    assert main(["predict", str(folder / "m"), str(tmp_path / "bad.csv"), "-o", str(tmp_path / name)]) == BAD_TABLE
    assert (tmp_path / name).read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["bad.csv", name]


def test_a_writer_closes_what_it_opened_and_the_table_is_whole(tmp_path):
    import pyarrow as pa

    for name in ("t.csv", "t.csv.gz", "t.csv.zst", "t.parquet", "t.jsonl.bz2"):
        with Writer(str(tmp_path / name)) as writer:
            for _ in range(3):
                writer.write(pa.table({"x": [1, 2]}))
        found = read_table(str(tmp_path / name)).columns["x"]
        assert [int(v) for v in found.to_pylist()] == [1, 2] * 3


def test_streamed_predictions_are_not_written_onto_their_source(tmp_path):
    X = np.random.RandomState(0).normal(size=(50, 2))
    pd.DataFrame(X, columns=["a", "b"]).to_parquet(tmp_path / "rows.parquet")
    np.save(tmp_path / "rows.npy", X)
    model = ulmus.ELMRegressor(5, slope=1.0, C=1.0, random_state=0).fit(X, X[:, 0])
    with pytest.raises(SameFileError):
        streaming.predict(model, tmp_path / "rows.parquet", tmp_path / "rows.parquet")
    (tmp_path / "alias.parquet").symlink_to(tmp_path / "rows.npy")
    with pytest.raises(SameFileError):
        streaming.predict(model, (np.load(tmp_path / "rows.npy", mmap_mode="r"),), tmp_path / "alias.parquet")


def test_threads_that_save_to_one_path_never_show_half_a_file(tmp_path):
    """The unfinished file of every thread has a name of its own."""
    X = np.random.RandomState(0).normal(size=(200, 5))
    small, large = (ulmus.KELMRegressor(gamma=0.1, C=1.0).fit(X[:n], X[:n, 0]) for n in (20, 200))
    path = tmp_path / "model.ulmus"
    ulmus.save(small, path)
    failures: list[BaseException] = []
    saving = threading.Event()

    def save(model):
        try:
            for _ in range(40):
                ulmus.save(model, path)
        except BaseException as error:
            failures.append(error)

    def read():
        while not saving.is_set():
            try:
                ulmus.load(path)
            except BaseException as error:
                failures.append(error)

    reader = threading.Thread(target=read)
    savers = [threading.Thread(target=save, args=(m,)) for m in (small, large, small, large)]
    for thread in (reader, *savers):
        thread.start()
    for thread in savers:
        thread.join()
    saving.set()
    reader.join()
    assert failures == []
    assert os.listdir(tmp_path) == ["model.ulmus"]


def test_unfinished_files_of_one_path_differ(tmp_path):
    with replacing(tmp_path / "file"), replacing(tmp_path / "file"):
        assert len({name for name in os.listdir(tmp_path) if name.endswith(_files.UNFINISHED)}) == 2

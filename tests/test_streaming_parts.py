"""The parts of a streamed fit: survey, journal and progress."""

import os
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from data import classification, examples, regression
from ulmus.features.sampling import joint_keys, label_keys, row_keys
from ulmus.streaming import CheckpointError, SourceError
from ulmus.streaming.batches import Batch
from ulmus.streaming.journal import Journal, Saved
from ulmus.streaming.progress import Progress, Report
from ulmus.streaming.sources import open_source
from ulmus.streaming.stream import Stream
from ulmus.streaming.survey import Survey

X, Y = regression(500)
LABELS = np.array(["a", "b", "c"])[classification(500)[1]]
W = np.random.RandomState(1).randint(0, 4, 500).astype(float)


def surveyed(X, y, w=None, batch_rows=64, count=40, classifier=False, n_jobs=1, journal=None):
    stream = Stream(open_source((X, y, w)), batch_rows, journal or Journal(None, {}, seconds=None, rows=None))
    stream.n_jobs = n_jobs
    survey = Survey(count, seed=7, classifier=classifier)
    return stream.reduce("survey", survey, survey.look)


def same_sample(a, b):
    np.testing.assert_array_equal(a.keys, b.keys)
    np.testing.assert_array_equal(a.X.toarray() if sparse.issparse(a.X) else a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.mass, b.mass)


@settings(max_examples=examples(30))
@given(batch_rows=st.integers(20, 600), count=st.integers(1, 600), repeats=st.integers(1, 3))
def test_the_sample_is_that_of_all_rows_at_once_for_any_batches(batch_rows, count, repeats):
    many = np.tile(X, (repeats, 1))
    survey = surveyed(many, np.tile(Y, repeats), batch_rows=batch_rows, count=count)
    keys = joint_keys(row_keys(many, 7), label_keys(np.tile(Y, repeats)))
    _, first, mass = np.unique(keys, return_index=True, return_counts=True)
    np.testing.assert_array_equal(survey.X, many[first[:count]])
    np.testing.assert_array_equal(survey.mass, mass[:count])
    assert survey.n_rows == repeats * 500
    assert (survey.sample_weight is None) == (repeats == 1)


def test_the_sample_does_not_depend_on_order_threads_weights_or_zeros():
    base = surveyed(np.repeat(X, W.astype(int), axis=0), np.repeat(Y, W.astype(int)))
    order = np.random.RandomState(2).permutation(500)
    for n_jobs in (1, 2):
        same_sample(surveyed(X[order], Y[order], W[order], batch_rows=33, n_jobs=n_jobs), base)
    same_sample(surveyed(sparse.csr_array(X), Y, W), base)
    assert base.weight == surveyed(X, Y, W).weight == W.sum()


def test_equal_inputs_with_other_targets_are_rows_of_their_own():
    """One target of each of few distinct rows says nothing of the noise: C had no bound then, and intervals no base."""
    levels = np.repeat(np.arange(9.0), 30)[:, None]
    targets = np.random.RandomState(0).normal(size=270)
    survey = surveyed(levels, targets, count=300)
    assert sorted(survey.y) == sorted(targets)
    assert survey.sample_weight is None
    twice = surveyed(np.tile(levels, (2, 1)), np.tile(targets, 2), count=300)
    assert (twice.mass == 2).all()
    assert (twice.sample_unit == 1).all()  # of nine distinct inputs, equal ones may be a chance


def test_every_class_is_counted_with_its_weight():
    survey = surveyed(X, LABELS, W, count=5, classifier=True)
    assert survey.classes.tolist() == ["a", "b", "c"]
    assert survey.class_mass.tolist() == [W[c == LABELS].sum() for c in "abc"]


@pytest.mark.parametrize("column", [0, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_values_are_named_by_row_and_column(column, value):
    bad = X.copy()
    bad[321, column] = value
    with pytest.raises(SourceError, match=rf"row 321 of the source .* column {column}; .*preprocess="):
        surveyed(bad, Y)


def test_bad_targets_and_weights_are_named_by_row():
    y, w = Y.copy(), W.copy()
    y[77], w[88] = np.nan, -1
    with pytest.raises(SourceError, match="row 77 of the source has a missing or infinite target"):
        surveyed(X, y)
    with pytest.raises(SourceError, match="row 88 of the source has weight -1"):
        surveyed(X, Y, w)
    with pytest.raises(SourceError, match="targets must be numbers"):
        surveyed(X, LABELS)


def test_values_near_the_largest_float_are_no_infinities():
    assert surveyed(np.full((20, 2), 1.5e308), np.arange(20.0)).n_rows == 20


@pytest.mark.parametrize("classifier", [False, True])
@pytest.mark.parametrize("rows", [X, sparse.csr_array(X)], ids=["dense", "sparse"])
def test_a_survey_that_was_saved_half_way_ends_the_same(rows, classifier, tmp_path):
    y = LABELS if classifier else Y
    whole = surveyed(rows, y, W, classifier=classifier)
    journal = Journal(tmp_path, {}, seconds=None, rows=100)
    half = Stream(open_source((rows, y, W)), 64, journal, n_jobs=1)
    survey = Survey(40, seed=7, classifier=classifier)

    def look(batch: Batch):
        if batch.start >= 256:
            raise KeyboardInterrupt
        return survey.look(batch)

    with pytest.raises(KeyboardInterrupt):
        half.reduce("survey", survey, look)
    assert journal.load("survey").rows == 256
    journal.close()
    again = surveyed(rows, y, W, classifier=classifier, journal=Journal(tmp_path, {}, seconds=None, rows=100))
    for survey in (again, surveyed(rows, y, W, classifier=classifier, journal=journal)):
        np.testing.assert_array_equal(survey.keys, whole.keys)
        np.testing.assert_array_equal(survey.y, whole.y)
        np.testing.assert_array_equal(survey.mass, whole.mass)
        np.testing.assert_array_equal(survey.class_mass, whole.class_mass)
        assert (survey.X != whole.X).sum() == 0
        assert (survey.n_rows, survey.weight) == (whole.n_rows, whole.weight)


def test_batches_that_differ_from_those_in_the_checkpoint_are_refused(tmp_path):
    def source(first):
        rows = X.copy()
        rows[3, 0] = first
        return open_source([(rows[:200], Y[:200]), (rows[200:], Y[200:])])

    def run(first, stop=None):
        survey = Survey(40, seed=7, classifier=False)

        def look(batch):
            if batch.start == stop:
                raise KeyboardInterrupt
            return survey.look(batch)

        with closing(Journal(tmp_path, {}, seconds=0, rows=None)) as journal:
            return Stream(source(first), 64, journal, n_jobs=1).reduce("survey", survey, look)

    with pytest.raises(KeyboardInterrupt):
        run(0.5, stop=256)
    with pytest.raises(CheckpointError, match="first 256 rows of the source are not those"):
        run(0.25)
    assert run(0.5).n_rows == 500


def test_a_journal_gives_back_what_was_saved(tmp_path):
    journal = Journal(tmp_path / "new" / "folder", {"C": 1.0}, seconds=None, rows=None)
    assert journal.load("sums") is None
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(["x", "yy"])}
    journal.save("sums", Saved(12, False, arrays, {"n": 3}))
    journal.close()
    found = Journal(tmp_path / "new" / "folder", {"C": 1.0}, seconds=None, rows=None).load("sums")
    assert (found.rows, found.done, found.notes) == (12, False, {"n": 3})
    assert all((found.arrays[k] == v).all() for k, v in arrays.items())


def test_a_journal_of_another_run_is_refused_with_the_reason(tmp_path):
    Journal(tmp_path, {"parameters": {"C": 1.0, "gamma": 2}, "files": {"a": [1, 2]}}, seconds=None, rows=None)
    with pytest.raises(CheckpointError, match=r"parameters C was 1.0, is now 2.0; files a is gone; files b is new"):
        Journal(tmp_path, {"parameters": {"C": 2.0, "gamma": 2}, "files": {"b": [1, 2]}}, seconds=None, rows=None)


@pytest.mark.parametrize("name", ["sums.npz", "identity.json"])
def test_a_damaged_file_of_a_journal_is_named(name, tmp_path):
    journal = Journal(tmp_path, {"C": 1.0}, seconds=None, rows=None)
    journal.save("sums", Saved(12, False, {"a": np.arange(1000.0)}))
    journal.close()
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        Journal(tmp_path, {"C": 1.0}, seconds=None, rows=None).load("sums")


def test_files_of_an_interrupted_write_are_swept_away(tmp_path):
    (tmp_path / "sums.npz.77.partial").write_bytes(b"half")
    Journal(tmp_path, {}, seconds=None, rows=None).close()
    assert [p.name for p in tmp_path.iterdir()] == ["identity.json"]


def test_a_full_disk_names_the_file_and_keeps_the_last_checkpoint(tmp_path, full_disk):
    with closing(Journal(tmp_path, {}, seconds=None, rows=None)) as journal:
        journal.save("sums", Saved(5, False, {"a": np.ones(10)}))
        with full_disk(50_000), pytest.raises(CheckpointError) as raised:
            journal.save("sums", Saved(9, False, {"a": np.ones(100_000)}))
        assert str(tmp_path / "sums.npz") in str(raised.value)
        assert "the checkpoint before it is kept" in str(raised.value)
        assert journal.load("sums").rows == 5
    assert sorted(os.listdir(tmp_path)) == ["identity.json", "sums.npz"]


def test_progress_reports_rows_rate_and_time_left():
    reports = []
    with Progress("sums", total=100, show=reports.append, every=0.0) as progress:
        for _ in range(4):
            progress.advance(25)
    assert [r.rows for r in reports] == [25, 50, 75, 100, 100]
    assert all(r.rate > 0 and r.total == 100 for r in reports)
    assert reports[-1].left == 0
    assert str(Report("sums", 1500, 3000, 500.0, 3.0)) == "sums: 1,500 of 3,000 rows, 500 rows/s, 0:03 left"
    assert str(Report("sums", 1500, None, 500.0, None)) == "sums: 1,500 rows, 500 rows/s"


@pytest.mark.parametrize("show", ["plain", "rich", True])
def test_progress_is_shown_on_stderr(show, capsys):
    with Progress("sums", total=100, show=show, every=0.0) as progress:
        progress.advance(60)
    shown = capsys.readouterr()
    assert "60 of 100 rows" in shown.err
    assert not shown.out


def test_progress_is_silent_away_from_a_terminal(capsys):
    with Progress("sums", total=100) as progress:
        progress.advance(60)
    assert capsys.readouterr().err == ""

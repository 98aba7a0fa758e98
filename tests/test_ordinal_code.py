"""The ordered code and its decoders: every claim of the document and of its repairs, against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from ulmus.codings import DECODERS, MARGIN, OneVsAll, Ordered, decreasing_fit

TABLE_2 = np.array([[1, -1, -1, -1, -1], [1, 1, -1, -1, -1], [1, 1, 1, -1, -1], [1, 1, 1, 1, -1], [1, 1, 1, 1, 1]])

bits_of_five = arrays(float, (8, 4), elements=st.floats(-4, 4, width=32))


def ordered(n_classes=5, decoding="loss"):
    return Ordered(np.arange(1, n_classes + 1), np.arange(n_classes), decoding)


def with_first_bit(o, first=0.7):
    """The document's M bits: the first one is +1 in every code."""
    return np.column_stack([np.full(len(o), first), o])


def loss_of_codes(o, C):
    """``D_k = Σ_j exp(−o_j c_j)`` for every row of ``o`` and every code."""
    return np.exp(-o[:, None, :] * C).sum(axis=2)


def test_codes_are_table_2_without_its_first_column():
    np.testing.assert_array_equal(ordered().encode(np.arange(5)), TABLE_2[:, 1:])


def test_codes_differ_in_as_many_bits_as_their_ranks_so_mae_is_hamming_distance():
    code = ordered()
    T = code.encode(np.arange(5))
    ranks = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    np.testing.assert_array_equal((T[:, None] != T).sum(axis=2), ranks)
    np.testing.assert_array_equal(np.abs(T[:, None] - T).sum(axis=2) / 2, ranks)
    rng = np.random.RandomState(0)
    o, true = rng.normal(size=(200, 4)), rng.randint(5, size=200)
    decoded = code.encode(code.best(o))
    hamming = (decoded != code.encode(true)).sum(axis=1)
    np.testing.assert_array_equal(code.losses(code.encode(true), o, "absolute"), hamming)
    np.testing.assert_array_equal(code.losses(code.encode(true), o, "error"), hamming > 0)


@given(bits_of_five)
def test_neighbouring_losses_differ_by_twice_a_sinh(o):
    D = loss_of_codes(with_first_bit(o), TABLE_2)
    np.testing.assert_allclose(np.diff(D, axis=1), -2 * np.sinh(o), atol=1e-12 * D.max())


@given(bits_of_five)
def test_loss_based_decoding_is_the_class_of_least_loss(o):
    D = loss_of_codes(with_first_bit(o), TABLE_2)
    chosen = ordered().best(o)
    # ties may go either way
    assert (D[np.arange(len(o)), chosen] <= D.min(axis=1) * (1 + 1e-12)).all()


@given(bits_of_five, st.floats(-3, 3))
def test_the_first_bit_never_changes_the_decision(o, first):
    with_it = loss_of_codes(with_first_bit(o, first), TABLE_2)
    without = loss_of_codes(o, TABLE_2[:, 1:])
    np.testing.assert_allclose(with_it - with_it[:, :1], without - without[:, :1], atol=1e-11 * with_it.max())


@pytest.mark.parametrize("decoding", DECODERS)
def test_monotone_bits_are_decoded_by_counting(decoding):
    o = -np.sort(-np.random.RandomState(0).normal(size=(300, 6)), axis=1)
    np.testing.assert_array_equal(ordered(7, decoding).best(o), (o > 0).sum(axis=1))


def test_decoders_differ_where_bits_are_not_monotone():
    o = np.array([[-0.1, 2.0, -1.0], [-2.0, 0.1, 0.1]])
    assert ordered(4, "loss").best(o).tolist() == [2, 0]
    assert ordered(4, "threshold").best(o).tolist() == [1, 2]
    assert ordered(4, "hamming").best(o).tolist() == [0, 3]


@given(bits_of_five)
def test_hamming_decoding_is_the_nearest_code_word(o):
    signs = np.sign(o)
    distance = np.abs(signs[:, None] - ordered().encode(np.arange(5))).sum(axis=2)
    np.testing.assert_array_equal(ordered(5, "hamming").best(o), distance.argmin(axis=1))


@given(bits_of_five)
def test_mirrored_bits_give_mirrored_classes(o):
    code = ordered()
    D = np.sort(loss_of_codes(o, TABLE_2[:, 1:]), axis=1)
    clear = D[:, 1] - D[:, 0] > 1e-9 * D[:, 1]  # a tie goes to the lower class on both sides
    np.testing.assert_array_equal(code.best(-o[:, ::-1])[clear], 4 - code.best(o)[clear])


@given(arrays(float, (8, 5), elements=st.floats(-4, 4, width=32)))
def test_loss_based_decoding_of_the_nominal_code_is_the_largest_output(o):
    nominal = OneVsAll(np.arange(5)).encode(np.arange(5))
    D = loss_of_codes(o, nominal)
    assert (D[np.arange(len(o)), o.argmax(axis=1)] <= D.min(axis=1) * (1 + 1e-12)).all()


@given(bits_of_five)
def test_loss_based_decoding_counts_the_positive_values_of_the_isotonic_fit(o):
    v = np.sinh(o.astype(float))
    fit = np.array([IsotonicRegression(increasing=False).fit_transform(np.arange(4), row) for row in v])
    clear = (np.abs(fit) > 1e-9).all(axis=1)  # a pool whose mean is 0 is a tie
    np.testing.assert_array_equal(ordered().best(o)[clear], (fit > 0).sum(axis=1)[clear])
    np.testing.assert_array_equal((ordered().repaired(o) > 0).sum(axis=1)[clear], ordered().best(o)[clear])


@given(arrays(float, (6, 7), elements=st.floats(-10, 10, width=32)), arrays(float, 7, elements=st.integers(1, 5)))
def test_the_decreasing_fit_is_isotonic_regression(v, weight):
    model, x = IsotonicRegression(increasing=False), np.arange(7)
    expected = [model.fit(x, row, weight).predict(x) for row in v]
    np.testing.assert_allclose(decreasing_fit(v, weight), expected, atol=1e-9)


@pytest.mark.parametrize("decoding", DECODERS)
@pytest.mark.parametrize("scale", [1.0, 40.0, 2000.0])
def test_scores_agree_with_the_decoder_and_stay_finite(decoding, scale):
    o = scale * np.random.RandomState(0).normal(size=(500, 9))
    code = ordered(10, decoding)
    scores = code.class_scores(o)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores.argmax(axis=1), code.best(o))
    assert np.isfinite(code.ladder(o)).all()
    assert (np.diff(code.repaired(o), axis=1) <= 1e-9 * scale).all()


def test_scores_are_differences_of_losses():
    o = np.random.RandomState(0).normal(size=(50, 4))
    D = loss_of_codes(o, TABLE_2[:, 1:])
    np.testing.assert_allclose(ordered().class_scores(o), (D.min(axis=1, keepdims=True) - D) / 2, atol=1e-12)


def test_a_sure_bit_does_not_hide_the_others():
    o = np.array([[800.0, 1.0, -1.0], [60.0, 1.0, -1.0], [-60.0, 61.0, -1.0], [-800.0, 799.0, -1.0]])
    assert ordered(4).best(o).tolist() == [2, 2, 2, 0]


def test_bits_of_absent_classes_are_not_read_and_the_classes_never_decoded():
    labels = np.array(["a", "b", "c", "d", "e", "f"])
    code = Ordered(labels, np.array([1, 2, 4]))
    np.testing.assert_array_equal(code.read(code.encode(np.array([1, 2, 4]))), [[-1, -1], [1, -1], [1, 1]])
    o = np.random.RandomState(0).normal(size=(400, 5))
    assert set(code.decode(o)) == {"b", "c", "e"}
    scores = code.class_scores(o)
    assert scores.shape == (400, 6)
    np.testing.assert_array_equal(labels[scores.argmax(axis=1)], code.decode(o))


def test_a_bit_between_distant_classes_counts_for_their_distance():
    full, gappy = ordered(4), Ordered(np.arange(1, 5), np.array([0, 1, 3]))
    o = np.random.RandomState(0).normal(size=(100, 3))
    written_out = o[:, [0, 2, 2]]  # the bits of the absent third class, and of the fourth, are the same
    np.testing.assert_array_equal(gappy.best(o), full.best(written_out))
    np.testing.assert_allclose(gappy.class_scores(o), full.class_scores(written_out), atol=1e-12)
    indices = np.random.RandomState(1).choice([0, 1, 3], 100)
    for criterion in ("auto", "absolute", "error", "squared"):
        np.testing.assert_allclose(
            gappy.losses(gappy.encode(indices), o, criterion),
            full.losses(full.encode(indices), written_out, criterion),
            atol=1e-12,
        )


def test_the_soft_error_is_the_rank_error_far_from_the_borders():
    rng = np.random.RandomState(0)
    code = ordered()
    T, o = code.encode(rng.randint(5, size=300)), rng.normal(size=(300, 4))
    repaired = code.repaired(100 * o)
    clear = (np.abs(repaired) > 1).all(axis=1)
    assert (repaired != 100 * o)[clear].any(axis=1).sum() > 200
    soft, plain = (code.losses(T, 100 * o, criterion)[clear] for criterion in ("auto", "absolute"))
    np.testing.assert_allclose(soft, plain, atol=1e-8)  # expit(-20) = 2e-9
    two = ordered(2)
    np.testing.assert_allclose(two.losses(T[:, :1], o[:, :1], "auto"), expit(-2 * (T * o)[:, 0] / MARGIN), rtol=1e-12)


@pytest.mark.parametrize(
    ("old", "new"),
    [([1, 2], [1, 2, 3]), ([1, 2, 3], [0, 1, 2, 3]), ([1, 3, 7], [1, 2, 3, 5, 7, 9]), ([2, 4], [1, 2, 3, 4, 5])],
    ids=["on top", "below", "between and on top", "everywhere"],
)
def test_codes_of_more_classes_follow_from_those_of_fewer(old, new):
    old, new = np.array(old), np.array(new)
    few, many = (Ordered(labels, np.arange(len(labels))) for labels in (old, new))
    T = few.encode(np.arange(len(old)))
    recoded = np.column_stack([T, np.ones(len(T))]) @ many.recoded(old)
    np.testing.assert_array_equal(recoded, many.encode(np.searchsorted(new, old)))

"""Triton's tiles, on a GPU or through Triton's interpreter."""

import numpy as np
import pytest

from data import regression, relative_error
from gpu import DEVICE, accelerator, torch
from ulmus import NKELMRegressor
from ulmus.devices import triton_kernels as tiles
from ulmus.devices.iterative import DeviceNormal, fusable
from ulmus.devices.tensors import DeviceRows
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters

#: What a tile in float32 may be wrong by: 22 bits of the rows and of the weights, and the exponential's own error.
SINGLE = 2e-6


def sides(n_a, n_b, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    A, B = (torch.randn(n, d, generator=generator, dtype=torch.float64) * d**-0.5 for n in (n_a, n_b))
    return A.to(accelerator().device), B.to(accelerator().device), generator


def kernel_matrix(kind, A, B):
    """From differences, in float64."""
    q = ((A[:, None] - B[None]) ** 2).sum(2)
    return {
        "rbf": lambda: torch.exp2(-q),
        "laplacian": lambda: torch.exp2(-q.sqrt()),
        "matern32": lambda: (1 + q.sqrt()) * torch.exp(-q.sqrt()),
    }[kind]()


@pytest.mark.parametrize("kind", tiles.KINDS)
@pytest.mark.parametrize(
    ("d", "columns"), [(3, 1), (15, 1), (15, 17), (28, 3)], ids=["spare", "extra", "many", "several"]
)
def test_tiles_multiply_as_the_kernel_matrix_does(kind, d, columns):
    A, B, generator = sides(70, 150, d)
    V = torch.randn(150, columns, generator=generator, dtype=torch.float64).to(A.device)
    K = kernel_matrix(kind, A, B)
    left, right = tiles.Side(A, left=True), tiles.Side(B, left=False)
    assert relative_error(tiles.product(left, right, V, kind).cpu(), (K @ V).cpu()) < SINGLE
    U = K @ V
    assert relative_error(tiles.product(right, left, U, kind).cpu(), (K.T @ U).cpu()) < SINGLE


@pytest.mark.parametrize("kind", tiles.KINDS)
def test_exact_tiles_keep_float64(kind):
    A, B, generator = sides(70, 150, 5)
    V = torch.randn(150, 2, generator=generator, dtype=torch.float64).to(A.device)
    left, right = tiles.ExactSide(A, left=True), tiles.ExactSide(B, left=False)
    K = kernel_matrix(kind, A, B)
    assert relative_error(tiles.exact_product(left, right, V, kind).cpu(), (K @ V).cpu()) < 1e-13
    assert relative_error(tiles.exact_values(left, right, kind).cpu(), K.cpu()) < 1e-13


def test_rounded_values_lose_the_bits_asked_for_and_are_right_on_average():
    A, B, _ = sides(100, 200, 4)
    K = kernel_matrix("rbf", A, B).cpu()
    rounded = tiles.exact_values(tiles.ExactSide(A, left=True), tiles.ExactSide(B, left=False), "rbf", 22).cpu()
    assert not (rounded.view(torch.int64) & (2**22 - 1)).any()
    error = (rounded / K - 1).numpy()
    assert 2.0**-33 < np.abs(error).max() <= 2.0**-31
    assert abs(error.mean()) < np.abs(error).max() / 50  # truncation would give a half


def test_few_rows_share_their_columns_among_programs(monkeypatch):
    A, B, generator = sides(40, 1100, 3)
    V = torch.randn(1100, 1, generator=generator, dtype=torch.float64).to(A.device)
    left, right = tiles.Side(A, left=True), tiles.Side(B, left=False)
    monkeypatch.setattr(tiles, "PROGRAMS", 1)
    alone = tiles.product(left, right, V, "rbf")
    monkeypatch.setattr(tiles, "PROGRAMS", 64)
    assert tiles._division(40, 1100, 64, 128)[1] == 2
    assert relative_error(tiles.product(left, right, V, "rbf").cpu(), alone.cpu()) < 1e-6


def system(kernel, gamma, *, offset=0.0, **options):
    X, y = regression(150)
    cross = CrossKernel(kernel, X[:30] + offset, KernelParameters(gamma))
    a = accelerator()
    rows = Rows(X + offset, y[:, None], np.arange(1.0, 151.0) % 3 + 1)
    return DeviceNormal(a, cross, DeviceRows(a, rows), 1.0, **options), cross, rows


# A landmark's distance to itself comes out as the root of round-off, to which the cusp of the laplacian is sensitive:
# every fifth row is a landmark here. Verified residuals see 1e-8 of it, iterations 3e-4 of a value in 30.
@pytest.mark.parametrize(
    ("kernel", "gamma", "fast", "exact"),
    [("rbf", 0.3, SINGLE, 1e-12), ("laplacian", 0.5, 1e-4, 1e-8), ("matern32", 0.4, SINGLE, 1e-12)],
)
def test_products_through_tiles_are_those_of_the_normal_equations(kernel, gamma, fast, exact):
    normal, cross, rows = system(kernel, gamma)
    assert normal.fused is not None
    K, Z = np.empty((150, 30)), np.empty((30, 30))
    cross.transform_block(rows.X, K)
    cross.transform_block(cross.Z, Z)
    H = K.T @ (rows.weight[:, None] * K) + Z
    P = np.random.RandomState(0).normal(size=(30, 1))
    tensor = normal.accelerator.tensor(P)
    assert relative_error(normal.product(tensor).cpu(), H @ P) < fast
    b = K.T @ (rows.weight[:, None] * rows.T)
    assert relative_error(normal.residual(tensor).cpu(), b - H @ P) < exact


def test_rows_too_far_out_for_half_precision_are_not_fused():
    normal, _, _ = system("rbf", 0.3)
    assert normal.fused is not None
    wide = np.vstack([np.eye(3), 400 * np.eye(3)])
    a = accelerator()
    cross = CrossKernel("rbf", wide[:3], KernelParameters(1.0))
    far = DeviceNormal(a, cross, DeviceRows(a, Rows(wide, np.ones((6, 1)))), 1.0)
    assert far.fused is None
    assert np.isfinite(far.solve(1e-6, 50)[0].a).all()


def test_kernels_that_tiles_do_not_know_are_not_fused():
    X = np.eye(4)
    assert not fusable(accelerator(), CrossKernel("poly", X, KernelParameters()))
    assert not fusable(accelerator(), CrossKernel("rbf", np.zeros((2, tiles.MOST_FEATURES + 1)), KernelParameters()))
    assert fusable(accelerator(), CrossKernel("rbf", X, KernelParameters()))


def test_a_fit_through_tiles_agrees_with_the_direct_one_on_the_cpu():
    X, y = regression(200)
    given = {"n_landmarks": 25, "gamma": 0.3, "C": 1.0, "random_state": 0}
    direct = NKELMRegressor(**given).fit(X, y)
    fused = NKELMRegressor(**given, solver="iterative", tol=1e-8, device=DEVICE).fit(X, y)
    assert fused.residual_ <= 1e-8
    assert relative_error(fused.predict(X), direct.predict(X)) < 1e-6

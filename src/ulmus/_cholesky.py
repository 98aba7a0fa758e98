"""Cholesky factorisation, and the product of a factor with itself, in place, in panels, outside the interpreter lock.

The threaded ``dsyrk`` of OpenBLAS 0.3 (that of SciPy's wheels), and ``dpotrf`` and ``dlauum`` with it, dies of a
segmentation fault for matrices of somewhere between 12,000 and 16,000 rows. Panels of moderate order are safe: they go
to these routines, and the rest is ``dtrsm``, ``dtrmm`` and ``dgemm``, which is where the time goes.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from ulmus._blas import PANEL, routine

_KINDS: dict[type, Any] = {bytes: ctypes.c_char, int: ctypes.c_int, float: ctypes.c_double}
_SINGLE = {**_KINDS, float: ctypes.c_float}


def _call(module: object, name: str, *arguments: Any) -> None:
    """Call with every value as a pointer to it, numbers of the routine's type; addresses come as ``c_void_p``."""
    kinds = _SINGLE if name[0] == "s" else _KINDS
    kept = [kinds[type(a)](a) if type(a) in kinds else a for a in arguments]
    pointers = [a if isinstance(a, ctypes.c_void_p) else ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in kept]
    routine(module, name, len(pointers))(*pointers)


def lower_factor(A: np.ndarray, panel: int = PANEL) -> tuple[np.ndarray, int]:
    """``(factor, info)`` as of ``scipy.linalg.lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)``, for every order."""
    A = np.asfortranarray(A)
    info = cholesky_in_place(A, panel)
    for j in range(1, len(A)):
        A[:j, j] = 0.0
    return A, info


def _address(A: np.ndarray, types: tuple[Any, ...] = (np.float64, np.float32)) -> Callable[[int, int], ctypes.c_void_p]:
    """Where an entry of a Fortran-ordered matrix lies."""
    n = len(A)
    if A.dtype not in types or not A.flags.f_contiguous or A.shape != (n, n):
        raise TypeError(f"the matrix must be square, {' or '.join(t.__name__ for t in types)} and in Fortran order")
    return lambda i, j: ctypes.c_void_p(A.ctypes.data + A.itemsize * (i + j * n))


def _letter(A: np.ndarray) -> str:
    return "d" if A.dtype == np.float64 else "s"


def cholesky_in_place(A: np.ndarray, panel: int = PANEL) -> int:
    """Lower factor of a Fortran-ordered matrix of either type, over its lower triangle; the rest is left alone.

    Returns 0, or the order of the leading minor that is not positive definite (and the factor is then unfinished).
    """
    n, at, letter = len(A), _address(A), _letter(A)
    step = n if n <= 2 * panel else panel
    for k in range(0, n, max(step, 1)):
        width = min(step, n - k)
        rest, below = n - k - width, k + width
        info = ctypes.c_int(0)
        _call(cython_lapack, letter + "potrf", b"L", width, at(k, k), n, info)
        if info.value:
            return k + info.value
        if rest:
            # A21 ← A21 L11⁻ᵀ, A22 ← A22 − A21 A21ᵀ
            _call(cython_blas, letter + "trsm", b"R", b"L", b"T", b"N", rest, width, 1.0, at(k, k), n, at(below, k), n)
            for j in range(below, n, step):
                _subtract(at, letter, n, k, width, j, min(step, n - j))
    return 0


def solve_factored(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``(LLᵀ)⁻¹ B`` for the lower triangle L of a Fortran-ordered matrix, in its type."""
    at, out = _address(L), np.array(B, dtype=L.dtype, order="F")
    info = ctypes.c_int(0)
    _call(
        cython_lapack,
        _letter(L) + "potrs",
        b"L",
        len(L),
        out.shape[1],
        at(0, 0),
        len(L),
        ctypes.c_void_p(out.ctypes.data),
        len(L),
        info,
    )
    return out


def invert_factored(L: np.ndarray) -> None:
    """``(LLᵀ)⁻¹`` over the lower triangle L of a Fortran-ordered matrix of either type; the rest is left alone."""
    info = ctypes.c_int(0)
    _call(cython_lapack, _letter(L) + "potri", b"L", len(L), _address(L)(0, 0), len(L), info)


def _subtract(
    at: Callable[[int, int], ctypes.c_void_p], letter: str, n: int, k: int, width: int, j: int, columns: int
) -> None:
    """``A22 ← A22 − A21 A21ᵀ`` on some columns of the lower triangle: their square, and what is below it."""
    below = j + columns
    _call(cython_blas, letter + "syrk", b"L", b"N", columns, width, -1.0, at(j, k), n, 1.0, at(j, j), n)
    if below < n:
        _call(
            cython_blas,
            *(
                letter + "gemm",
                b"N",
                b"T",
                n - below,
                columns,
                width,
                -1.0,
                at(below, k),
                n,
                at(j, k),
                n,
                1.0,
                at(below, j),
                n,
            ),
        )


def square_in_place(A: np.ndarray, panel: int = PANEL) -> None:
    """``LᵀL`` over the lower triangle L of a Fortran-ordered float64 matrix; the rest is left alone."""
    n, at = len(A), _address(A, (np.float64,))
    for k in range(0, n, panel):
        width = min(panel, n - k)
        rest, below = n - k - width, k + width
        info = ctypes.c_int(0)
        # the columns before: L11ᵀ A10 + L21ᵀ A20; the panel itself: L11ᵀ L11 + L21ᵀ L21
        if k:
            _call(cython_blas, "dtrmm", b"L", b"L", b"T", b"N", width, k, 1.0, at(k, k), n, at(k, 0), n)
        _call(cython_lapack, "dlauum", b"L", width, at(k, k), n, info)
        if rest and k:
            _call(
                cython_blas,
                *("dgemm", b"T", b"N", width, k, rest, 1.0, at(below, k), n, at(below, 0), n, 1.0, at(k, 0), n),
            )
        if rest:
            _call(cython_blas, "dsyrk", b"L", b"T", width, rest, 1.0, at(below, k), n, 1.0, at(k, k), n)

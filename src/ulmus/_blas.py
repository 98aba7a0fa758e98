"""BLAS calls that run outside the interpreter lock.

SciPy's own wrappers hold the lock while BLAS works, so that two threads run no faster than one. The same
routines, called through the function pointers that ``scipy.linalg.cython_blas`` exports, do not: ``ctypes``
releases the lock around every foreign call.

Matrices are C-ordered. A C-ordered ``(n, k)`` array is a Fortran-ordered ``(k, n)`` one, which is why the
letters below look transposed.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

_INT = ctypes.c_int
_SCALAR = {"d": ctypes.c_double, "s": ctypes.c_float}

#: Rows that large symmetric products and factors take at a time; matrices up to twice that order are taken whole.
PANEL = 4096


@cache
def routine(module: object, name: str, n_arguments: int) -> Callable[..., None]:
    """Foreign function of a routine that SciPy exports; every Fortran argument is a pointer."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = module.__pyx_capi__[name]  # type: ignore[attr-defined]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _letter(*arrays: np.ndarray) -> str:
    dtype = arrays[0].dtype
    for a in arrays:
        if a.dtype != dtype or not a.flags.c_contiguous:
            raise TypeError("BLAS needs C-contiguous arrays of one floating type")
    return {"float64": "d", "float32": "s"}[dtype.name]


def _square(A: np.ndarray, order: int) -> None:
    """BLAS is given addresses: a matrix of another size would be read or written beyond its end."""
    if A.shape != (order, order):
        raise ValueError(f"expected a matrix of shape {(order, order)}, got {A.shape}")


def _pointer(value: ctypes._SimpleCData) -> ctypes.c_void_p:
    return ctypes.cast(ctypes.byref(value), ctypes.c_void_p)


def mirror_upper(G: np.ndarray, panel: int = 256) -> None:
    """Copy the upper triangle of a square matrix over the lower one, in blocks that stay in the cache."""
    n = len(G)
    for i in range(0, n, panel):
        square = G[i : i + panel, i : i + panel]
        square[:] = np.triu(square) + np.triu(square, 1).T
        for j in range(i + panel, n, panel):
            G[j : j + panel, i : i + panel] = G[i : i + panel, j : j + panel].T


def syrk(A: np.ndarray, G: np.ndarray, *, accumulate: bool) -> None:
    """Upper triangle of ``G (+)= AᵀA`` in place; the strict lower triangle is left alone."""
    letter = _letter(A, G)
    n, k = A.shape
    _square(G, k)
    scalar = _SCALAR[letter]
    order, inner = _INT(k), _INT(n)
    one, beta = scalar(1.0), scalar(1.0 if accumulate else 0.0)
    uplo, trans = ctypes.c_char(b"L"), ctypes.c_char(b"N")
    routine(cython_blas, letter + "syrk", 10)(
        _pointer(uplo),
        _pointer(trans),
        _pointer(order),
        _pointer(inner),
        _pointer(one),
        A.ctypes.data,
        _pointer(order),
        _pointer(beta),
        G.ctypes.data,
        _pointer(order),
    )


def _solve(name: str, R: np.ndarray, B: np.ndarray, side: bytes, transposed: bool) -> None:
    """``trsm`` or ``trsv`` with a lower triangular ``R`` of either order, over ``B``, which Fortran sees transposed.

    R may be a corner of a larger matrix: it is read where it lies.
    """
    letter = _letter(B)
    steps = [step // R.itemsize for step in R.strides]
    if 1 not in steps or max(steps) < len(R):
        R, steps = np.ascontiguousarray(R), [len(R), 1]
    if R.dtype != B.dtype:
        raise TypeError("BLAS needs C-contiguous arrays of one floating type")
    in_rows = steps[1] == 1
    _square(R, B.shape[1] if side == b"L" else B.shape[0])
    # a C-ordered lower triangle is an upper one to Fortran
    triangle = (b"U" if in_rows else b"L", b"T" if in_rows != transposed else b"N", b"N")
    letters = [ctypes.c_char(c) for c in ((side, *triangle) if name == "trsm" else triangle)]
    order, columns, rows, one = _INT(len(R)), _INT(B.shape[1]), _INT(B.shape[0]), _SCALAR[letter](1.0)
    sizes = (columns, rows, one) if name == "trsm" else (order,)
    apart = _INT(max(*steps, 1))
    arguments = [*map(_pointer, (*letters, *sizes)), R.ctypes.data, _pointer(apart), B.ctypes.data, _pointer(columns)]
    routine(cython_blas, letter + name, len(arguments))(*arguments)


def solve_lower_transposed(R: np.ndarray, B: np.ndarray) -> None:
    """``B ← B R⁻ᵀ`` in place, with ``R`` lower triangular: every row b becomes the solution of ``R x = b``."""
    _solve("trsm", R, B, b"L", transposed=False)


def solve_lower(R: np.ndarray, B: np.ndarray, *, transposed: bool = False) -> None:
    """``B ← R⁻¹ B`` (or ``R⁻ᵀ B``) in place, with ``R`` lower triangular."""
    # one column is a vector; of several, Fortran sees the transpose, and R on their other side
    if B.shape[1] == 1:
        _solve("trsv", R, B, b"R", transposed=transposed)
    else:
        _solve("trsm", R, B, b"R", transposed=not transposed)


def subtract_product(A: np.ndarray, B: np.ndarray, out: np.ndarray) -> None:
    """``out −= A Bᵀ`` in place, where ``out`` may be some columns of a C-ordered matrix."""
    letter = _letter(A, B)
    (n, k), m = A.shape, len(B)
    if B.shape[1] != k or out.shape != (n, m) or out.dtype != A.dtype or out.strides[1] != out.itemsize:
        raise ValueError(f"expected rows of {k} and an array of shape {(n, m)}, got {B.shape} and {out.shape}")
    letters: list[Any] = [ctypes.c_char(c) for c in (b"T", b"N")]
    sizes: list[Any] = [_INT(v) for v in (m, n, k)]
    minus, one, inner = _SCALAR[letter](-1.0), _SCALAR[letter](1.0), _INT(k)
    step = _INT(max(out.strides[0] // out.itemsize, m))
    routine(cython_blas, letter + "gemm", 13)(
        *[_pointer(value) for value in (*letters, *sizes, minus)],
        B.ctypes.data,
        _pointer(inner),
        A.ctypes.data,
        _pointer(inner),
        _pointer(one),
        out.ctypes.data,
        _pointer(step),
    )


def times_own_transpose(A: np.ndarray, panel: int = PANEL) -> np.ndarray:
    """``A Aᵀ``.

    NumPy gives it to the threaded ``syrk`` of OpenBLAS 0.3, which dies of a segmentation fault for matrices of
    somewhere between 12,000 and 16,000 rows; some rows at a time go to ``gemm``.
    """
    n = len(A)
    if n <= 2 * panel:
        return A @ A.T
    out = np.empty((n, n), dtype=A.dtype)
    for start in range(0, n, panel):
        rows = slice(start, start + panel)
        np.matmul(A[rows], A.T, out=out[rows])
    return out

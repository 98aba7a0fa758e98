"""BLAS and LAPACK calls that run outside the interpreter lock.

SciPy's own wrappers hold the lock while BLAS works, so that two threads run no faster than one. The same
routines, called through the function pointers that ``scipy.linalg.cython_blas`` exports, do not: ``ctypes``
releases the lock around every foreign call.

Products and triangular solves take C-ordered matrices. A C-ordered ``(n, k)`` array is a Fortran-ordered ``(k, n)``
one, which is why their letters look transposed. Factorisations take Fortran-ordered ones, and work in place.

The threaded ``dsyrk`` of OpenBLAS 0.3 (that of SciPy's wheels), and ``dpotrf`` and ``dlauum`` with it, dies of a
segmentation fault for matrices of somewhere between 12,000 and 16,000 rows. Panels of moderate order are safe: they go
to these routines, and the rest is ``dtrsm``, ``dtrmm`` and ``dgemm``, which is where the time goes.
"""

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

#: Rows that large symmetric products and factors take at a time; matrices up to twice that order are taken whole.
PANEL = 4096
#: Rows and columns that are mirrored, or set to zero, at a time: a mask of so many is quick, and small.
SMALL = 256
#: Rows for each column of a right side from which on columns are solved for one by one: a vector takes a quarter of the
#: time of a matrix of one column.
LONG = 300

_KINDS: dict[type, Any] = {bytes: ctypes.c_char, int: ctypes.c_int, float: ctypes.c_double}
_SINGLE = {**_KINDS, float: ctypes.c_float}
_LETTERS = {"d": "d", "f": "s"}


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


def _call(module: object, name: str, *arguments: Any) -> None:
    """Call with every value as a pointer to it, numbers of the routine's type; addresses come as ``c_void_p``."""
    kinds = _SINGLE if name[0] == "s" else _KINDS
    kept = [kinds[type(a)](a) if type(a) in kinds else a for a in arguments]
    routine(module, name, len(kept))(*[a if type(a) is ctypes.c_void_p else ctypes.byref(a) for a in kept])


def _start(A: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(A.ctypes.data)


def _letter(*arrays: np.ndarray) -> str:
    dtype = arrays[0].dtype
    for a in arrays:
        if a.dtype != dtype or not a.flags.c_contiguous:
            raise TypeError("BLAS needs C-contiguous arrays of one floating type")
    return _LETTERS[dtype.char]


def _square(A: np.ndarray, order: int) -> None:
    """BLAS is given addresses: a matrix of another size would be read or written beyond its end."""
    if A.shape != (order, order):
        raise ValueError(f"expected a matrix of shape {(order, order)}, got {A.shape}")


@lru_cache(maxsize=64)
def _below_diagonal(order: int) -> np.ndarray:
    """Where a small square matrix is below its diagonal; searches ask for the same orders over and over."""
    return np.tri(order, k=-1, dtype=bool)


def mirror_upper(G: np.ndarray, panel: int = SMALL) -> None:
    """Copy the upper triangle of a square matrix over the lower one, in blocks that stay in the cache."""
    n = len(G)
    for i in range(0, n, panel):
        square = G[i : i + panel, i : i + panel]
        np.copyto(square, square.T.copy(), where=_below_diagonal(len(square)))
        for j in range(i + panel, n, panel):
            G[j : j + panel, i : i + panel] = G[i : i + panel, j : j + panel].T


def syrk(A: np.ndarray, G: np.ndarray, *, accumulate: bool) -> None:
    """Upper triangle of ``G (+)= AᵀA`` in place; the strict lower triangle is left alone."""
    letter = _letter(A, G)
    n, k = A.shape
    _square(G, k)
    beta = 1.0 if accumulate else 0.0
    _call(cython_blas, letter + "syrk", b"L", b"N", k, n, 1.0, _start(A), k, beta, _start(G), k)


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
    rows, columns = B.shape
    given = (side, *triangle, columns, rows, 1.0) if name == "trsm" else (*triangle, len(R))
    _call(cython_blas, letter + name, *given, _start(R), max(*steps, 1), _start(B), columns)


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
    step = max(out.strides[0] // out.itemsize, m)
    sizes = (m, n, k, -1.0, _start(B), k, _start(A), k, 1.0, _start(out), step)
    _call(cython_blas, letter + "gemm", b"T", b"N", *sizes)


def times_own_transpose(A: np.ndarray, panel: int = PANEL) -> np.ndarray:
    """``A Aᵀ``, of many rows by ``gemm``: NumPy would give it to the threaded ``syrk``."""
    n = len(A)
    if n <= 2 * panel:
        return A @ A.T
    out = np.empty((n, n), dtype=A.dtype)
    for start in range(0, n, panel):
        rows = slice(start, start + panel)
        np.matmul(A[rows], A.T, out=out[rows])
    return out


def lower_factor(A: np.ndarray, panel: int = PANEL) -> tuple[np.ndarray, int]:
    """``(factor, info)`` as of ``scipy.linalg.lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)``, for every order."""
    A = np.asfortranarray(A)
    info = cholesky_in_place(A, panel)
    if len(A) <= SMALL:
        A.T[_below_diagonal(len(A))] = 0.0
    else:
        for j in range(1, len(A)):
            A[:j, j] = 0.0
    return A, info


def _address(A: np.ndarray, types: tuple[Any, ...] = (np.float64, np.float32)) -> Callable[[int, int], ctypes.c_void_p]:
    """Where an entry of a Fortran-ordered matrix lies."""
    n = len(A)
    if A.dtype not in types or not A.flags.f_contiguous or A.shape != (n, n):
        raise TypeError(f"the matrix must be square, {' or '.join(t.__name__ for t in types)} and in Fortran order")
    return lambda i, j: ctypes.c_void_p(A.ctypes.data + A.itemsize * (i + j * n))


def cholesky_in_place(A: np.ndarray, panel: int = PANEL) -> int:
    """Lower factor of a Fortran-ordered matrix of either type, over its lower triangle; the rest is left alone.

    Returns 0, or the order of the leading minor that is not positive definite (and the factor is then unfinished).
    """
    n, at, letter = len(A), _address(A), _letter(A.T)
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
    n, columns, info = len(L), out.shape[1], ctypes.c_int(0)
    if n >= LONG * columns:
        for column in out.T:
            for letter in (b"N", b"T"):
                _call(cython_blas, _letter(L.T) + "trsv", b"L", letter, b"N", n, at(0, 0), n, _start(column), 1)
        return out
    _call(cython_lapack, _letter(L.T) + "potrs", b"L", n, columns, at(0, 0), n, _start(out), n, info)
    return out


def invert_factored(L: np.ndarray) -> None:
    """``(LLᵀ)⁻¹`` over the lower triangle L of a Fortran-ordered matrix of either type; the rest is left alone."""
    info = ctypes.c_int(0)
    _call(cython_lapack, _letter(L.T) + "potri", b"L", len(L), _address(L)(0, 0), len(L), info)


def upper_rcond(R: np.ndarray) -> float:
    """Estimate of the reciprocal condition number of an upper triangle, in the 1-norm; SciPy has it from 1.14 on."""
    R = np.ascontiguousarray(R, dtype=np.float64)
    n, rcond, info = len(R), ctypes.c_double(0.0), ctypes.c_int(0)
    _square(R, n)
    work, whole = np.empty(3 * n), np.empty(n, np.int32)
    # to Fortran the array is its transpose: a lower triangle, whose norm by rows is that of R by columns
    _call(cython_lapack, "dtrcon", b"I", b"L", b"N", n, _start(R), max(n, 1), rcond, _start(work), _start(whole), info)
    return rcond.value


def _subtract(
    at: Callable[[int, int], ctypes.c_void_p], letter: str, n: int, k: int, width: int, j: int, columns: int
) -> None:
    """``A22 ← A22 − A21 A21ᵀ`` on some columns of the lower triangle: their square, and what is below it."""
    below = j + columns
    _call(cython_blas, letter + "syrk", b"L", b"N", columns, width, -1.0, at(j, k), n, 1.0, at(j, j), n)
    if below < n:
        sizes = (n - below, columns, width, -1.0, at(below, k), n, at(j, k), n, 1.0, at(below, j), n)
        _call(cython_blas, letter + "gemm", b"N", b"T", *sizes)


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
            sizes = (width, k, rest, 1.0, at(below, k), n, at(below, 0), n, 1.0, at(k, 0), n)
            _call(cython_blas, "dgemm", b"T", b"N", *sizes)
        if rest:
            _call(cython_blas, "dsyrk", b"L", b"T", width, rest, 1.0, at(below, k), n, 1.0, at(k, k), n)

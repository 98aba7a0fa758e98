r"""Which way to the weights: a table that can be asked.

For n rows, L features and s outputs on a device, two routes give the same weights:

==============  ==========================================================  ===========================  =============
route           work                                                        memory                       gives also
==============  ==========================================================  ===========================  =============
``direct``      :math:`nL^2` multiply-adds / 2, :math:`3L^3` to solve       a few :math:`8L^2`           every C, exact
                                                                                                         leave-one-out
``iterative``   :math:`2nL` kernel values an iteration, :math:`L^3`         one :math:`8L^2`             the residual
                for the preconditioner
==============  ==========================================================  ===========================  =============

:func:`choose_route` estimates both from the rates of the device (:data:`RATES`, measured) and takes the faster of those
that fit into memory. Where C is to be chosen the direct route is taken whenever it fits into memory and into
:data:`PATIENCE`: it gives every C from one decomposition. Otherwise C is chosen on a smaller model.
"""

import os
from dataclasses import dataclass

#: Iterations that a solve is expected to take (a preconditioner from K_zz makes them depend little on the problem).
ITERATIONS = 20
#: Passes in full precision: right-hand side and verified residuals.
EXACT_PASSES = 4
#: Seconds that the direct route may take where it is wanted for the sake of its C path.
PATIENCE = 1800.0
#: Features below which the sums cost nothing, so that the exact route is taken.
SMALL = 2_048


@dataclass(frozen=True)
class Rates:
    """What a device does in a second: float64 multiply-adds of matrix products, and kernel values.

    ``values`` are those of an iteration, ``exact`` those in float64; ``evaluations`` is how often a pass evaluates
    each: where a tile is kept for the product with the transpose, once.
    """

    multiply_adds: float
    values: float
    exact: float
    evaluations: int


_CORES = os.cpu_count() or 1

#: Measured: one H200 (52 TFLOP/s of float64 products), and cores with AVX2, per core.
RATES = {
    "cuda": Rates(2.6e13, 2.0e12, 3.5e11, 2),
    "cpu": Rates(1.9e10 * _CORES, 1.8e8 * _CORES, 9e7 * _CORES, 1),
}


@dataclass(frozen=True)
class Plan:
    """A route, its estimated seconds and bytes, and why it was taken."""

    route: str
    seconds: float
    bytes: int
    reason: str


def direct_bytes(L: int, s: int = 1) -> int:
    """Memory of the direct route: the sums, their whitened copy, the factor, eigenvectors and workspace."""
    return 8 * (6 * (L + s + 1) ** 2) + 2**30


def iterative_bytes(L: int, s: int = 1) -> int:
    """Memory of the iterative route: one matrix for both triangles, its diagonal blocks, and vectors."""
    return 8 * (L * L + 2 * 4096 * L + 16 * L * s) + 2**31


def estimates(n: int, L: int, s: int = 1, device: str = "cpu") -> dict[str, Plan]:
    """Both routes with their estimated seconds and bytes."""
    rate = RATES["cuda" if device == "cuda" else "cpu"]
    values = rate.evaluations * float(n) * L * max(1.0, s / 8)
    direct = (n * float(L) ** 2 / 2 + 3 * float(L) ** 3) / rate.multiply_adds + n * float(L) / rate.exact
    iterative = ITERATIONS * values / rate.values + EXACT_PASSES * values / rate.exact
    iterative += float(L) ** 3 / rate.multiply_adds
    return {
        "direct": Plan("direct", direct, direct_bytes(L, s), ""),
        "iterative": Plan("iterative", iterative, iterative_bytes(L, s), ""),
    }


def choose_route(
    n: int, L: int, s: int = 1, device: str = "cpu", memory: float = float("inf"), *, path: bool = False
) -> Plan:
    """The route for n rows, L features and s outputs on a device with this many bytes of memory.

    Parameters
    ----------
    n, L, s : int
        Rows, features and outputs.
    device : {"cpu", "cuda"}
    memory : float
        Bytes that are free.
    path : bool
        Whether C is to be chosen, for which the direct route gives every C at once.

    Returns
    -------
    Plan

    Raises
    ------
    MemoryError
        When neither fits; the message says how many features would.

    Examples
    --------
    >>> from ulmus.devices.routes import choose_route
    >>> choose_route(10_000, 1_000).route, choose_route(10**7, 100_000, device="cuda").route
    ('direct', 'iterative')
    >>> choose_route(10**7, 10_000, device="cuda", path=True).route
    'direct'
    """

    def taken(plan: Plan, reason: str) -> Plan:
        return Plan(plan.route, plan.seconds, plan.bytes, reason)

    plans = estimates(n, L, s, device)
    direct, iterative = plans["direct"], plans["iterative"]
    if L <= SMALL:
        return taken(direct, "few features: exact, and the sums cost little")
    if iterative.bytes > memory and direct.bytes > memory:
        raise MemoryError(
            f"{L} landmarks need {gibibytes(iterative.bytes)} on the {device.upper()} device and "
            f"{gibibytes(memory)} are free; {largest(memory)} landmarks would fit"
        )

    if direct.bytes > memory:
        return taken(iterative, f"the direct route needs {gibibytes(direct.bytes)}")
    if path and direct.seconds <= PATIENCE:
        return taken(direct, "every C from one decomposition")
    if direct.seconds <= iterative.seconds:
        return taken(direct, f"estimated {direct.seconds:.3g} s against {iterative.seconds:.3g} s")
    return taken(iterative, f"estimated {iterative.seconds:.3g} s against {direct.seconds:.3g} s")


def largest(memory: float) -> int:
    """The number of landmarks whose triangles fit into this many bytes."""
    L = max(0.0, (memory - 2**31) / 8)
    return max(0, int((4096.0**2 + L) ** 0.5 - 4096) - 16)


def gibibytes(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"

r"""Newton's direction in many leaves at once, by conjugate gradients in the metric :math:`M = K + \lambda(WD)^{-1}`.

Vectors carry their images :math:`Kp` along, so that nothing is multiplied by K: of a residual r,
:math:`q = M^{-1}(WD)^{-1}r` has the image :math:`(WD)^{-1}(r - \lambda q)`.
"""

from dataclasses import dataclass
from typing import Any

from ulmus.devices.log_loss import turned


@dataclass
class NewtonDirections:
    """Where all leaves stand: residuals ``r``, directions ``p``, their images, and ``rᵀKq``; vectors are written over.

    Leaves whose ``rᵀKq`` has fallen to ``enough`` are no longer active, and stand still.
    """

    torch: Any
    P: Any
    w: Any
    wd: Any
    ridge: float
    r: Any
    p: Any
    image: Any
    enough: Any
    active: Any

    def __post_init__(self) -> None:
        self.size = pair(self.r, self.image)
        self.enough = self.enough * self.size
        self.d, self.shift = self.torch.zeros_like(self.r), self.torch.zeros_like(self.r)

    def advance(self) -> Any:
        """Take a step: ``d += a p`` with ``a = rᵀKq / pᵀKHp``; gives ``(WD)⁻¹r``, to be multiplied by the inverses."""
        Hp = self.w[:, :, None] * turned(self.P, self.image) + self.ridge * self.p
        bend = pair(Hp, self.image)
        self.active = self.active & (bend > 0)
        a = self.torch.where(self.active, self.size / bend, 0.0)[:, None, None]
        self.d.addcmul_(a, self.p)
        self.shift.addcmul_(a, self.image)
        self.r.addcmul_(a, Hp, value=-1)
        return self.r / self.wd[:, :, None]

    def turn(self, q: Any) -> None:
        """The next direction, ``q + c p``, from what the inverses have made of the residual."""
        Kq = (self.r - self.ridge * q) / self.wd[:, :, None]
        new = pair(self.r, Kq)
        self.active = self.active & (new > self.enough)
        c = self.torch.where(self.active, new / self.size, 0.0)[:, None, None]
        self.p, self.image = q.addcmul(c, self.p), Kq.addcmul(c, self.image)
        self.size = self.torch.where(self.active, new, self.size)


def pair(a: Any, b: Any) -> Any:
    """Inner products of every leaf."""
    return (a * b).sum((1, 2))

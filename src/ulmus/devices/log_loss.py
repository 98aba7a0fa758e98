"""The log loss of scores on tensors (:mod:`ulmus.solvers.log_loss`); the last axis are classes, or the one score."""

from typing import Any


def proportions(torch: Any, F: Any) -> Any:
    """``p``: of every class, or of the second of two."""
    return torch.sigmoid(F) if F.shape[-1] == 1 else torch.softmax(F, dim=-1)


def losses(torch: Any, Y: Any, F: Any) -> Any:
    """One loss per row."""
    if F.shape[-1] == 1:
        return (torch.nn.functional.softplus(F, threshold=1e4) - Y * F)[..., 0]
    F = F - F.amax(-1, keepdim=True)
    return F.exp().sum(-1).log() - (Y * F).sum(-1)


def curvature(P: Any) -> Any:
    """Trace of the second derivative."""
    return (P * (1.0 - P)).sum(-1)


def turned(P: Any, U: Any) -> Any:
    """The second derivative times ``U``."""
    return P * (1.0 - P) * U if P.shape[-1] == 1 else P * (U - (P * U).sum(-1, keepdim=True))

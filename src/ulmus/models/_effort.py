"""How much adaptive models spend on what."""

from dataclasses import dataclass

from ulmus.tuning.views import Budget


@dataclass(frozen=True)
class Effort:
    """How much is spent on what."""

    budget: Budget
    landmarks: int
    leaf_rows: int
    partitions: int
    judged_leaves: int


EFFORTS = {
    "fast": Effort(Budget(1_500, 150, 2_500, 250, rounds=2, final_landmarks=400, kernels=1), 500, 700, 2, 8),
    "default": Effort(Budget(), 1_000, 1_500, 4, 8),
    "best": Effort(Budget(4_000, 400, 8_000, 700, rounds=8, final_landmarks=2_000), 2_000, 2_000, 8, 16),
}

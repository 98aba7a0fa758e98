"""Learning on: what a model keeps of a stream, and how rows go into it and come out again."""

from ulmus.online.guard import guard_of, teaching
from ulmus.online.learner import FORMS, Learner, check_rank, deficient
from ulmus.online.memory import Memory, stacked

__all__ = ["FORMS", "Learner", "Memory", "check_rank", "deficient", "guard_of", "stacked", "teaching"]

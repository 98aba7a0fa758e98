"""Rows that do not fit in memory: fits and predictions of Parquet files and other streams, with checkpoints."""

from ulmus.models.steps import Steps
from ulmus.streaming.errors import CheckpointError, SourceError
from ulmus.streaming.fitting import fit
from ulmus.streaming.prediction import predict
from ulmus.streaming.progress import Report

__all__ = ["CheckpointError", "Report", "SourceError", "Steps", "fit", "predict"]

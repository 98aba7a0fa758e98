"""Pictures, one display a file. They need matplotlib, which is imported when drawing."""

from ulmus.plots.effects import EffectsDisplay
from ulmus.plots.projection import ProjectionDisplay
from ulmus.plots.reasons import BeeswarmDisplay, WaterfallDisplay
from ulmus.plots.residuals import ResidualsDisplay
from ulmus.plots.tuning import TuningDisplay

__all__ = [
    "BeeswarmDisplay",
    "EffectsDisplay",
    "ProjectionDisplay",
    "ResidualsDisplay",
    "TuningDisplay",
    "WaterfallDisplay",
]

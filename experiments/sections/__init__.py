"""What is measured for ``RESULTS.md``: a letter, a title, the function that measures, and how often it repeats.

    python -m experiments.sections [--only a,b,...] [--quick] [--repeats N] [--out FILE] [--cells FOLDER]

Contestants run on all cores, in turns, in one process; memory is measured in a process of its own for each figure.
Ratios are medians of the ratios within a repetition. Real data come from the folder that ULMUS_DATA names; sets that
are not there are named and left out.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A section; its module is imported when it runs, as some need a GPU or a rival."""

    title: str
    module: str
    function: str
    repeats: int


SECTIONS = {
    "a": Entry("NKELM at CovType's shape", "core_nystrom", "nkelm", 5),
    "b": Entry("Peak memory of NKELM", "core_nystrom", "memory", 5),
    "c": Entry("float32 beside float64", "core_nystrom", "float32", 5),
    "d": Entry("KELM beside KernelRidge", "core_exact", "kelm", 5),
    "e": Entry("ELM beside GFDL and hpelm", "core_exact", "elm", 5),
    "f": Entry("Defaults beside exhaustive search", "tuning_search", "search", 3),
    "g": Entry("Accuracy on the document's five sets, and the time of SVC", "tuning_accuracy", "accuracy", 3),
    "h": Entry("Coverage of intervals and calibration of probabilities", "tuning_calibration", "calibration", 3),
    "i": Entry("Rows per second of recursive learning", "online_speed", "speed", 5),
    "j": Entry("Prequential accuracy on real sets, beside river", "online_accuracy", "accuracy", 5),
    "k": Entry("The robust document's ten sets, SinC and Motorcycle", "robust_document", "document", 20),
    "l": Entry("Gross outliers among the targets", "robust_outliers", "outliers", 20),
    "m": Entry("Time and memory of robust fits", "robust_speed", "speed", 20),
    "o": Entry("Stability of ENDA over draws", "enda_stability", "stability", 10),
    "p": Entry("Speed and memory of ENDA", "enda_speed", "speed", 10),
    "q": Entry("Ordinal regression: the document's experiment", "ordinal_accuracy", "document_experiment", 20),
    "r": Entry("Ordinal regression: real sets with official splits", "ordinal_accuracy", "real_sets", 20),
    "s": Entry("Ordinal regression: scale", "ordinal_scale", "scale", 20),
    "t": Entry("Streaming Parquet beside memory", "streaming", "parquet", 3),
    "u": Entry("Dask, one worker and two", "streaming", "dask_scaling", 3),
    "v": Entry("GPU beside CPU: agreement, precision, errors", "gpu", "agreement", 1),
    "w": Entry("GPU: fused kernel products", "gpu", "products", 1),
    "x": Entry("GPU: direct route, ten million rows, 10,000 landmarks", "gpu", "direct", 1),
    "y": Entry("GPU: iterative route, ten million rows, 100,000 landmarks", "gpu", "iterative", 1),
    "z": Entry("GPU: a billion rows, 10,000 landmarks", "gpu", "billion", 1),
    "aa": Entry("From a file to a model and a report: `ulmus fit` on CovType", "covtype_cli", "whole_way", 4),
    "ab": Entry("GPU: ten million rows streamed from Parquet, 10,000 landmarks", "gpu_streams", "streams", 1),
    "ac": Entry("Adaptive models on tables of odd shapes", "adaptive", "odd_tables", 1),
    "ad": Entry("Threads on small products", "threads", "small_products", 9),
    "ae": Entry("Landmark strategies", "landmarks", "strategies", 3),
    "af": Entry("Ordered and robust discriminants", "enda_variants", "variants", 5),
    "ag": Entry("Adaptive models past memory", "adaptive_streams", "past_memory", 1),
    "ah": Entry("GPU: adaptive models", "gpu_adaptive", "adaptive", 1),
    "ai": Entry("How the cost of adaptive models grows with the rows", "growth", "growth", 4),
    "aj": Entry("A billion rows on 32 workers, on paper", "billion", "billion", 1),
    "ak": Entry("What choosing costs, alone and beside a busy process", "tuning_cost", "cost", 1),
    "cpu": Entry("CPU: iterative beside direct, 8,000 and 20,000 landmarks", "iterative", "routes", 1),
}

"""The command ``export``: a model as an ONNX file."""

from typing import Literal


def export(model: str, output: str, /, *, dtype: Literal["float32", "float64"] = "float32") -> None:
    """Write a model as an ONNX file, its preprocessing included.

    Parameters
    ----------
    model
        A file that ``ulmus fit`` or ``ulmus.save`` wrote.
    output
        The ONNX file.
    dtype
        Type of the numbers that go in and come out.
    """
    from ulmus.cli.console import check_outputs, say
    from ulmus.cli.models import load_model
    from ulmus.onnx import export as run

    check_outputs({"OUTPUT": output}, [model])
    run(load_model(model)[1], output, dtype=dtype)
    say(f"ONNX: {output}")

"""Export to ONNX. Needs the package onnx; steps that this module does not know go through skl2onnx."""

from ulmus.onnx.export import export

__all__ = ["export"]

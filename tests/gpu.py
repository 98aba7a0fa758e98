"""What the tests of the GPU code share: PyTorch on CPU tensors, and Triton's interpreter where there is no GPU."""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch comes with make test-gpu")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton comes with make test-gpu")

from ulmus.devices.accelerator import Accelerator  # noqa: E402

#: A GPU where there is one.
DEVICE = "cuda" if torch.cuda.is_available() else "torch"


def accelerator():
    return Accelerator(DEVICE)

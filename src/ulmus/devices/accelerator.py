"""The device: found, checked, watched, and handed back."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ulmus.devices.routes import gibibytes

#: Names that a model takes; ``"torch"`` (PyTorch on the CPU) is for tests of this code on machines without a GPU.
DEVICES = ("auto", "cpu", "cuda")
HIDDEN = "torch"
#: Multiply-adds below which ``"auto"`` stays on the CPU: starting PyTorch and the GPU takes seconds.
WORTH_IT = 2e12
#: Kernel values from which a prediction is sent to a GPU.
WORTH_SENDING = 2e9
#: Bytes of the buffer through which results come back.
PINNED_BYTES = 2**25


class Accelerator:
    """PyTorch on one device."""

    def __init__(self, name: str) -> None:
        self.torch = import_torch()
        if name == "cuda" and not self.torch.cuda.is_available():
            raise RuntimeError(
                'device="cuda" needs a CUDA GPU, and PyTorch sees none '
                f"(torch {self.torch.__version__}, built for CUDA {self.torch.version.cuda}); "
                'use device="cpu", or device="auto", which takes a GPU only where there is one'
            )
        self.name = name
        self.device = self.torch.device("cpu" if name == HIDDEN else name)

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def fuses(self) -> bool:
        """Whether Triton kernels run here: on a GPU, or anywhere through Triton's interpreter."""
        if importlib.util.find_spec("triton") is None:
            return False
        if self.is_gpu:
            return True
        from triton import knobs

        return bool(knobs.runtime.interpret)

    def free_bytes(self) -> int:
        """Memory that is not in use, in bytes."""
        if self.is_gpu:
            free, _ = self.torch.cuda.mem_get_info(self.device)
            held = self.torch.cuda.memory_reserved(self.device) - self.torch.cuda.memory_allocated(self.device)
            return int(free + held)
        from ulmus.engine import physical_memory

        return physical_memory() or 2**34

    def require(self, needed: int, what: str, advice: str) -> None:
        """Refuse before anything is allocated, and say what would fit."""
        free = self.free_bytes()
        if needed > free:
            raise MemoryError(
                f"{what} needs {gibibytes(needed)} on the {self.device.type.upper()} device and "
                f"{gibibytes(free)} are free; {advice}"
            )

    def tensor(self, array: Any, dtype: Any = None) -> Any:
        """A NumPy array (or number) as a tensor of the device, float64 by default."""
        return self.torch.as_tensor(array, dtype=dtype or self.torch.float64, device=self.device)

    def numpy(self, tensor: Any) -> Any:
        """A tensor as a NumPy array of this machine; large ones through a pinned buffer, several times as fast."""
        tensor = tensor.detach()
        if not self.is_gpu or tensor.ndim < 2 or tensor.nbytes < 2 * PINNED_BYTES:
            return tensor.cpu().numpy()
        rows = max(1, PINNED_BYTES * len(tensor) // tensor.nbytes)
        out = self.torch.empty(tensor.shape, dtype=tensor.dtype)
        buffer = self.torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype, pin_memory=True)
        for start in range(0, len(out), rows):
            piece = tensor[start : start + rows]
            buffer[: len(piece)].copy_(piece)
            out[start : start + rows] = buffer[: len(piece)]
        return out.numpy()


def import_torch() -> Any:
    """PyTorch, or an error that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError('device="cuda" needs PyTorch: pip install "ulmus[gpu]"') from error
    return torch


def resolve(device: str, work: float) -> str:
    """``"cpu"``, ``"cuda"`` or the hidden name, for a fit of this many multiply-adds."""
    if device != "auto":
        return device
    if work < WORTH_IT or importlib.util.find_spec("torch") is None:
        return "cpu"
    return "cuda" if import_torch().cuda.is_available() else "cpu"


@contextmanager
def on_device(name: str) -> Iterator[Accelerator]:
    """The device for the length of a fit; out-of-memory errors say what to do, and its memory is given back."""
    accelerator = Accelerator(name)
    torch = accelerator.torch
    failed: str | None = None
    try:
        yield accelerator
    except torch.cuda.OutOfMemoryError as error:
        failed = str(error).split("\n", maxsplit=1)[0]
    finally:
        if accelerator.is_gpu:
            torch.cuda.synchronize(accelerator.device)
            torch.cuda.empty_cache()
    if failed is not None:
        # raised here, outside the handler, so that no traceback keeps the tensors of the fit alive
        raise MemoryError(
            f"the GPU ran out of memory: {failed} Other programs may hold some of it; take fewer landmarks or rows, or "
            'device="cpu"'
        )

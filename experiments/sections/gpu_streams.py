"""A stream summed on the GPU: Parquet files beside the CPU, an interruption, ten million rows."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.sections.gpu_common import GAMMA, device_facts, warm_up
from experiments.sections.streaming_job import WIDTH, block, generate, names
from ulmus import NKELMRegressor, streaming
from ulmus.streaming.device import DeviceSummaryAccumulator


class Stopped(Exception):
    """An interruption."""


@contextlib.contextmanager
def stopped_after(batches: int) -> Iterator[None]:
    """The sums on the device stop after so many batches."""
    add, count = DeviceSummaryAccumulator.add, 0

    def counted(self: DeviceSummaryAccumulator, part: tuple) -> None:
        nonlocal count
        count += 1
        if count > batches:
            raise Stopped
        add(self, part)

    DeviceSummaryAccumulator.add = counted
    try:
        yield
    finally:
        DeviceSummaryAccumulator.add = add


def fitted(device: str, folder: Path, L: int, **more: object) -> tuple[NKELMRegressor, float, dict[str, float]]:
    """A model of the files, its seconds, and when each of its passes was last heard of."""
    model, passes = NKELMRegressor(L, gamma=GAMMA, device=device, random_state=0), {}
    start = perf_counter()

    def mark(report: streaming.Report) -> None:
        passes[report.label] = perf_counter() - start

    streaming.fit(model, folder, target="y", features=names(), progress=mark, **more)
    seconds = perf_counter() - start
    print(f"[{device}, {L} landmarks: {seconds:.1f} s, {passes}]", flush=True)
    return model, seconds, passes


def streams(section: Section, options: Options) -> None:
    words, _ = device_facts()
    sizes = {options.rows(10**6): options.rows(2_000), options.rows(10**7): options.rows(10_000)}
    (small, few), (large, many) = sizes.items()
    warm_up(WIDTH)
    X_test, _ = block(10**6, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.environ.get("ULMUS_BENCH_DATA", folder))
        folders = {n: root / f"rows-{n}" / "rows" for n in sizes}
        for n, path in folders.items():
            generate(path, n, threads=8)
        section.say(
            f"{words}. NKELM, {WIDTH} features in float64, Parquet files of a million rows, gamma = {GAMMA}, C chosen "
            "from the sums of all rows. Seconds hold all reading (twice) and choosing."
        )
        here, slow, _ = fitted("cpu", folders[small], few)
        there, fast, _ = fitted("cuda", folders[small], few)
        outputs = [m.predict(X_test) for m in (here, there)]
        apart = float(np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[0]).max())
        with tempfile.TemporaryDirectory() as state:
            with contextlib.suppress(Stopped), stopped_after(-(-small // 16_384) // 2):
                fitted("cuda", folders[small], few, checkpoint=state)
                raise RuntimeError("the fit was not stopped")
            resumed, *_ = fitted("cuda", folders[small], few, checkpoint=state)
        same = bool((resumed.beta_ == there.beta_).all())
        torch.cuda.reset_peak_memory_stats()
        whole, seconds, passes = fitted("cuda", folders[large], many)
    peak = torch.cuda.max_memory_allocated() / 2**30
    lines = [("cpu", small, few, slow), ("cuda", small, few, fast), ("cuda", large, many, seconds)]
    lines = [(device, f"{n:,}", f"{L:,}", f"{t:.1f}", f"{n / t:,.0f}") for device, n, L, t in lines]
    section.say(markdown(("device", "rows", "landmarks", "seconds", "rows/s"), lines))
    ends = ", ".join(f"{label} by {when:.1f} s" for label, when in passes.items())
    section.say(
        f"The large fit: route {whole.route_}, condition of K_zz {whole.map_.condition_:.1e}, C = {whole.C_:.3g}, "
        f"{ends}, {peak:.1f} GiB of GPU memory at most. The small one, stopped in the middle of its sums and resumed "
        f"from its checkpoint, gives {'the same bits' if same else 'OTHER BITS'}; it takes {slow / fast:.1f} times as "
        f"long on the {os.cpu_count()} cores of the CPU."
    )
    section.claim("CPU and GPU streams apart, relative", apart, 1e-6, at_least=False, quick=options.quick)

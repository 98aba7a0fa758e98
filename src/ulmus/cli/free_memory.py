"""Whether a table fits in memory."""

import os
import re
from pathlib import Path

from ulmus.tables.read import files_of
from ulmus.tables.sniff import Source

#: A table is streamed when its numbers take more than this share of the free memory: a fit holds several copies.
SHARE = 1 / 8
#: How much larger a compressed text is than its file, roughly.
PACKED = 5


def too_large(path: str) -> bool:
    """Whether a fit to all rows of a file could run out of memory."""
    return path != "-" and sum(numbers(file) for file in files_of(path)) > SHARE * free()


def numbers(path: str) -> int:
    """Bytes of the table as numbers of eight bytes, roughly: those of a text are about as long."""
    source = Source(path)
    if source.layout().format == "parquet":
        from pyarrow.parquet import ParquetFile

        with source.open() as file:
            about = ParquetFile(file).metadata
            return int(8 * about.num_rows * about.num_columns)
    return os.path.getsize(path) * (PACKED if source.compressed else 1)


def free() -> int:
    """Bytes that this process may still take: of the machine, or of its control group."""
    limits = []
    try:
        found = re.search(r"MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text())
        limits += [1024 * int(found[1])] if found else []
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        limits += [int(limit) - int((group / "memory.current").read_text())] if limit != "max" else []
    except OSError:
        pass
    return min(limits, default=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))

"""What is in a wheel: the package, its data and nothing else. ``python tools/check_wheel.py dist/ulmus-….whl``."""

import sys
import tomllib
import zipfile
from pathlib import Path

LIMIT_BYTES = 3_000_000


def check(path: Path) -> list[str]:
    """All that is wrong with a wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
    version = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    wrong = [f"{name} is not the library's" for name in names if not name.startswith(("ulmus/", "ulmus-"))]
    wrong += [f"{name} belongs into the repository" for name in names if "/tests/" in name or "/experiments/" in name]
    wrong += [f"{needed} is missing" for needed in ("ulmus/py.typed", "ulmus/demo.py") if needed not in names]
    if not any(name.startswith("ulmus/_core.") for name in names):
        wrong.append("the compiled core is missing: is there a C compiler?")
    if not any(name.endswith(".npz") for name in names):
        wrong.append("the data sets are missing")
    if path.stat().st_size > LIMIT_BYTES:
        wrong.append(f"it has {path.stat().st_size:,} bytes, at most {LIMIT_BYTES:,} are meant")
    if f"-{version}-" not in path.name:
        wrong.append(f"it is not of version {version}")
    return wrong


if __name__ == "__main__":
    found = [f"{name}: {each}" for name in sys.argv[1:] for each in check(Path(name))]
    print(*found, sep="\n")
    sys.exit(bool(found))

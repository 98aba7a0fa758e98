"""How easy the code is to read, in numbers: ``python tools/house.py`` prints them, ``--check`` holds the bounds.

Counted are own classes in the line of ancestors, methods that several of them define, files that a fit enters and those
between a fit and its formula, lines of the named models, class names with two meanings, and private attributes of
models and of feature maps read from other packages.
"""

import argparse
import ast
import inspect
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ulmus
from ulmus.solvers.ridge import NormalEquations

SOURCE = Path(ulmus.__file__).parent

#: What may not get worse: the figures of the present code.
BOUNDS = {
    "most own ancestors of a model": 4,
    "methods of NKELMRegressor that several classes define": 5,
    "files that NKELMRegressor(50, gamma=1, C=1).fit enters": 23,
    "files that NKELMRegressor().fit enters": 27,
    "files between NKELMRegressor.fit and its formula": 2,
    "class names with two meanings": 0,
    "private attributes of models read elsewhere": 0,
    "private attributes of feature maps read elsewhere": 0,
    "mentions of __dict__, __getattr__ and the like in models": 16,
    "files past 400 lines": 0,
    "most lines of a model beside its docstring, but for ENDA": 40,
    "lines of ENDA beside its docstring": 150,
}


def estimators() -> dict[str, type]:
    """The named models."""
    return {
        name: cls for name in ulmus.__all__ if isinstance(cls := getattr(ulmus, name), type) and hasattr(cls, "fit")
    }


def own(cls: type) -> list[type]:
    """The classes of this library among the ancestors of a class, itself included."""
    return [each for each in cls.__mro__ if each.__module__.startswith("ulmus")]


def defined_twice(cls: type) -> list[str]:
    """Methods that more than one own class of the line defines."""
    counts = Counter(
        name
        for each in own(cls)
        for name, value in vars(each).items()
        if inspect.isfunction(value) or isinstance(value, property)
    )
    return sorted(name for name, count in counts.items() if count > 1)


def profiled(model: Any, note: Callable[[Any, str, Any], None]) -> None:
    """Fit a model to 200 rows, and note every call."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 3))
    sys.setprofile(note)
    try:
        model.fit(X, np.sin(X[:, 0]))
    finally:
        sys.setprofile(None)


def entered(model: Any) -> dict[Path, set[int]]:
    """Files of this library in which a fit on 200 rows runs functions, and the lines where these begin."""
    seen: dict[Path, set[int]] = defaultdict(set)

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            seen[Path(frame.f_code.co_filename)].add(frame.f_code.co_firstlineno)

    profiled(model, note)
    return seen


def way_to_formula(model: Any) -> list[Path]:
    """Files of the calls that lead from ``fit`` to the normal equations, in their order."""
    way: list[Path] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is NormalEquations.__init__.__code__ and not way:
            while frame is not None:
                if frame.f_code.co_filename.startswith(str(SOURCE)):
                    way.insert(0, Path(frame.f_code.co_filename))
                frame = frame.f_back

    profiled(model, note)
    return list(dict.fromkeys(way))


def lines_entered(seen: dict[Path, set[int]]) -> tuple[int, int]:
    """Lines of the files that a fit enters, and of the functions that it runs in them."""
    whole = run = 0
    for path, starts in seen.items():
        text = path.read_text(encoding="utf-8")
        whole += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                run += ((node.end_lineno or first) - first + 1) * (first in starts)
    return whole, run


def sources() -> Iterator[tuple[Path, str]]:
    """The library's files and their text."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE), path.read_text(encoding="utf-8")


def class_names() -> dict[str, list[str]]:
    """Where each class is defined, for names that stand for several."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    return {name: where for name, where in places.items() if len(where) > 1}


def private_reads() -> list[str]:
    """Places outside ``models/`` that read a private attribute of a model."""
    return [
        f"{path}: {line.strip()}"
        for path, text in sources()
        if path.parts[0] != "models"
        for line in text.splitlines()
        if re.search(r"\b(model|member|estimator)\._[a-z]", line)
    ]


def is_private(name: str) -> bool:
    """Whether a name is for its own class alone, and no protocol of a notebook or of Python."""
    return name.startswith("_") and not name.endswith("_")


def private_map_reads() -> list[str]:
    """Places outside ``features/`` that read, or set, what classes in there keep to themselves."""
    names: set[str] = set()
    for path, text in sources():
        for node in ast.walk(ast.parse(text)) if path.parts[0] == "features" else ():
            if isinstance(node, ast.ClassDef):
                names |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                names.add(node.attr)
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, text in sources()
        if path.parts[0] != "features"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr in names
        if not re.search(r"^(self|cls|super\(.*\)|.*\bmodel)$", ast.unparse(node.value))
    ]


def magic() -> int:
    """Mentions of what a frozen fitted value makes unnecessary."""
    pattern = r"__dict__|__getattr__|__getattribute__|__init_subclass__|vars\(self\)|vars\(model\)"
    return sum(len(re.findall(pattern, text)) for path, text in sources() if path.parts[0] == "models")


def own_lines(cls: type) -> int:
    """Lines of code of a class beside its docstring."""
    (node,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(node, ast.ClassDef)
    return sum((item.end_lineno or 0) - item.lineno + 1 for item in node.body[1:])


def figures() -> dict[str, int]:
    """All that is bounded."""
    model = partial(ulmus.NKELMRegressor, random_state=0)
    return {
        "most own ancestors of a model": max(len(own(cls)) for cls in estimators().values()),
        "methods of NKELMRegressor that several classes define": len(defined_twice(ulmus.NKELMRegressor)),
        "files that NKELMRegressor(50, gamma=1, C=1).fit enters": len(entered(model(50, gamma=1.0, C=1.0))),
        "files that NKELMRegressor().fit enters": len(entered(model())),
        "files between NKELMRegressor.fit and its formula": len(way_to_formula(model(50, gamma=1.0, C=1.0))) - 2,
        "class names with two meanings": len(class_names()),
        "private attributes of models read elsewhere": len(private_reads()),
        "private attributes of feature maps read elsewhere": len(private_map_reads()),
        "mentions of __dict__, __getattr__ and the like in models": magic(),
        "files past 400 lines": sum(text.count("\n") > 400 for _, text in sources()),
        "most lines of a model beside its docstring, but for ENDA": max(
            own_lines(cls) for cls in estimators().values() if hasattr(cls, "predict") and cls is not ulmus.ENDA
        ),
        "lines of ENDA beside its docstring": own_lines(ulmus.ENDA),
    }


def main() -> int:
    """Print the figures; with ``--check``, 1 if one is past its bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where a figure is past its bound")
    parser.add_argument("--places", action="store_true", help="say where names and private reads are")
    asked = parser.parse_args()
    found = figures()
    for name, value in found.items():
        print(f"{value:5d} (at most {BOUNDS[name]:3d})  {name}")
    print(f"{sum(text.count(chr(10)) for _, text in sources()):5d} lines in {len(list(sources()))} files")
    for what in ({"n_landmarks": 50, "gamma": 1.0, "C": 1.0}, {}):
        whole, run = lines_entered(entered(ulmus.NKELMRegressor(random_state=0, **what)))
        named = "NKELMRegressor(50, gamma=1, C=1)" if what else "NKELMRegressor()"
        print(f"{whole:5d} lines in the files that {named}.fit enters, {run} in the functions that it runs")
    for name, cls in estimators().items():
        print(f"{len(own(cls)):5d} own ancestors, {own_lines(cls):3d} lines: {name}")
    if asked.places:
        print(*[f"{name}: {', '.join(where)}" for name, where in class_names().items()], sep="\n")
        print(*private_reads(), *private_map_reads(), sep="\n")
    past = [name for name, value in found.items() if value > BOUNDS[name]]
    for name in past if asked.check else ():
        print(f"past its bound: {name}", file=sys.stderr)
    return int(asked.check and bool(past))


if __name__ == "__main__":
    raise SystemExit(main())

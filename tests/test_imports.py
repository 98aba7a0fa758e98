"""What is loaded when: nothing before it is named."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ulmus


def loaded(*lines):
    """Modules of ours, and of others, that a fresh interpreter has loaded after these lines."""
    code = "; ".join([*lines, "import sys; print(*sys.modules)"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = set(done.stdout.split())
    ours = {name for name in names if name.split(".")[0] == "ulmus"}
    return ours, names - ours


def test_importing_the_package_loads_its_list_of_names_alone():
    ours, others = loaded("import ulmus")
    assert ours == {"ulmus", "ulmus.report"}  # the function of that name, a page long
    assert not others & {"numpy", "scipy", "sklearn", "pandas", "torch", "onnx", "matplotlib"}


def test_models_on_the_cpu_load_no_gpu_no_onnx_and_no_files():
    ours, others = loaded(
        "from ulmus import NKELMClassifier, KELMRegressor, ELMOrdinalClassifier, ENDAEnsemble",
        "import ulmus",
        "model = ulmus.AdaptiveRegressor(effort='fast')",
        "ulmus.NKELMRegressor(5, gamma=1.0, C=1.0).fit([[0.0], [1.0], [3.0]], [0.0, 1.0, 2.0])",
        "ulmus.KELMRegressor(gamma=1.0, C=1.0).fit([[0.0], [1.0], [3.0]], [0.0, 1.0, 2.0])",
    )
    devices = {name for name in ours if name.startswith("ulmus.devices.")}
    assert devices <= {"ulmus.devices.routes", "ulmus.devices.accelerator", "ulmus.devices.tensors"}
    packages = {name.split(".")[1] for name in ours if "." in name}
    assert not packages & {"onnx", "persistence", "tables", "plots", "datasets", "streaming", "distributed", "cli"}
    assert not others & {"torch", "triton", "onnx", "matplotlib", "dask", "safetensors"}
    # half of what importing a model took beside scikit-learn's own
    assert not others & {f"sklearn.{name}" for name in ("cluster", "neighbors", "tree", "model_selection")}


def test_what_is_announced_to_type_checkers_is_what_is_loaded():
    tree = ast.parse(Path(ulmus.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {node.module: {name.name for name in node.names} for node in block.body}
    modules = told.pop("ulmus")
    assert told == {module: set(names) for module, names in ulmus.HOMES.items()}
    assert {name for names in told.values() for name in names} | modules | {"report"} == set(ulmus.__all__)


def test_every_public_name_can_be_had():
    for name in ulmus.__all__:
        assert getattr(ulmus, name) is not None
        assert name in dir(ulmus)
    assert callable(ulmus.report)
    assert ulmus.engine.__name__ == "ulmus.engine"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ulmus.nonsense  # noqa: B018


def test_the_report_stays_a_function_when_its_modules_are_loaded():
    import ulmus.report.page

    assert "ulmus.report.page" in sys.modules
    assert callable(ulmus.report)


def test_what_is_listed_is_for_users():
    import ulmus

    assert {name for name in dir(ulmus) if not name.startswith("__")} == set(ulmus.__all__)

"""A new user's session: mixed CSV → fit → report → predict → export → a bare machine → the same predictions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ulmus
from test_cli import people
from ulmus.cli import main

SECTIONS = (
    *("scores", "data", "choice", "errors", "parts", "calibration", "learning", "importance", "dependence", "what_if"),
    *("map", "unsure", "again"),
)


def process(*arguments, folder):
    here = {**os.environ, "PYTHONPATH": str(Path(ulmus.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-m", "ulmus", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=here,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize(
    ("target", "effort", "option", "own"),
    [
        pytest.param("price", [], ["--interval", "0.9"], True, marks=pytest.mark.slow),
        pytest.param("kind", [], ["--proba"], False, marks=pytest.mark.slow),
        ("kind", ["--effort", "fast"], ["--proba"], False),
    ],
)
@pytest.mark.usefixtures("few_resamples")
def test_a_session_from_a_csv_to_a_bare_machine(tmp_path, monkeypatch, capsys, target, effort, option, own):
    """Every command in a process of its own, or all in this one."""

    def ulmus_command(*arguments, folder):
        if own:
            return process(*arguments, folder=folder)
        monkeypatch.chdir(folder)
        assert main(list(arguments)) == 0
        return capsys.readouterr().out

    other = {"price": "kind", "kind": "price"}[target]
    people(200).drop(columns=other).to_csv(tmp_path / "data.csv", index=False)
    people(50, seed=1).drop(columns=["price", "kind"]).to_csv(tmp_path / "new.csv", index=False)

    fit = ["fit", "data.csv", "--target", target, *effort, "-o", "model.ulmus", "--report", "report.html"]
    said = ulmus_command(*fit, folder=tmp_path)
    assert "left out" in said
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(f'<section id="{key}">' in page for key in SECTIONS)

    ulmus_command("predict", "model.ulmus", "new.csv", "-o", "out.csv", *option, folder=tmp_path)
    ours = pd.read_csv(tmp_path / "out.csv")
    assert len(ours) == 50

    ulmus_command("export", "model.ulmus", "model.onnx", "--dtype", "float64", folder=tmp_path)
    bare = subprocess.run(
        [sys.executable, "-I", Path(__file__).with_name("onnx_only.py"), "model.onnx", "new.csv"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert bare.returncode == 0, bare.stderr
    theirs = json.loads(bare.stdout)
    if target == "price":
        np.testing.assert_allclose(theirs["prediction"], ours["prediction"], rtol=1e-10)
    else:
        assert theirs["label"] == ours["prediction"].tolist()
        columns = ["probability of high", "probability of low", "probability of mid"]
        np.testing.assert_allclose(theirs["probabilities"], ours[columns], atol=1e-10)

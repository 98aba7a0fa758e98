"""The commands in the documents run."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from data import cases
from test_cli import people
from ulmus.cli import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands_of(document):
    """Lines behind a prompt in blocks of the console, and indented lines that are a command."""
    text = document.read_text()
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    prompted = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ulmus ")]
    return prompted + re.findall(r"^ {4,}(ulmus .*)$", text, re.MULTILINE)


TELLING = [document for document in DOCUMENTS if commands_of(document)]


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.usefixtures("brief", "few_resamples")
@pytest.mark.parametrize("document", cases(TELLING, *TELLING[:2]), ids=lambda d: d.name)
def test_commands_in_the_documents_run(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("people.csv", "data.csv"):
        people(120).to_csv(name, index=False)
    ages = people(120)  # as the first steps have them: a label
    ages.assign(age=np.where(ages["age"] > ages["age"].median(), "old", "young")).to_csv("table.csv", index=False)
    people(30, seed=1).to_csv("new.csv", index=False)
    for command in commands_of(document):
        assert main(shlex.split(command)[1:]) == 0, command


def test_there_are_commands_to_run():
    assert sum(len(commands_of(d)) for d in DOCUMENTS) >= 7

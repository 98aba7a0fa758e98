"""The commands in the documents run."""

import re
import shlex
from pathlib import Path

import pytest

from test_cli import people
from ulmus.cli import main

DOCUMENTS = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))


def commands_of(document):
    blocks = re.findall(r"^```console\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ulmus ")]


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("document", [d for d in DOCUMENTS if commands_of(d)], ids=lambda d: d.name)
def test_commands_in_the_documents_run(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people(120).to_csv("people.csv", index=False)
    people(30, seed=1).to_csv("new.csv", index=False)
    for command in commands_of(document):
        assert main(shlex.split(command)[1:]) == 0, command


def test_there_are_commands_to_run():
    assert sum(len(commands_of(d)) for d in DOCUMENTS) >= 7

"""The demonstration runs from the package alone and its figures are those of the paper, within its spread."""

import pytest

from data import cases
from ulmus import demo


@pytest.mark.parametrize("who", cases(["models with settings", "everybody"]))
def test_demo_prints_every_contestant_and_comes_near_the_paper(who, capsys, monkeypatch):
    monkeypatch.setattr(demo, "FITS", 1)
    if who != "everybody":
        given = {k: tuple(c for c in v if c.settings != "no arguments") for k, v in demo.CONTESTANTS.items()}
        monkeypatch.setattr(demo, "CONTESTANTS", given)
    monkeypatch.delenv("ULMUS_DATA", raising=False)
    demo.main()
    lines = capsys.readouterr().out.splitlines()
    for contestants in demo.CONTESTANTS.values():
        for contestant in contestants:
            (line,) = [x for x in lines if x.split("  ")[1:2] == [contestant.name] and contestant.settings in x]
            accuracy = float(line.split(contestant.settings)[1].split()[0])
            # the paper prints no deviations; L = 300 costs up to 3 points here (Nystroem + Ridge 87.0, NKELM 88.5),
            # and half a point is left for the draw. Rows without a printed figure are compared with 90
            assert abs(accuracy - (contestant.printed or (90.0, 0.0))[0]) < 3.5

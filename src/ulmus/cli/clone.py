"""The commands that are run from a clone, and their options; what they do is in ``experiments.py``."""

from typing import Literal

from ulmus.cli.options import Flag


def reproduce(
    *documents: Literal["nkelm", "enda", "oselm", "kelmor", "newton", "all"],
    quick: Flag = False,
    data: str | None = None,
    out: str = "reproduced",
    jobs: int = 1,
) -> None:
    """Repeat the experiments of the published documents: their figures, ours, and today's alternatives.

    Parameters
    ----------
    documents
        Which documents.
    quick
        Few repetitions, on the data that come with the package; takes a minute or two.
    data
        The folder of Parquet files, instead of ULMUS_DATA.
    out
        Folder for results.json and index.html; an interrupted run continues from there.
    jobs
        Measurements to run at a time, each on one core; times are then those of one core.
    """
    from ulmus.cli.experiments import reproduce as run

    run(documents, quick=quick, data=data, out=out, jobs=jobs)


def bench(
    *,
    suite: Literal["arena", "core", "tabular", "ablation", "ordinal", "online", "robust"] = "tabular",
    contestant: list[str] | None = None,
    dataset: list[str] | None = None,
    quick: Flag = False,
    data: str | None = None,
    out: str = "bench",
    jobs: int = 1,
    inner: Flag = False,
    confirm: Flag = False,
    curves: Flag = False,
    once: Flag = False,
    every_core: Flag = False,
) -> None:
    """Compare the models with common alternatives, on this machine.

    Parameters
    ----------
    suite
        Which models and data sets.
    contestant
        Only this contestant; may be repeated.
    dataset
        Only this data set; may be repeated.
    quick
        Only the data that come with the package, one split.
    data
        The folder of Parquet files, instead of ULMUS_DATA.
    out
        Folder for results.json and index.html; an interrupted run continues from there.
    jobs
        Measurements to run at a time, each on one core; times are then those of one core.
    inner
        Arena only: split the training rows once more and leave the test rows alone; for making decisions.
    confirm
        Arena only: run the confirmation tables as well, once a version is finished.
    curves
        Arena only: measure learning curves as well.
    once
        Arena only: one split per table, on one thread.
    every_core
        Arena only, with --once: on every core as well.
    """
    from ulmus.cli.experiments import bench as run

    protocol = {"inner": inner, "confirm": confirm, "curves": curves, "once": once, "every_core": every_core}
    run(suite, contestant, dataset, protocol, quick=quick, data=data, out=out, jobs=jobs)

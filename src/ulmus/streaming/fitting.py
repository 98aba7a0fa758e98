"""Fitting a model to a source: look at all rows, fix the map on a sample, sum, solve."""

import copy
from contextlib import closing
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from ulmus import engine
from ulmus._fingerprint import fingerprint
from ulmus.backend import backend_for
from ulmus.engine import Rows
from ulmus.models._adaptive import AdaptiveModel
from ulmus.models._robust import Robust
from ulmus.models.adaptive_steps import AdaptiveSteps
from ulmus.models.reading import columns_restored
from ulmus.models.steps import LogSteps, Steps
from ulmus.persistence.codec import StateDecoder, StateEncoder
from ulmus.persistence.file import library_version
from ulmus.streaming.adaptive import fit_adaptive
from ulmus.streaming.batches import BATCH_ROWS
from ulmus.streaming.errors import CheckpointError, SourceError
from ulmus.streaming.journal import PREPROCESS, Journal, Saved
from ulmus.streaming.leaves import LeavesOnDisk
from ulmus.streaming.log_loss import fit_log
from ulmus.streaming.progress import Show
from ulmus.streaming.robust_passes import fit_robust_stream
from ulmus.streaming.sources import Names, open_source
from ulmus.streaming.stream import Stream
from ulmus.streaming.sums import AgainOverRows, Encoder, Folds, SummaryAccumulator
from ulmus.streaming.survey import SAMPLE_ROWS, Survey
from ulmus.streaming.transformer import fit_transformer

#: Parameters that do not change what is fitted.
_INDIFFERENT = ("n_jobs", "verbose")


def fit(
    model: Any,
    source: Any,
    *,
    target: Names = None,
    features: Names = None,
    weight: str | int | None = None,
    preprocess: Any = None,
    batch_rows: int = BATCH_ROWS,
    sample_rows: int = SAMPLE_ROWS,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float | None = 60.0,
    checkpoint_rows: int | None = None,
    leaves: str | Path | None = None,
    progress: Show = None,
) -> Any:
    """Fit a model to rows that need not fit in memory.

    The source is read twice: once to check the rows, count classes and draw a sample, on which the feature map is
    chosen; once to sum. C and the number of features, where they are left open, are chosen from the sums of all rows.
    Where the sums have lost digits, it is read again to win them back. What is fitted is what ``model.fit`` would fit
    to all rows with the same feature map, to 1e-10. An adaptive model takes more passes, and its leaves are made from
    rows on disk: in the checkpoint folder, or in the one for temporary files.

    Parameters
    ----------
    model : estimator
        An ELM, NKELM or other model with a feature map, or an adaptive one; it is fitted in place. KELM holds every row
        and cannot. One with ``device="cuda"`` has its batches summed on the GPU.
    source : path, folder, glob, list of paths, pyarrow dataset, array, tuple of arrays, or re-iterable
        Parquet, CSV and Arrow files; ``(X, y)`` or ``(X, y, weight)``, memory-mapped or not; one two-dimensional array
        with ``target`` the number of a column; or something that yields batches ``(X, y)`` or ``(X, y, weight)`` every
        time it is iterated over, or called.
    target : str or list of str (int for an array)
        Column to learn, or columns, for a regressor with several outputs.
    features : list of str, optional
        Columns to learn from; default: all others.
    weight : str, optional
        Column of weights; a weight of k equals k copies of the row.
    preprocess : transformer, optional
        Turns features of any kind (as a pandas frame, when they come from files) into numbers; adaptive models do so by
        themselves. One that is fitted already is used as it is; else it is fitted first, by ``partial_fit`` on all rows
        if it has that, by ``fit`` on a sample if not. The result is then a ``Pipeline`` of it and the model.
    batch_rows : int, default=16384
        Rows that are multiplied together. A result is repeatable to the last bit for the same number.
    sample_rows : int, default=65536
        Rows of the sample.
    checkpoint : path, optional
        Folder in which the state of the fit is saved. The same call, made again after an interruption of any kind, goes
        on from there and gives the same model to the last bit. A folder that belongs to another model, other
        parameters, another source or files that have changed is refused.
    checkpoint_seconds, checkpoint_rows : float or None, int or None, default=60 and None
        How often.
    leaves : path, optional
        Folder in which the leaves of an adaptive model stay. The model maps them instead of holding them: predictions
        read the leaves that rows fall into, and ``max_memory`` limits their number no more. The folder is needed as
        long as the model is used; one that is saved (or pickled) takes its leaves along. A model of so few rows that
        the sample holds them all is in memory.
    progress : bool, "rich", "plain", callable or None, default=None
        Show rows, rate and time left: with rich or in one plain line on stderr. None does so on a terminal. A callable
        gets a :class:`Report` now and then.

    Returns
    -------
    estimator
        The model, fitted; with ``preprocess``, a pipeline that ends in it.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import NKELMRegressor, streaming
    >>> def days():
    ...     for day in range(5):
    ...         X = np.random.RandomState(day).uniform(-3, 3, (200, 1))
    ...         yield X, np.sin(X[:, 0])
    >>> model = streaming.fit(NKELMRegressor(50, gamma=1.0, C=1e3, random_state=0), days)
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.01)
    True
    """
    for name, value in (("batch_rows", batch_rows), ("sample_rows", sample_rows)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
    check_model(model)
    if leaves is not None and not isinstance(model, AdaptiveModel):
        raise ValueError(f"leaves= is for adaptive models; {type(model).__name__} has no leaves")
    adaptive = isinstance(model, AdaptiveModel)  # which reads columns of every kind by itself
    raw = preprocess is not None or adaptive
    opened = open_source(source, target=target, features=features, weight=weight, raw=raw)
    identity: dict[str, Any] = {
        "ulmus": library_version(),
        "model": type(model).__name__,
        "batch_rows": batch_rows,
        "sample_rows": sample_rows,
    }
    if checkpoint is not None:
        identity |= {
            "parameters": _parameters(model),
            "preprocess": _plain("preprocess", preprocess),
            "source": opened.identity(thorough=True),
            **({} if leaves is None else {"leaves": "mapped"}),
        }
    first_rows = getattr(opened, "first_rows", None)
    journal = Journal(checkpoint, identity, seconds=checkpoint_seconds, rows=checkpoint_rows, first_rows=first_rows)
    with closing(journal):
        stream = Stream(opened, batch_rows, journal, n_jobs=model.n_jobs, progress=progress)
        rng, seed = random_numbers(model, journal)
        names, prepare = opened.feature_names, preprocess
        steps: Any = steps_of(model)
        own = adaptive and prepare is None and names is not None
        prepare = steps.table_encoder(names) if own else prepare
        if prepare is not None:
            prepare = fit_transformer(
                prepare, opened, batch_rows=batch_rows, sample_rows=sample_rows, seed=seed, progress=progress
            )
            _compare_transformer(prepare, journal)
            stream.prepare, names = prepare.transform, None
            if own:
                steps.encoder = prepare
        survey = survey_for(model, sample_rows, seed, names)
        on_disk = LeavesOnDisk(stream, journal, None if leaves is None else _folder(leaves))
        with columns_restored(model):
            fit_stream(steps, stream, journal, rng, survey, names, getattr(model, "device", "cpu"), on_disk)
        stream.confirm()
    return model if preprocess is None else Pipeline([("preprocess", prepare), ("model", model)])


def _folder(leaves: str | Path) -> Path:
    """A folder that can be written."""
    folder = Path(leaves)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"leaves={str(leaves)!r} must be a folder that can be written: {error}") from error
    return folder


def _compare_transformer(transformer: Any, journal: Journal) -> None:
    """A transformer that was fitted again for a checkpoint must be the one whose output is summed there."""
    if journal.folder is None:
        return
    state, saved = _plain("preprocess", transformer), journal.load(PREPROCESS)
    if saved is None:
        journal.save(PREPROCESS, Saved(0, True, {}, {"state": state}))
    elif saved.notes["state"] != state:
        raise CheckpointError(
            f"the transformer, fitted again, is not the one that checkpoint {journal.folder} has used; give it a "
            "random_state, or fit it before and pass it fitted. Delete the folder to start over"
        )


def survey_for(model: Any, sample_rows: int, seed: int, names: list[str] | None) -> Survey:
    """What the first pass looks at for a model: adaptive ones know holes."""
    return Survey(sample_rows, seed, is_classifier(model), names, allows_missing=isinstance(model, AdaptiveModel))


def steps_of(model: Any) -> Steps:
    """The steps in which a model is fitted."""
    if isinstance(model, AdaptiveModel):
        return AdaptiveSteps(model)
    return LogSteps(model) if getattr(model, "loss", "squared") == "log" else Steps(model)


def fit_stream(
    steps: Steps,
    stream: Any,
    journal: Journal,
    rng: np.random.RandomState,
    survey: Survey,
    names: list[str] | None,
    device: str = "cpu",
    leaves: Any = None,
) -> None:
    """Survey, map, sums, weights; ``stream`` is anything that reduces rows to an accumulator as :class:`Stream` does.

    ``leaves`` makes the local stage of an adaptive model.
    """
    model = steps.model
    found: Survey | None = survey
    while found is not None:
        survey = stream.reduce("survey", found, found.look)
        survey.merge_pending()
        found = survey.wider()
    if not survey.n_rows:
        raise SourceError("the source has no rows of positive weight")
    assert survey.y is not None
    steps.validate(survey.X, survey.y)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    encoder = Encoder.of(steps, survey.y, survey.classes, survey.class_mass)
    if isinstance(steps, AdaptiveSteps):
        work = survey.n_rows * float(steps.most_features(Rows(survey.X, survey.y))) ** 2
        with backend_for(device, model.n_jobs, work) as backend, steps.reported():
            fit_adaptive(steps, stream, journal, survey, encoder, rng, backend, leaves or LeavesOnDisk(stream, journal))
        return
    sample = encoder.encode(survey.X, survey.y, survey.sample_weight, survey.sample_unit, "the sample")
    if isinstance(model, Robust):
        fit_robust_stream(model, stream, encoder, sample, steps.targets, survey.weight, rng)
        if names is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        return
    deal = None if model.cv is None else Folds.dealt(sample.X, int(model.cv))
    folds = None if deal is None else deal.of(sample.X)
    if isinstance(steps, LogSteps):
        _begin(steps, journal, sample, folds, rng, None, oversize=False)
        total = survey.weight if encoder.balance is None else float(survey.class_mass @ encoder.balance)
        fit_log(steps, stream, encoder, total, survey.whole)
        return
    n_outputs = sample.T.shape[1]
    work = 0.0 if device == "cpu" else survey.n_rows * float(steps.most_features(sample)) ** 2
    accumulator: Any
    again: Any
    with backend_for(device, model.n_jobs, work) as backend:
        _begin(steps, journal, backend.received(sample), folds, rng, backend, oversize=not survey.whole)
        if backend.name == "cpu":
            accumulator = SummaryAccumulator(steps, encoder, n_outputs, deal)
            again = AgainOverRows(stream, steps, encoder, n_outputs)
        else:
            from ulmus.streaming.device import AgainOnDevice, DeviceSummaryAccumulator

            accumulator = DeviceSummaryAccumulator(steps, encoder, n_outputs, deal, backend)
            again = AgainOnDevice(stream, steps, encoder, n_outputs, driver=backend)
        # the two keep their sums in different triangles, so that one must not go on from the other's
        label = "sums" if backend.name == "cpu" else f"sums-{backend.name}"
        summary = stream.reduce(label, accumulator, accumulator.work).summary()
        # a sample that holds every row has chosen already what there is to choose
        steps.finish(summary, choose=not survey.whole, again=again)


def _begin(
    steps: Steps,
    journal: Journal,
    sample: Rows,
    folds: np.ndarray | None,
    rng: np.random.RandomState,
    backend: Any,
    *,
    oversize: bool,
) -> None:
    """Choose the map on the sample, or take it, and chance as it was afterwards, from the journal."""
    saved = journal.load("map")
    if saved is not None:
        chosen, rng = StateDecoder(saved.notes["objects"], saved.arrays).decode(saved.notes["state"])
        steps.begin(sample, folds, rng, backend, chosen=chosen)
        return
    with engine.threads_for(len(sample)):
        steps.begin(sample, folds, rng, backend, oversize=oversize)
    if journal.folder is not None:
        encoder = StateEncoder()
        try:
            state = encoder.encode((steps.chosen, rng), "the model")
        except TypeError:
            return  # a callable kernel cannot be saved: the choice is made again from the sample that is
        journal.save("map", Saved(0, True, encoder.arrays, {"objects": encoder.objects, "state": state}))


def check_model(model: Any) -> None:
    """Refuse what cannot be streamed before anything is read."""
    steps_of(model).check()
    if isinstance(model, AdaptiveModel):
        return
    loss = getattr(model, "loss", "squared")
    if loss not in ("squared", "log") and not isinstance(model, Robust):
        raise ValueError(
            f'streams support loss="squared"; {type(model).__name__} with loss={model.loss!r} needs rows in memory'
        )
    if loss == "log" and (model.C is None or getattr(model, "device", "cpu") == "cuda"):
        raise ValueError(
            'the passes of loss="log" run on the CPU and need a penalty: set device="cpu" and C to a number or "auto", '
            f"got device={model.device!r} and C={model.C!r}"
        )
    if getattr(model, "solver", "auto") == "iterative":
        raise ValueError(
            f'streams are fitted by sums over rows, the direct route; solver="iterative" of {type(model).__name__} '
            'reads all rows in every iteration. Set solver="auto" or "direct", or load the rows and call fit'
        )
    if getattr(model, "forgetting", 1.0) != 1.0:
        raise ValueError(
            f"forgetting={model.forgetting!r} weighs rows by their order, which sums do not know; call partial_fit "
            "block by block, or set forgetting=1"
        )
    if getattr(model, "metric", None) is not None:
        raise ValueError(
            "metric= is not supported for streams; fit a LearnedMetric on some rows and pass it as preprocess= instead"
        )
    if not (model.cv is None or isinstance(model.cv, Integral)):
        raise ValueError(f"cv must be None or a number of folds for a stream, got {model.cv!r}")


def random_numbers(model: Any, journal: Journal) -> tuple[np.random.RandomState, int]:
    """The model's generator, and a seed for the sample; a model without a seed gets one that the journal keeps."""
    given = model.random_state
    if given is None:
        saved = journal.load("seed") or Saved(arrays={"seed": np.array(np.random.RandomState().randint(2**31 - 1))})
        journal.save("seed", saved)
        given = int(saved.arrays["seed"])
    seed = int(check_random_state(copy.deepcopy(given)).randint(2**31 - 1))
    return check_random_state(given), seed


def _parameters(model: Any) -> dict[str, Any]:
    """Parameters of a model as plain JSON."""
    return {k: _plain(k, v) for k, v in sorted(model.get_params(deep=False).items()) if k not in _INDIFFERENT}


def _plain(name: str, value: Any) -> Any:
    """A value as plain JSON: numbers and strings as they are, all else by its state, fitted or not."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    try:
        return f"{type(value).__name__} {fingerprint(value)}"
    except TypeError as error:
        raise CheckpointError(
            f"checkpoint= has to tell this {name} from another one, and cannot: {error}; fit without a checkpoint, or "
            "give one whose state can be compared"
        ) from error

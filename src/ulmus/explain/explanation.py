"""Reasons for predictions: how much every input moved them."""

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

#: Inputs that an explanation names when it is printed.
LARGEST = 3


@dataclass(frozen=True, repr=False)
class Explanation:
    """Shapley values of predictions: what every input adds to them, beside what the background gets on the average.

    ``values.sum(axis=1) + base_values`` are the scores that were explained: predictions of a regressor,
    ``decision_function`` of a classifier. Attributes are called as those of ``shap.Explanation``; :meth:`to_shap` makes
    one, for the plots of that package.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        How much each input raises the score, in the units of the score.
    base_values : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Mean score of the background.
    data : ndarray of shape (n_samples, n_features)
        The rows.
    feature_names : list of str
    output_names : list of str or None
        Classes, where there are several scores.
    errors : ndarray
        Standard errors of ``values``; 0 where these are exact, NaN where one pair of orders shows none.
    interactions : ndarray of shape (n_samples, n_features, n_features) or one more, or None
        Where they were asked for: values of pairs of inputs, half on either side of the diagonal; rows add up to
        ``values``.
    interaction_errors : ndarray of the shape of ``interactions``, or None
        Their standard errors; 0 where they are exact.
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    feature_names: list[str]
    errors: np.ndarray
    output_names: list[str] | None = None
    interactions: np.ndarray | None = None
    interaction_errors: np.ndarray | None = None

    @property
    def exact(self) -> bool:
        """Whether the values are exact, or sampled with the standard errors in ``errors``."""
        return not self.errors.any()

    def __repr__(self) -> str:
        sizes = np.abs(self.values if np.ndim(self.data) > 1 else self.values[None])  # of one row, taken by its number
        of = f"{len(sizes)} rows by {len(self.feature_names)} inputs"
        of += f", {sizes.shape[2]} outputs" if sizes.ndim > 2 else ""
        how = "exact" if self.exact else f"sampled, standard errors up to {np.nanmax(self.errors):.2g}"
        mean = sizes.reshape(len(sizes), len(self.feature_names), -1).sum(axis=(0, 2))
        largest = ", ".join(self.feature_names[j] for j in np.argsort(-mean, kind="stable")[:LARGEST])
        return f"<Explanation of {of} ({how}); largest on average: {largest}>"

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Explanation":
        """Explanations of some rows; a tuple may name inputs and an output as well, ``[rows, :, output]``."""
        rows, inputs, output = (
            (*rows, slice(None), slice(None))[:3] if isinstance(rows, tuple) else (rows, *[slice(None)] * 2)
        )
        if not isinstance(inputs, slice) or inputs != slice(None):
            raise IndexError(
                "an explanation is indexed by rows and outputs: explanation[rows] or explanation[rows, :, output]"
            )
        if isinstance(output, str):
            if output not in (self.output_names or []):
                raise IndexError(f"there is no output {output!r}; the outputs are {self.output_names}")
            output = (self.output_names or []).index(output)
        several = self.values.ndim == 3
        some = {"values": self.values[rows], "errors": self.errors[rows], "base_values": self.base_values[rows]}
        both = {"interactions": self.interactions, "interaction_errors": self.interaction_errors}
        some |= {name: array[rows] for name, array in both.items() if array is not None}
        if several:
            some = {name: array[..., output] for name, array in some.items()}
        names = self.output_names
        if isinstance(output, int | np.integer):
            names = None
        elif several and names is not None and output != slice(None):
            names = list(np.asarray(names, dtype=object)[output])
        return replace(self, **some, data=self.data[rows], output_names=names)

    def importance(self) -> np.ndarray:
        """Mean absolute value of every input, ``[input]`` or ``[input, output]``."""
        return np.abs(self.values).mean(axis=0)

    def to_shap(self) -> Any:
        """A ``shap.Explanation`` of the same, for the plots of that package (which has to be installed)."""
        try:
            shap = import_module("shap")
        except ImportError as error:
            raise ImportError("to_shap makes an object of the package shap; get it with pip install shap") from error
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self.data,
            feature_names=self.feature_names,
            output_names=self.output_names,
        )

    def to_frame(self) -> Any:
        """A pandas frame: the base value, then the value of every input (of every output)."""
        import pandas as pd

        if self.values.ndim == 2:
            columns = {"base value": self.base_values} | dict(zip(self.feature_names, self.values.T, strict=True))
            return pd.DataFrame(columns)
        names = self.output_names or [str(k) for k in range(self.values.shape[2])]
        parts = [self[:, :, k].to_frame().add_suffix(f" → {name}") for k, name in enumerate(names)]
        return pd.concat(parts, axis=1)

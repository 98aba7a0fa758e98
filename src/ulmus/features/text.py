r"""Free text as numbers: hashed n-grams, weighed by how rare they are, in the plane of their largest variance.

.. math::

    A_{ig} = \text{count}_{ig}\,\Big(1 + \log\frac{1 + \sum_i w_i}{1 + \sum_i w_i [\text{count}_{ig} > 0]}\Big),
    \qquad A^T W A \approx V \operatorname{diag}(s) V^T, \qquad \text{features} = AV ,

rows of A of length one. The n-grams are words, and three and four letters within words, for short texts, and words and
pairs of words for long ones, as far as they recur: of those that one text has alone, new texts have none, and rows of
length one would be shorter in all others. (Decided on random splits of a development table, diamonds, put in words.)
V is found by subspace iteration on the side of the n-grams, so that rows come in as sums alone: a
weight of k equals k rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

#: Numbers that a text becomes, at most: as many as skrub takes.
TEXT_FEATURES = 30
#: Hashes; words of a text, in the mean, from which on words are taken and not letters; steps of the iteration.
BUCKETS, LONG, STEPS = 1 << 14, 12, 5
_LETTERS = {"analyzer": "char_wb", "ngram_range": (3, 4)}
#: Name of an analyzer → what it counts. A word may be one letter; the last two are those of older files.
READERS: dict[str, tuple[dict[str, Any], ...]] = {
    "words": ({"ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"},),
    "words and letters": ({"token_pattern": r"(?u)\S+"}, _LETTERS),
    "word": ({"ngram_range": (1, 2)},),
    "char_wb": (_LETTERS,),
}
#: Texts that are read to find the plane.
MOST_TEXTS = 50_000


@dataclass(frozen=True)
class TextFeatures:
    """What texts become: the n-grams that were seen, their weights, and the plane."""

    analyzer: str
    buckets: np.ndarray
    rarity: np.ndarray
    plane: np.ndarray

    @classmethod
    def of(
        cls, texts: Sequence[str], weight: np.ndarray, n_features: int, rng: np.random.RandomState
    ) -> "TextFeatures":
        """Learn from distinct texts; ``weight`` says how often each occurs."""
        if len(texts) > MOST_TEXTS:
            some = np.sort(rng.permutation(len(texts))[:MOST_TEXTS])
            texts, weight = [texts[i] for i in some], weight[some]
        words = float(np.average([text.count(" ") + 1 for text in texts], weights=weight))
        analyzer = "words" if words > LONG else "words and letters"
        counts = _counts(texts, analyzer)
        often = np.asarray((counts > 0).T @ weight).ravel()
        texts_with = np.asarray((counts > 0).sum(axis=0)).ravel()
        seen = np.flatnonzero(texts_with > (1 if (texts_with > 1).any() else 0))
        rarity = 1.0 + np.log((1.0 + weight.sum()) / (1.0 + often[seen]))
        blank = cls(analyzer, seen, rarity, np.empty((len(seen), 0), np.float32))
        if not len(seen):
            return blank
        plane = _leading(blank._weighed(counts), weight, min(n_features, len(seen), max(1, len(texts) - 1)), rng)
        return cls(analyzer, seen, rarity, plane.astype(np.float32))

    @property
    def n_features(self) -> int:
        return int(self.plane.shape[1])

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """Numbers of texts; a text without a known n-gram is 0."""
        if not len(texts) or not self.n_features:
            return np.zeros((len(texts), self.n_features))
        return np.asarray(self._weighed(_counts(texts, self.analyzer)) @ self.plane.astype(np.float64))

    def _weighed(self, counts: Any) -> Any:
        A = (counts[:, self.buckets] @ sparse.diags(self.rarity)).tocsr()
        length = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
        return sparse.diags(1.0 / np.where(length > 0, length, 1.0)) @ A


def _counts(texts: Sequence[str], analyzer: str) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    parts = READERS[analyzer]
    options = {"n_features": BUCKETS // len(parts), "alternate_sign": False, "norm": None, "strip_accents": "unicode"}
    found = [HashingVectorizer(**part, **options).transform(texts) for part in parts]
    return found[0] if len(found) == 1 else sparse.hstack(found, format="csr")


def _leading(A: Any, weight: np.ndarray, k: int, rng: np.random.RandomState) -> np.ndarray:
    """The leading eigenvectors of AᵀWA; the largest entry of each is positive."""
    W = sparse.diags(weight)
    V = rng.standard_normal((A.shape[1], min(k + 10, A.shape[1])))
    for _ in range(STEPS):
        V, _ = np.linalg.qr(V)
        V = A.T @ (W @ (A @ V))
    V, _ = np.linalg.qr(V)
    AV = A @ V
    values, turn = np.linalg.eigh(AV.T @ (W @ AV))
    kept = np.argsort(values)[::-1][:k]
    V = V @ turn[:, kept[values[kept] > 1e-10 * values.max()]]
    largest = np.abs(V).argmax(axis=0)
    return np.asarray(V * np.sign(V[largest, np.arange(V.shape[1])]))

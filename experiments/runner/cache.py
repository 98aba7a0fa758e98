"""Answers on disk, one small file a cell: an interrupted run goes on where it stopped."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from experiments.runner.facts import commit
from experiments.runner.protocol import Answer
from ulmus._files import write_text


class Cache:
    """A folder of answers; without one nothing is kept. What cannot be read is computed again."""

    def __init__(self, folder: Path | None, signature: str = "") -> None:
        self.folder, self.signature = folder, signature
        #: Commit → how many of the answers that were taken or put are of it.
        self.commits: Counter[str] = Counter()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def _file(self, folder: Path, key: str) -> Path:
        return folder / f"{hashlib.sha256(f'{self.signature}|{key}'.encode()).hexdigest()[:24]}.json"

    def get(self, key: str) -> Answer | None:
        """The answer to a key, if there is one that is whole."""
        if self.folder is None:
            return None
        try:
            stored = json.loads(self._file(self.folder, key).read_text())
        except (OSError, ValueError):
            return None
        whole = isinstance(stored, dict) and stored.get("key") == key and stored.get("signature") == self.signature
        if not whole or not isinstance(stored.get("answer"), dict):
            return None
        self.commits[stored.get("commit", "unknown")] += 1
        return stored["answer"]

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer; a reader never sees half of it."""
        self.commits[commit()] += 1
        if self.folder is None:
            return
        stored = {"key": key, "signature": self.signature, "commit": commit(), "answer": plain(answer)}
        write_text(self._file(self.folder, key), json.dumps(stored))


def plain(value: Any) -> Any:
    """Numbers and lists that JSON knows."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    return value

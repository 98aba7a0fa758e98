"""Answers on disk, one small file a cell: an interrupted run goes on where it stopped."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ulmus._files import write_text
from ulmus.reproduce.protocol import Answer


class Cache:
    """A folder of answers. What cannot be read is computed again."""

    def __init__(self, folder: Path, signature: str) -> None:
        self.folder, self.signature = folder, signature
        folder.mkdir(parents=True, exist_ok=True)

    def _file(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(f'{self.signature}|{key}'.encode()).hexdigest()[:24]}.json"

    def get(self, key: str) -> Answer | None:
        """The answer to a key, if there is one that is whole."""
        try:
            stored = json.loads(self._file(key).read_text())
        except (OSError, ValueError):
            return None
        whole = isinstance(stored, dict) and stored.get("key") == key and stored.get("signature") == self.signature
        return stored["answer"] if whole and isinstance(stored.get("answer"), dict) else None

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer; a reader never sees half of it."""
        write_text(self._file(key), json.dumps({"key": key, "signature": self.signature, "answer": plain(answer)}))


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

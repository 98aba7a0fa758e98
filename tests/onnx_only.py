"""Predicts the rows of a CSV with ONNX Runtime, NumPy and the standard library; whatever else is imported is refused.

Run by test_new_user in a process of its own: ``python onnx_only.py model.onnx new.csv``. Prints JSON.
"""

import csv
import datetime
import json
import sys

ALLOWED = {"numpy", "onnxruntime", *sys.stdlib_module_names}


class Bare:
    """An environment in which only these packages are installed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ImportError(f"{name} is not installed")


if __name__ == "__main__":
    sys.meta_path.insert(0, Bare())

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402


def days(text):
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days if text else np.nan


def number(text):
    return {"true": 1.0, "false": 0.0, "": np.nan}.get(text) if text in ("true", "false", "") else float(text)


def main(model, table):
    with open(table, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    session = onnxruntime.InferenceSession(model)
    inputs = {}
    for wanted in session.get_inputs():
        texts = [row[wanted.name] for row in rows]
        if wanted.type == "tensor(string)":
            inputs[wanted.name] = np.array(texts, dtype=object)[:, None]
        else:
            read = days if "-" in max(texts) and max(texts).count("-") == 2 else number
            kind = np.float64 if wanted.type == "tensor(double)" else np.float32
            inputs[wanted.name] = np.array([read(t) for t in texts], dtype=kind)[:, None]
    names = [o.name for o in session.get_outputs()]
    answers = dict(zip(names, (a.tolist() for a in session.run(names, inputs)), strict=True))
    assert not {"ulmus", "sklearn", "scipy", "pandas", "onnx"} & set(sys.modules)
    print(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])

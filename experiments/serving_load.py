"""Load on ``ulmus serve``: single rows over loopback, many connections, one server process.

    python -m experiments.serving_load --requests 100000

A model of 1,000 landmarks on eight columns is fitted, served, and asked for one row at a time by connections that stay
open. Told are requests a second, processor seconds of the server and of the clients (the rate depends on what else the
machine does, these hardly), and every answer that is not what the model says of that row.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ulmus
from ulmus.cli.models import model_for
from ulmus.persistence import save
from ulmus.tables.read import read_table
from ulmus.tables.schema import frame, learn, target

#: Rows of the table, distinct rows that are asked for, landmarks.
ROWS, ASKED, LANDMARKS = 4_000, 500, 1_000


def table() -> pd.DataFrame:
    """Six numbers and two categories."""
    rng = np.random.RandomState(0)
    found = pd.DataFrame(rng.normal(size=(ROWS, 6)).round(4), columns=[f"x{j}" for j in range(6)])
    found["town"], found["kind"] = rng.choice(["Rome", "Oslo", "Bern"], ROWS), rng.choice(list("abcdef"), ROWS)
    noise = 0.1 * rng.normal(size=ROWS)
    found["y"] = (np.sin(2 * found["x0"]) + found["x1"] * found["x2"] + (found["town"] == "Rome") + noise).round(5)
    return found


def fitted(folder: Path) -> tuple[Path, list[bytes], np.ndarray]:
    """A model file, requests, and what the model says to each."""
    data, file = folder / "table.csv", folder / "model.ulmus"
    rows = table()
    rows.to_csv(data, index=False)
    batch = read_table(str(data))
    schema = learn(batch, "y")
    pipeline = model_for(schema, "nkelm", effort="fast", seed=0, threads=1)
    pipeline[-1].set_params(n_landmarks=LANDMARKS, gamma=0.1, C=100.0)
    X = frame(batch, schema, print)
    pipeline.fit(X, target(batch, schema, print)[0])
    save(pipeline, file, notes={"table": schema.to_json()})
    bodies = [json.dumps(row).encode() for row in rows.drop(columns="y")[:ASKED].to_dict("records")]
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return file, [head % len(body) + body for body in bodies], np.asarray(ulmus.load(file).predict(X[:ASKED]))


async def client(port: int, share: range, requests: list[bytes], expected: np.ndarray) -> int:
    """Ask one after the other; how many answers were wrong."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    wrong = 0
    for k in share:
        writer.write(requests[k % ASKED])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer: Any = json.loads(await reader.readexactly(length))
        found = answer.get("predictions", [np.nan])[0]
        wrong += not (head.startswith(b"HTTP/1.1 200") and abs(found - expected[k % ASKED]) < 1e-6)
    writer.close()
    return wrong


async def load(
    port: int, count: int, connections: int, requests: list[bytes], expected: np.ndarray
) -> tuple[float, int]:
    began = time.perf_counter()
    shares = [range(c, count, connections) for c in range(connections)]
    wrong = sum(await asyncio.gather(*(client(port, share, requests, expected) for share in shares)))
    return count / (time.perf_counter() - began), wrong


async def ready(port: int) -> None:
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise RuntimeError("the server did not start")


def main() -> None:
    """Run, and print two lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--port", type=int, default=8765)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file, requests, expected = fitted(Path(folder))
        server = subprocess.Popen([sys.executable, "-m", "ulmus", "serve", str(file), "--port", str(given.port)])
        try:
            asyncio.run(ready(given.port))
            began = time.process_time()
            rate, wrong = asyncio.run(load(given.port, given.requests, given.connections, requests, expected))
        finally:
            server.terminate()
            server.wait(timeout=30)
    print(f"{given.requests:,} requests, {given.connections} connections: {rate:,.0f} a second, {wrong} wrong answers")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    served, asked = used.ru_utime + used.ru_stime, time.process_time() - began
    each = f"{1e3 * served / given.requests:.2f} serving, {1e3 * asked / given.requests:.2f} asking"
    print(f"processor seconds in a thousand requests: {each}")


if __name__ == "__main__":
    main()

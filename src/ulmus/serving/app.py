"""The ASGI application: a page, a schema, JSON and CSV."""

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ulmus.serving.answers import Predictor, Question
from ulmus.serving.page import form_page
from ulmus.serving.queue import Waiting
from ulmus.tables import TableError
from ulmus.tables.objects import refuse_nested
from ulmus.tables.schema import BY_REQUEST, Schema

#: The header that tells what is odd about an uploaded table, as a JSON list; texts in it, at most.
WARNINGS, MOST_WARNINGS = "Ulmus-Warnings", 20


@dataclass(frozen=True)
class Limits:
    """What one request may hold: bytes, and rows as JSON."""

    body: int = 16 << 20
    rows: int = 10_000


class TooLarge(ValueError):
    """A request beyond the limits."""


class Malformed(ValueError):
    """A request that is not one of those that are documented."""


def application(model: Any, schema: Schema, *, hosts: tuple[str, ...] = (), limits: Limits | None = None) -> Starlette:
    """An ASGI application for a fitted pipeline.

    Parameters
    ----------
    model : Pipeline
        As ``ulmus fit`` saves it.
    schema : Schema
        Of its table.
    hosts : tuple of str
        Names by which it may be called, besides localhost; a page of another name cannot reach it.
    limits : Limits, optional
    """
    limits = limits or Limits()
    predictor = Predictor(model, schema)
    waiting = Waiting(predictor)
    page = form_page(predictor)

    async def body_of(request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > limits.body:
                raise TooLarge(f"the request is longer than {limits.body:,} bytes")
            parts.append(part)
        return b"".join(parts)

    async def home(request: Request) -> Response:
        return HTMLResponse(page)

    async def schema_of(request: Request) -> Response:
        columns = [{"name": name, "kind": kind.name, "form": kind.form} for name, kind in schema.columns.items()]
        facts = {"target": schema.target, "task": schema.task, "columns": columns, "classes": predictor.classes}
        return JSONResponse({**facts, "limits": {"bytes": limits.body, "rows": limits.rows}})

    async def predict(request: Request) -> Response:
        question = _question(await body_of(request), limits)
        predictor.check(question)
        answer = await waiting.ask(question)
        found: dict[str, Any] = {"predictions": answer.predictions}
        if answer.probabilities is not None:
            found["classes"], found["probabilities"] = predictor.classes, answer.probabilities
        if answer.intervals is not None:
            found["intervals"] = answer.intervals
        if answer.warnings:
            found["warnings"] = answer.warnings
        return JSONResponse(found)

    async def upload(request: Request) -> Response:
        table, notes = await asyncio.to_thread(_predicted_file, predictor, await body_of(request))
        headers = {"Content-Disposition": 'attachment; filename="predictions.csv"'}
        headers |= {WARNINGS: json.dumps(notes[:MOST_WARNINGS])} if notes else {}
        return Response(table, media_type="text/csv; charset=utf-8", headers=headers)

    async def refused(request: Request, error: Exception) -> Response:
        place = {"row": error.row, "column": error.column} if isinstance(error, TableError) else {}
        code = 413 if isinstance(error, TooLarge) else 422 if isinstance(error, TableError) else 400
        return JSONResponse({"error": str(error), **place}, status_code=code)

    return Starlette(
        routes=[
            Route("/", home),
            Route("/schema", schema_of),
            Route("/predict", predict, methods=["POST"]),
            Route("/csv", upload, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1", "[::1]", *hosts])],
        exception_handlers={TableError: refused, TooLarge: refused, Malformed: refused},
    )


def _question(body: bytes, limits: Limits) -> Question:
    """A question as JSON: one row, several, or an object with rows and what else is asked."""
    try:
        given = json.loads(body)
    except ValueError as error:
        raise Malformed(f"not JSON: {error}") from None
    if isinstance(given, list):
        given = {"rows": given}
    if not isinstance(given, dict):
        raise Malformed('a request is a row {"x": 1}, a list of rows, or {"rows": [...], "proba": true}')
    if not isinstance(given.get("rows"), list):
        given = {"rows": [given]}
    strange = set(given) - {"rows", "proba", "interval"}
    if strange:
        raise Malformed(f"a request may have rows, proba and interval, but not {sorted(strange)[0]!r}")
    rows, proba, interval = given["rows"], given.get("proba", False), given.get("interval")
    if not isinstance(proba, bool) or not (interval is None or isinstance(interval, int | float)):
        raise Malformed("proba is true or false, interval a number between 0 and 1")
    if len(rows) > limits.rows:
        raise TooLarge(f"{len(rows):,} rows are more than the {limits.rows:,} that one request may hold; upload a file")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise TableError('a row must be a JSON object, like {"x": 1}', row=number)
        for name, value in row.items():
            refuse_nested(value, row=number, column=name)
    return Question(rows, proba, interval)


def _predicted_file(predictor: Predictor, body: bytes) -> tuple[bytes, list[str]]:
    """An uploaded table with its predictions beside it, as CSV, and what is odd about its rows."""
    from ulmus.tables.predict import Doubt, predict_file

    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "upload", Path(folder) / "predictions.csv"
        given.write_bytes(body)
        notes: list[str] = []
        doubt = Doubt(predictor.classes is not None)
        try:
            options: dict[str, Any] = {"doubt": doubt, "advice": BY_REQUEST, "warn": notes.append}
            predict_file(predictor.model, predictor.schema, str(given), str(out), **options)
        except TableError as error:
            raise TableError(error.message, file="the file", row=error.row, column=error.column) from None
        return out.read_bytes(), [text.replace(str(given), "the file") for text in notes]

"""Processor seconds of tests, those of processes they start included: ``python -m pytest -p tools.processor_times``.

At the end stand the sum, the files and the tests that cost most. Seconds of a processor hardly depend on what else the
machine does; a run on n idle cores takes an n-th of the sum, and the time to start.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

SHOWN = 25
_spent: Counter[str] = Counter()


def _now() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    """Note when a test begins; its teardown, the last that is reported, says what it took."""
    item.began = _now()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    outcome: Any = yield
    if call.when == "teardown":
        outcome.get_result().user_properties.append(("processor", _now() - item.began))


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "teardown":
        _spent[report.nodeid] += dict(report.user_properties).get("processor", 0.0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    files: Counter[str] = Counter()
    for test, seconds in _spent.items():
        files[test.partition("::")[0]] += seconds
    terminalreporter.write_line(f"\n{sum(_spent.values()):.1f} processor seconds in {len(_spent)} tests")
    for table in (files, _spent):
        terminalreporter.write_line("\n".join(f"{seconds:8.2f}  {name}" for name, seconds in table.most_common(SHOWN)))

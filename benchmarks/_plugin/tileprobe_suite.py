"""A pytest plugin for `benchmarks._suite`: runs chosen tests, each with a time limit, and writes down how each ended.

In come a file of test names and a file to append to (both in environment variables); out goes one JSON object a line,
written when a test begins and when it has ended, so that a process that dies says which test it died in. The kernels
that a test launched on a GPU, real or simulated, are named with it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

CHOSEN, RESULTS, SECONDS = "TILEPROBE_CHOSEN", "TILEPROBE_RESULTS", "TILEPROBE_SECONDS"
GIGABYTES = "TILEPROBE_GIGABYTES"  # of memory that a process may take
UNTIL = "TILEPROBE_UNTIL"  # no test begins after this time
BEFORE = "TILEPROBE_BEFORE"  # Python code to be run before the tests are looked for
_launched: Counter[str] = Counter()  # by the test that runs
_inside: list[
    str
] = []  # what the exceptions of a group say: Hypothesis raises several failures of a test as one


if GIGABYTES in os.environ:
    most = int(float(os.environ[GIGABYTES]) * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
exec(os.environ.get(BEFORE, ""))


class TooLong(BaseException):
    """Not an `Exception`: nothing of a test is to catch it."""


def _write(**what: Any) -> None:
    with open(os.environ[RESULTS], "a") as file:
        print(json.dumps(what), file=file, flush=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHOSEN not in os.environ:  # they are only listed
        return
    order = {name: n for n, name in enumerate(Path(os.environ[CHOSEN]).read_text().splitlines())}
    items[:] = sorted((i for i in items if i.nodeid in order), key=lambda item: order[item.nodeid])


def pytest_sessionstart() -> None:
    from triton.compiler import CompiledKernel

    kind: Any = CompiledKernel
    plain = kind.launch_metadata

    def launch_metadata(self: Any, grid: Any, *rest: Any) -> Any:
        if self.metadata.target.backend == "cuda":
            _launched[f"{self.metadata.name} {self.hash[:8]}"] += 1
        return plain(self, grid, *rest)

    kind.launch_metadata = launch_metadata  # called once a launch, whatever the target


def _stop(*_: Any) -> None:
    raise TooLong


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, None]:
    _launched.clear()
    _inside.clear()
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.exit("the time is over", returncode=0)
    _write(test=item.nodeid, begins=True)
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    seconds = float(os.environ[SECONDS])
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of this process: others may keep the machine busy
    outcome = yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    if outcome.excinfo is not None:
        _inside.extend(f"{type(one).__name__}: {one}"[:600] for one in _members(outcome.excinfo[1]))
    if outcome.excinfo is not None and issubclass(outcome.excinfo[0], TooLong):
        outcome.force_exception(TimeoutError(f"took longer than {seconds:g} s"))


def _members(error: BaseException) -> list[BaseException]:
    """Of a group of exceptions, and of groups in it."""
    found: list[BaseException] = []
    for one in getattr(error, "exceptions", ()):  # `BaseExceptionGroup`
        found += _members(one) or [one]
    return found


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        said = crash.message if crash is not None else str(report.longrepr or "")
        if _inside and report.when == "call":
            said = "\n".join([said[:400], *_inside])
        _write(
            test=report.nodeid,
            ended="skipped" if report.outcome == "skipped" else report.outcome,
            when=report.when,
            said=said[:4000],
            seconds=round(report.duration, 2),
            launched=dict(_launched),
        )

"""The fixture `tileprobe`: run a kernel on a simulated GPU, assert what it took, compare with what it took before.

pytest imports this module in every run where the package is installed: nothing heavy comes with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tileprobe.sim import Result

UPDATED = "tileprobe_updated"  # the property of a test that wrote a baseline


def pytest_addoption(parser: Any, pluginmanager: Any) -> None:
    _keep_as_it_is(pluginmanager)
    group = parser.getgroup("tileprobe", "performance of kernels on simulated GPUs")
    group.addoption(
        "--tileprobe-update",
        action="store_true",
        help="write what kernels take to the baselines beside the tests, instead of comparing",
    )


def _keep_as_it_is(pluginmanager: Any) -> None:
    """pytest rewrites the asserts of whatever comes with a plugin: the whole package, though nothing of it asserts for
    users. It would be parsed anew, by several threads at once, which Python 3.11 cannot do."""
    marked = getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("tileprobe")


@pytest.fixture
def tileprobe(request: pytest.FixtureRequest) -> Measuring:
    """Runs kernels on simulated GPUs and compares what they take with baselines; docs/pytest.md."""
    return Measuring(request.node, bool(request.config.getoption("--tileprobe-update")))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = (each for held in terminalreporter.stats.values() for each in held)
    tests = [each for each in reports if isinstance(each, pytest.TestReport) and each.when == "call"]
    said = [text for report in tests for text in _updates(report)]
    if said:
        terminalreporter.section("baselines of kernels")
        for text in dict.fromkeys(said):
            terminalreporter.write_line(text)


def _updates(report: pytest.TestReport) -> list[str]:
    return [str(value) for name, value in report.user_properties if name == UPDATED]


class Measuring:
    """What the fixture `tileprobe` is. Names of the package (`tileprobe.array`) are there as well."""

    def __init__(self, test: Any, update: bool) -> None:
        self._test, self._update = test, update
        self._checked: set[str] = set()

    def __repr__(self) -> str:
        return f"<tileprobe's fixture, baselines in {_near(self.baselines)}>"

    def __getattr__(self, name: str) -> Any:
        import tileprobe as package

        return getattr(package, name)

    def run(self, kernel: Any, grid: Any, /, *args: Any, on: str = "sim:a100", **options: Any) -> Result:
        """`kernel[grid](*args, **options)` on a simulated GPU, with time and empty caches."""
        __tracebackhide__ = True
        from tileprobe import sim
        from tileprobe.errors import TileProbeError

        try:
            return sim.run(kernel, grid, *args, on=on, **options)
        except TileProbeError as error:  # its message says it all: pytest need not show how it came up here
            raise error.with_traceback(None) from None

    def measure(self, on: str = "sim:a100", **settings: Any) -> AbstractContextManager[list[Result]]:
        """A block whose launches are run on a simulated GPU; gives the list of their results."""
        from tileprobe import sim

        return sim.measure(on, **settings)

    def check(
        self, result: Result, name: str | None = None, *, tolerance: float | Mapping[str, float] = 0.0
    ) -> None:
        """Fails where a launch took other than its baseline says, by more than `tolerance` (a share of what it was; for
        each figure its own, where it is a table). A baseline is called after its test, and `name` where it has one."""
        __tracebackhide__ = True
        from tileprobe.errors import TileProbeError
        from tileprobe.sim import Result
        from tileprobe.testing import baselines

        if not isinstance(result, Result):
            pytest.fail(f"check takes the result of one launch, not {type(result).__name__}")
        key = self._key(name)
        path = self.baselines
        try:
            now = baselines.entry(result)
            self._test.user_properties.append((f"tileprobe.{key}.cycles", result.cycles))
            if self._update:
                self._tell(key, baselines.update(path, key, now), now)
                return
            kept = baselines.read(path).get(key)
            changed = [] if kept is None else baselines.differences(kept, now, tolerance)
        except TileProbeError as error:
            pytest.fail(str(error))
        if kept is None:
            pytest.fail(self._missing(key))
        if changed or kept.get("machine") != now["machine"]:
            from tileprobe.testing.told import told

            pytest.fail(told(key, kept, now, changed, _near(path)))

    @property
    def baselines(self) -> Path:
        """The file beside the test."""
        path = Path(self._test.path)
        return path.with_name(f"{path.stem}.baselines.toml")

    def _key(self, name: str | None) -> str:
        __tracebackhide__ = True
        called = _inner(self._test)
        key = called if name is None else f"{called}: {name}"
        if not key.isprintable():
            pytest.fail(f"{key!r} is no name for a baseline: it has characters that cannot be printed")
        if key in self._checked:
            pytest.fail(f"{key} was checked before in this test; tell them apart: check(result, 'name')")
        self._checked.add(key)
        return key

    def _tell(self, key: str, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> None:
        if before == now:
            return
        cycles = f"{now['cycles']:,} cycles on {now['machine']}"
        if before is None:
            was = "new"
        elif all(before.get(name) == value for name, value in now.items() if isinstance(value, int)):
            was = "the same figures, of another model or version"
        else:
            was = f"before: {before.get('cycles', 0):,}"
        self._test.user_properties.append((UPDATED, f"{_near(self.baselines)}: {key}, {cycles} ({was})"))

    def _missing(self, key: str) -> str:
        return (
            f"{_near(self.baselines)} has no baseline {key!r}; to make it from this run, and to commit it then:\n"
            f"  pytest --tileprobe-update '{_near(Path(self._test.path))}::{_inner(self._test)}'"
        )


def _inner(test: Any) -> str:
    """What follows the file in the name of a test, without what xdist puts behind it."""
    return "::".join(node.name for node in test.listchain() if isinstance(node, pytest.Class | pytest.Item))


def _near(path: Path) -> str:
    """A path as one would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)

"""Interprets launches alongside the machine code, and says where the two part.

As a pytest plugin it does so for every launch of the tests:

    PYTHONPATH=tests/cpu/interpret pytest -p alongside tests/cpu/test_ops_shape.py

Launches of more programs than `TILEPROBE_ALONGSIDE_PROGRAMS` are left out, and kernels that get to tensors through
addresses in memory, which nobody here knows.
"""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

_LIMIT = int(os.environ.get("TILEPROBE_ALONGSIDE_PROGRAMS", "256"))


class Alongside:
    """Runs each launch in the interpreter first, in all orders; `found` is what went wrong."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.count = self.skipped = 0

    def install(self) -> None:
        from tileprobe.targets.cpu.launch import Launcher

        run = self._saved = Launcher.__call__
        watch = self

        def launch(launcher: Any, gx, gy, gz, stream, function, packed, metadata, enter, exit, *args) -> None:
            def work() -> None:
                run(launcher, gx, gy, gz, stream, function, packed, metadata, enter, exit, *args)

            watch.compare(launcher, (gx, gy, gz), args, work)

        Launcher.__call__ = launch

    def remove(self) -> None:
        from tileprobe.targets.cpu.launch import Launcher

        Launcher.__call__ = self._saved

    def compare(self, launcher: Any, grid: tuple[int, int, int], args: Any, work: Any) -> None:
        if not self._can_be_compared(launcher, grid, args):
            self.skipped += 1
            work()
            return
        self.count += 1
        launch, ours, error = self._interpreted(launcher, grid, args)
        try:
            work()
        except Exception as other:
            if error is None:
                self.found.append(f"{launcher.kernel}: machine code stops with {other!r}, ours does not")
            raise
        if error is not None:
            self.found.append(f"{launcher.kernel}: ours stops with {type(error).__name__}: {error}")
            return
        from tileprobe.targets.cpu.interpret.comparing import first_mismatch

        differs = first_mismatch(launch, launch.snapshot(), ours, None)
        if differs is not None:
            self.found.append(f"{launcher.kernel}: machine code and interpreter differ, {differs}")

    def _can_be_compared(self, launcher: Any, grid: tuple[int, int, int], args: Any) -> bool:
        from tileprobe.targets.cpu import bounds

        compiled = _compiled(launcher)
        if compiled is None or grid[0] * grid[1] * grid[2] > _LIMIT:
            return False
        tile_ir = compiled.asm["tile"]
        if "tt.int_to_ptr" in tile_ir or "!tt.ptr<!tt.ptr" in tile_ir:
            return False
        return bounds.extents(launcher.names, args) is not None

    def _interpreted(self, launcher: Any, grid: Any, args: Any) -> tuple[Any, Any, Exception | None]:
        """The launch, the tensors it leaves in the interpreter, and the error if it leaves none."""
        from tileprobe.targets.cpu.interpret.launching import of_compiled

        launch = of_compiled(_compiled(launcher), grid, launcher.names, args)
        before = launch.snapshot()
        try:
            report = launch.check_orders()
            if not report.ok:
                self.found.append(f"{launcher.kernel}: {report}")
            return launch, launch.snapshot(), None
        except Exception as error:
            return launch, None, error
        finally:
            launch.restore(before)


def _compiled(launcher: Any) -> Any:
    """The compiled kernel that owns a launcher, which itself knows nothing of it."""
    from triton.compiler.compiler import CompiledKernel

    if not hasattr(launcher, "compiled"):
        owners = (o for o in gc.get_objects() if isinstance(o, CompiledKernel))
        launcher.compiled = next((o for o in owners if o._run is launcher), None)
    return launcher.compiled


_plugin = Alongside()


def pytest_configure(config: pytest.Config) -> None:
    _plugin.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    _plugin.found.clear()
    result = yield
    if _plugin.found:
        pytest.fail("\n".join(_plugin.found[:5]), pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"{_plugin.count} launches interpreted, {_plugin.skipped} left out")

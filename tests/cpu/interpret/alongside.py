"""A pytest plugin: every launch of the tests is interpreted as well, and compared with what the machine code did.

    pytest -p alongside tests/cpu/test_ops_shape.py

Launches of more programs than `TILEPROBE_ALONGSIDE_PROGRAMS` are left out.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

_LIMIT = int(os.environ.get("TILEPROBE_ALONGSIDE_PROGRAMS", "256"))


class _Alongside:
    """Interprets a launch before it runs; a difference fails the test that launched it."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.count = self.skipped = 0

    def install(self) -> None:
        from triton.compiler.compiler import CompiledKernel

        from tileprobe.targets.cpu.launch import Launcher

        make, run = CompiledKernel._init_handles, Launcher.__call__
        plugin = self

        def init(compiled: Any) -> None:
            make(compiled)
            if isinstance(compiled._run, Launcher):
                compiled._run.compiled = compiled

        def launch(launcher: Any, gx, gy, gz, stream, function, packed, metadata, enter, exit, *args) -> None:
            def work() -> None:
                run(launcher, gx, gy, gz, stream, function, packed, metadata, enter, exit, *args)

            plugin.compare(launcher, (gx, gy, gz), args, work)

        CompiledKernel._init_handles, Launcher.__call__ = init, launch

    def compare(self, launcher: Any, grid: tuple[int, int, int], args: Any, work: Any) -> None:
        from tileprobe.errors import UnsupportedError
        from tileprobe.targets.cpu import bounds
        from tileprobe.targets.cpu.interpret.comparing import first_mismatch
        from tileprobe.targets.cpu.interpret.launching import of_compiled

        compiled = getattr(launcher, "compiled", None)
        if compiled is None or grid[0] * grid[1] * grid[2] > _LIMIT or _reaches_further(compiled.asm["tile"]):
            self.skipped += 1
            work()
            return
        if bounds.extents(launcher.names, args) is None:
            self.skipped += 1
            work()
            return
        self.count += 1
        launch, ours, error = None, None, None
        try:
            launch = of_compiled(compiled, grid, launcher.names, args)
            before = launch.snapshot()
            try:
                report = launch.check_orders()
                ours = launch.snapshot()
                if not report.ok:
                    self.found.append(f"{launcher.kernel}: {report}")
            finally:
                launch.restore(before)
        except Exception as caught:  # to be compared with what the machine code does
            error = caught
        try:
            work()
        except Exception as other:
            if error is None:
                self.found.append(f"{launcher.kernel}: machine code stops with {other!r}, ours does not")
            raise
        if error is not None and not isinstance(error, UnsupportedError):
            self.found.append(f"{launcher.kernel}: ours stops with {type(error).__name__}: {error}")
        elif ours is not None and launch is not None:
            differs = first_mismatch(launch, launch.snapshot(), ours, None)
            if differs is not None:
                self.found.append(f"{launcher.kernel}: machine code and interpreter differ, {differs}")


def _reaches_further(tile_ir: str) -> bool:
    """Does the kernel get to tensors through addresses in memory? Nobody here knows those."""
    return "tt.int_to_ptr" in tile_ir or "!tt.ptr<!tt.ptr" in tile_ir


_plugin = _Alongside()


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

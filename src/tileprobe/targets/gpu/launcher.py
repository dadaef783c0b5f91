"""Stands in the place of Triton's launcher of one kernel while a session is on, and asks it before each launch.

A launch that is looked at is timed by events of its own stream and waited for; with records it runs the probed kernel
with the same arguments, finds its table in the profile scratch, and its blocks are read back in that stream. All other
launches, and those of a graph that is being captured, go straight to Triton's.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.sampling import BUFFER, LAUNCH_EPOCH
from tileprobe.targets.base import Watch, launches
from tileprobe.targets.gpu.arguments import teller
from tileprobe.targets.gpu.kernel import GpuKernel
from tileprobe.targets.gpu.table import make_table

if TYPE_CHECKING:
    from tileprobe.targets.gpu.target import GpuTarget

_CAPTURED = (
    "launched while a graph was captured: what a graph runs later passes no profiler, so it has no probes; profile the "
    "same without graphs"
)
_REFUSED = (
    TileProbeError,
    MemoryError,
)  # a call of the driver's that a profiler makes, and its user does not


class _Made(threading.local):
    """How far the thread's launch got: what a driver refuses before or after it is no error of the user's."""

    done = failed = False

    def begin(self) -> None:
        self.done = self.failed = False

    @contextlib.contextmanager
    def launching(self) -> Iterator[None]:
        self.done, self.failed = False, True
        yield
        self.done, self.failed = True, False


_made = _Made()


class GpuLauncher:
    """Called as Triton's own: `(gx, gy, gz, stream, function, packed, launch_metadata, enter, exit, *args)`."""

    def __init__(self, compiled: Any, run: Any, target: GpuTarget) -> None:
        self.compiled, self._run, self.target = compiled, run, target

    def run(self, *plain: Any) -> None:
        """Triton's own launch."""
        with _made.launching():
            self._run(*plain)

    @cached_property
    def shown(self) -> GpuKernel:
        return GpuKernel(self.compiled, self.target)

    @cached_property
    def _tell(self) -> Any:
        return teller(self.shown.places)

    def __call__(
        self,
        gx: int,
        gy: int,
        gz: int,
        stream: int,
        function: Any,
        packed: Any,
        launch_metadata: Any,
        enter: Any,
        exit: Any,
        *args: Any,
    ) -> None:
        observer = launches.observer
        plain = (gx, gy, gz, stream, function, packed, launch_metadata, enter, exit, *args)
        if observer is None or gx * gy * gz == 0:
            self.run(*plain)
            return
        device, memory = self.target.device(), self.target.memory
        try:
            device.number()
            captured = device.capturing(stream)
        except _REFUSED as error:
            self._without(str(error), plain)
            return
        if captured:
            self._without(_CAPTURED, plain)
            return
        with memory.on(stream) as taken:
            watch = observer(self.shown, (gx, gy, gz), 0, self._tell(args))
        if watch is None:
            self.run(*plain)
            return
        if not self._loads(watch):
            watch.abort()
            self.run(*plain)
            return
        _made.begin()
        try:
            self._timed(watch, taken, plain)
            watch.stop()
        except BaseException as error:
            with contextlib.suppress(Exception):  # what was started may still write to its blocks
                device.synchronise(stream)
            watch.abort()
            if _made.failed or not isinstance(error, _REFUSED):
                raise
            if _made.done:
                launches.say(self.shown.name, f"a launch is not in the trace: {error}")
            else:
                self._without(str(error), plain)

    def _without(self, why: str, plain: tuple[Any, ...]) -> None:
        launches.say(self.shown.name, why)
        self.run(*plain)

    def _loads(self, watch: Watch) -> bool:
        """Whether the kernel with probes can be put on the GPU; if not, the user's own launch goes on without."""
        if watch.variant is None or watch.variant.layout is None:
            return True
        try:
            loaded(watch.variant.code.kernel)
        except Exception as error:
            launches.say(self.shown.name, f"cannot be loaded with probes: {error}")
            return False
        return True

    def _timed(self, watch: Watch, taken: list[Any], plain: tuple[Any, ...]) -> None:
        device, stream = self.target.device(), plain[3]
        variant = watch.variant
        if variant is None or variant.layout is None:
            run = self._events(watch, stream)
            self.run(*plain)
            run()
            return
        from tileprobe.targets.gpu.scratch import provided

        kernel, memory, layout = variant.code.kernel, self.target.memory, variant.layout
        launcher = loaded(kernel)
        words = np.ctypeslib.as_array((ctypes.c_uint64 * (LAUNCH_EPOCH + 1)).from_address(watch.parameters))
        epoch, programs = int(words[LAUNCH_EPOCH]), plain[0] * plain[1] * plain[2]
        assert watch.sampling is not None
        blocks = watch.sampling.wanted(programs)
        table = make_table(
            layout, watch.sampling, buffer=int(words[BUFFER]), epoch=epoch, programs=programs, blocks=blocks
        )
        for buffer in taken:
            buffer.on_read = lambda found: self.target.clock.learn(found, layout, epoch)
        piece = memory.piece(table.nbytes)
        device.write(piece.address, table, stream)

        def launch(hooks: tuple[Any, Any] = plain[7:9]) -> None:
            with provided(piece.address), _made.launching():
                launcher(*plain[:4], kernel.function, kernel.packed_metadata, plain[6], *hooks, *plain[9:])

        self._probed(watch, taken, plain, launch)
        memory.keep(piece)  # not after an error: the kernel may still be at it

    def _probed(
        self, watch: Watch, taken: list[Any], plain: tuple[Any, ...], launch: Callable[..., None]
    ) -> None:
        """The launch itself, between its events."""
        end = self._events(watch, plain[3])
        launch()
        end()

    def _events(self, watch: Watch, stream: int) -> Any:
        """Starts the launch's time; what is returned ends it and waits for the kernel."""
        device = self.target.device()
        watch.start()
        first = device.record(stream)

        def end() -> None:
            last = device.record(stream)
            device.synchronise(stream)
            watch.ended(duration_ns=round(device.elapsed_ns(first, last)))

        return end


_loading = threading.Lock()


def loaded(kernel: Any) -> Any:
    """Triton's own launcher of a kernel, its code on the GPU. Not by `kernel.run`, which leads back here."""
    with _loading:  # Triton shows a launcher before the code is there
        if kernel.function is None:
            kernel._init_handles()
    return kernel._run

"""Runs a compiled kernel: packs the arguments, hands the programs to the pool, raises what went wrong.

Triton makes one `Launcher` a compiled kernel and calls it on every launch, so the way through it without
errors is short: pack, run, look at the status.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cached_property
from typing import Any

from tileprobe.targets.base import Watch, launches
from tileprobe.targets.cpu import bounds, kernel_errors, pool
from tileprobe.targets.cpu.kernel import CpuKernel
from tileprobe.targets.cpu.launch_pack import make_chosen, make_convert, make_pack, make_tell, slots_of
from tileprobe.targets.cpu.pool_ir import STATUS_ERROR
from tileprobe.targets.cpu.same_memory import representatives, same_tensors
from tileprobe.targets.cpu.variants import recompiled

# Error blocks not in use. Each launch takes its own, as launches may overlap; list operations are atomic.
_blocks: list[kernel_errors.ErrorBlock] = []


class Launcher:
    """Called by Triton as `(gx, gy, gz, stream, function, packed, launch_metadata, enter, exit, *args)`."""

    def __init__(self, src: Any, metadata: Any):
        info = metadata.cpu
        fn = getattr(src, "fn", None)
        signature = list(src.signature.values())
        self.kernel = getattr(fn, "__name__", None) or src.name.lstrip("@")
        self.names = list(getattr(fn, "arg_names", None) or (str(k) for k in src.signature))
        slots = slots_of(self.names, signature)
        self._slots = slots
        self.arguments = tuple((slot.name, slot.type) for slot in slots)  # of what `_tell` tells
        self._check(slots, info)
        self._pack = make_pack(len(signature), slots)
        self._tell = make_tell(len(signature), slots)
        self._convert = make_convert(self.kernel, self.names[: len(signature)], slots)
        self._scratch_bytes = info["scratch_bytes"]
        self._sites = info["sites"]
        self.probing = info.get("probing")  # layout, regions and IR of a kernel with records
        self.src, self.metadata = src, metadata
        self._prints = bool(info.get("prints"))
        self._checks = bool(getattr(metadata, "check_bounds", False))
        self._apart = info.get("apart", [])
        apart = {name for pair in self._apart for name in pair}
        looked_at = [(slot, arg["name"]) for slot, arg in zip(slots, info["args"]) if arg["name"] in apart]
        self._tensor_names = [name for _, name in looked_at]
        self._tensors = make_chosen(len(signature), [slot for slot, _ in looked_at]) if looked_at else None
        self._variants: dict[str, Any] = {}  # by the arguments that are the same tensor

    @cached_property
    def shown(self) -> CpuKernel:
        """This kernel as a session sees it."""
        return CpuKernel(self)

    def _check(self, slots: Any, info: Any) -> None:
        """Code and signature must agree, or a launch would read other arguments than it was given."""
        if len(slots) != len(info["args"]):
            expected = ", ".join(f"{a['name']}: {a['type']}" for a in info["args"])
            found = ", ".join(f"{s.name}: {s.type}" for s in slots)
            raise AssertionError(
                f"kernel {self.kernel} is compiled for ({expected}) but is called with ({found})"
            )

    def __call__(self, gx, gy, gz, stream, function, packed, launch_metadata, enter, exit, *args):
        if self._tensors is not None:
            try:
                tensors = self._tensors(*args)
            except Exception:  # too few arguments, or a wrong one: looked at one by one
                self._convert(gx, gy, gz, 0, 0, 0, 0, *args)
                raise
            same = same_tensors(self._tensor_names, tensors)
            other = self._variant(same) if same else None
            if other is not None:
                other.run(gx, gy, gz, stream, other.function, packed, launch_metadata, enter, exit, *args)
                return
        block = _blocks.pop() if _blocks else kernel_errors.ErrorBlock()
        errors = ctypes.addressof(block)
        known, table = self._limits(args) if self._checks else (None, None)
        limits = ctypes.addressof(table) if table is not None else 0
        observer, watch = launches.observer, None
        parameters, running = 0, self
        if observer is not None and self.probing is None:
            watch = observer(self.shown, (gx, gy, gz), function, self._tell(*args))
        if watch is not None:
            pool.current()  # its threads are no part of the first launch
            parameters = watch.parameters
            if watch.accesses:
                self._look(watch, (gx, gy, gz), args)
            if watch.variant is not None:
                running, function = watch.variant.code.run, watch.variant.code.function
        entered = False
        try:
            try:
                launch = self._pack(gx, gy, gz, errors, parameters, 0, limits, *args)
            except Exception:
                launch = self._convert(gx, gy, gz, errors, parameters, 0, limits, *args)
            if enter is not None:
                enter(launch_metadata)
            entered = True
            if self._prints:
                sys.stdout.flush()
            status = pool.current().run(function, launch, gx * gy * gz, running._scratch_bytes, watch)
            if watch is not None:
                watch.stop()
        except (
            BaseException
        ):  # a wrong argument; Ctrl-C: programs that ran have ended, the others are given up
            if watch is not None:
                watch.abort()
            raise
        finally:
            if self._prints:
                ctypes.CDLL(None).fflush(None)
            if exit is not None and entered:
                exit(launch_metadata)
        if status:
            running._raise(status, block, (gx, gy, gz), known)
        _blocks.append(block)

    def _look(self, watch: Watch, grid: tuple[int, int, int], args: Any) -> None:
        """Tells what the launch will do to memory, which stays as it is."""
        made = None if watch.variant is None else watch.variant.code.run.probing
        if not made:
            return
        from tileprobe.ir.accesses import counters
        from tileprobe.targets.cpu.accesses import look

        tile_ir = watch.variant.code.asm["tile"]  # type: ignore[union-attr]
        found, notes = look(tile_ir, made["places"], grid, self._slots, self.names, args, self._checks)
        watch.touched(counters(found), notes)

    def _variant(self, same: str) -> Any:
        """The kernel for arguments of which some are the same tensor; None if this one has not assumed otherwise."""
        if same not in self._variants:
            stands = representatives(same)
            met = any(stands.get(a, a) == stands.get(b, b) for a, b in self._apart)
            self._variants[same] = recompiled(self, same=same) if met else None
        return self._variants[same]

    def _limits(self, args: Any) -> tuple[Any, Any]:
        known = bounds.extents(self.names, args)
        return known, None if known is None else bounds.table(known)

    def _raise(self, status: int, block: Any, grid: Any, known: Any) -> None:
        if status & STATUS_ERROR:
            raise kernel_errors.describe(self.kernel, block, self._sites, grid, known)
        needed = self._scratch_bytes * pool.current().threads
        raise MemoryError(
            f"kernel {self.kernel}: no memory for {needed} bytes of scratch; use smaller tiles, fewer threads"
        )

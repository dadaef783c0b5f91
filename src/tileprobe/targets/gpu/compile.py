"""Compiles kernels for a GPU that need not be there: plain, and once more with the probes of a pass pipeline.

In comes a kernel that Triton compiled; out goes the same kernel with records, made from the plain one's final TTGIR, so
that nothing before it is done again. A pipeline that finds nothing to probe gives None: an unprobed kernel
never leaves Triton.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout import Layout
from tileprobe.ir.regions import Region
from tileprobe.targets.gpu.table import WORD, table_words

_WARP_SIZES = {"gfx9": 64}  # of AMD; all others have 32 threads
# KiB of shared memory that a program can have: CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability"; CDNA 4 ISA; all other AMD GPUs have 64.
_MOST_SHARED = {"80": 163, "86": 99, "89": 99, "90": 227, "100": 227, "120": 99, "gfx950": 160}


@dataclass(frozen=True)
class Site:
    """An op whose machine code is to stand between two records, by the line that the machine code names; or one that no
    records stand around (-1)."""

    op: str
    file: str
    line: int
    before: int  # slots
    after: int
    kind: str = ""  # the same for ops that take the same instructions: name and types


@dataclass(frozen=True)
class Probed:
    """A kernel with records: what Triton made of it, and what decoding and checking it need."""

    kernel: Any
    layout: Layout
    regions: tuple[Region, ...]
    ir: dict[str, str]
    notes: tuple[str, ...] = ()
    records: tuple[int, ...] = ()  # the slot of each record in the code
    sites: tuple[Site, ...] = ()
    share: float = 0.0  # of a loop's time that its records take, of the loop that suffers most (`worth.py`)
    idle: tuple[frozenset[int], ...] = ()  # records of each loop that never runs (`idle.py`)


def gpu_target(name: str, machine: str) -> Any:
    """Triton's description of a machine: "cuda" and "90", "hip" and "gfx942"."""
    from triton.backends.compiler import GPUTarget

    if name == "cuda":
        return GPUTarget("cuda", int(machine), 32)
    return GPUTarget("hip", machine, _WARP_SIZES.get(machine[:4], 32))


def most_shared_bytes(machine: str) -> int:
    """What a program can have of shared memory."""
    return 1024 * _MOST_SHARED.get(machine, 64)


def add_probes(plain: Any, pipeline: str) -> Probed | None:
    """The kernel with the probes of a pipeline; None when that finds nothing."""
    from triton._C.libtriton import ir, proton
    from triton.compiler.compiler import make_backend

    from tileprobe.ir.accessors import op_name
    from tileprobe.ir.bridge import from_xdsl, parse_triton, to_xdsl
    from tileprobe.targets.gpu.instrument import instrument
    from tileprobe.targets.gpu.said import as_it_speaks
    from tileprobe.targets.gpu.waits import drop

    backend = make_backend(plain.metadata.target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    proton.load_dialects(context)  # of scopes that are in the kernel already
    module = to_xdsl(parse_triton(as_it_speaks(plain), context))
    drop(
        [op for op in module.walk() if op_name(op).startswith("proton.")]
    )  # their scopes are known by their lines
    made = instrument(module, pipeline)
    if made is None:
        return None
    text = from_xdsl(module, context).str()
    kernel = _compiled(plain, text)
    _check_scratch(kernel, made.layout)
    _check_shared(kernel, plain)
    return Probed(
        kernel,
        made.layout,
        made.regions,
        made.levels | {"probed": text},
        made.notes,
        made.records,
        made.sites,
        made.share,
        made.idle,
    )


def bridged(kernel: Any) -> ModuleOp:
    """The final TTGIR of a compiled kernel."""
    from triton._C.libtriton import ir, proton
    from triton.compiler.compiler import make_backend

    from tileprobe.ir.bridge import parse_triton, to_xdsl

    context = ir.context()
    ir.load_dialects(context)
    make_backend(kernel.metadata.target).load_dialects(context)
    proton.load_dialects(context)
    return to_xdsl(parse_triton(kernel.asm["ttgir"], context))


def _compiled(plain: Any, ttgir: str) -> Any:
    """What Triton makes of final TTGIR, with the options that the plain kernel was compiled with."""
    import triton

    with tempfile.TemporaryDirectory(prefix="tileprobe-") as folder:
        path = os.path.join(folder, "kernel.ttgir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ttgir)
        return triton.compile(path, target=plain.metadata.target, options=options_of(plain))


def options_of(plain: Any) -> dict[str, Any]:
    from triton.compiler.compiler import make_backend

    usual: Any = make_backend(plain.metadata.target).parse_options({})
    known = {field.name: getattr(plain.metadata, field.name, None) for field in fields(usual) if field.init}
    found = {name: _hashable(value) for name, value in known.items() if value is not None}
    if "extern_libs" in found:
        found["extern_libs"] = _libraries(found["extern_libs"], dict(usual.extern_libs or ()))
    return found


def _libraries(given: Sequence[tuple[str, str]], usual: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Libraries with the places they have now: Triton keeps kernels by what is in these files, and with them the place
    of whoever compiled first, whose Python may be gone."""
    return tuple((name, path if os.path.exists(path) else usual.get(name, path)) for name, path in given)


def _hashable(value: Any) -> Any:
    """Metadata has been through JSON, which knows no tuples."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _check_scratch(kernel: Any, layout: Layout) -> None:
    size, expected = kernel.metadata.profile_scratch_size, WORD * table_words(layout)
    if size != expected:
        raise UnsupportedError(
            f"the kernel {kernel.metadata.name} has {size} bytes of profile scratch a program, and its records "
            f"{expected}: another profiler instruments it; end that one first"
        )


def _check_shared(kernel: Any, plain: Any) -> None:
    taken, before = kernel.metadata.shared, plain.metadata.shared
    room = most_shared_bytes(str(kernel.metadata.target.arch))
    if taken > max(room, before):
        raise UnsupportedError(
            f"the records of {kernel.metadata.name} do not fit into shared memory: a program has {room} bytes, takes "
            f"{before} without them and {taken} with them; give them less (shared_words), or take buffer=global"
        )

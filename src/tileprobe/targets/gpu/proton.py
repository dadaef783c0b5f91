"""The same regions measured by Proton, Triton's own profiler, for comparison: compiled, never run.

In comes a plain kernel and the pipeline of its probes; starts and stops of regions become Proton's records, which
Proton's passes lower as they do in a session of its own. Out goes the kernel and how many records it has.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Operation

from tileprobe.ir.probe import ProbeOp, RegionOp, StartOp, StopOp
from tileprobe.ir.reader import op_class, parse_attributes

_ALIGNMENT = 128


def with_proton(plain: Any, pipeline: str, buffer: str = "shared") -> tuple[Any, int] | None:
    """The kernel with Proton's records at the starts and stops of a pipeline's regions, and how many there are."""
    import triton
    from triton._C.libtriton import ir, proton
    from triton.compiler.compiler import make_backend

    from tileprobe.ir.bridge import from_xdsl, parse_triton, to_xdsl
    from tileprobe.ir.registry import context as our_context
    from tileprobe.passes import pipeline as passes_of
    from tileprobe.targets.gpu.compile import options_of

    context = ir.context()
    ir.load_dialects(context)
    make_backend(plain.metadata.target).load_dialects(context)
    proton.load_dialects(context)
    module = to_xdsl(parse_triton(plain.asm["ttgir"], context))
    for step in passes_of(pipeline).passes:
        if step.name in ("merge-probes", "sample"):
            break
        step.apply(our_context(), module)
    records = [_replaced(op) for op in list(module.walk()) if isinstance(op, (ProbeOp, RegionOp))]
    for op in module.walk():
        for name in [name for name in op.attributes if name.startswith("probe.")]:
            del op.attributes[name]
    if not any(records):
        return None
    options = {**options_of(plain), "instrumentation_mode": f"tileprobe-proton-{buffer}"}
    with _passes(plain.metadata.target, buffer), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ttgir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(from_xdsl(module, context).str())
        kernel = triton.compile(path, target=plain.metadata.target, options=options)
    return kernel, sum(records)


@contextmanager
def silent() -> Iterator[None]:
    """What compilers write to the process's error output is not shown."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _replaced(op: Operation) -> bool:
    """Puts Proton's record in the place of a probe, if it has one for it."""
    block = op.parent
    assert block is not None
    known = isinstance(op, (StartOp, StopOp))
    if isinstance(op, (StartOp, StopOp)):
        start = "isStart, " if isinstance(op, StartOp) else ""
        properties = parse_attributes(f'{{{start}name = "r{op.region_id}"}}')
        made = op_class("proton.record").create(properties=dict(properties), location=op.location)
        block.insert_op_before(made, op)
    op.detach()
    op.erase()
    return known


@contextmanager
def _passes(target: Any, buffer: str) -> Iterator[None]:
    """Proton's passes in Triton's pipeline as it puts them there itself: 64-bit clocks, every warp, a circular buffer,
    as is its default."""
    from triton._C.libtriton import passes, proton
    from triton._instrumentation import register_instrumentation, unregister_instrumentation

    from tileprobe.targets.gpu.compile import most_shared_bytes

    def to_llvm_ir(manager: Any) -> None:
        kind = proton.BUFFER_TYPE.SHARED if buffer == "shared" else proton.BUFFER_TYPE.GLOBAL
        proton.add_convert_proton_to_protongpu(
            manager, proton.METRIC_TYPE.CYCLE, proton.SAMPLING_STRATEGY.NONE, "", proton.GRANULARITY.WARP,
            proton.BUFFER_STRATEGY.CIRCULAR, kind, 0, most_shared_bytes(str(target.arch)), 1, _ALIGNMENT, True,
        )  # fmt: skip
        passes.common.add_cse(manager)
        proton.add_allocate_proton_shared_memory(manager)

    def to_llvm(manager: Any) -> None:
        if target.backend == "cuda":
            proton.add_convert_proton_nvidia_gpu_to_llvm(manager)
        else:
            proton.add_convert_proton_amd_gpu_to_llvm(manager, target.arch)

    name = {"cuda": "nvidia", "hip": "amd"}[target.backend]
    points = {
        "load-dialects": proton.load_dialects,
        "ttgpuir-to-llvmir": to_llvm_ir,
        "llvmir-to-llvm": to_llvm,
    }
    for point, callback in points.items():
        register_instrumentation(point=point, backend=name, callback=callback)
    try:
        yield
    finally:
        for point in points:
            unregister_instrumentation(point=point, backend=name)

"""From TTIR in xDSL to object code: schedule, emit LLVM, optimise, generate.

Comes in: the module the bridge read and the options of the compilation. Goes out: every level as text, the object
and what the launcher has to know about it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tileprobe.targets.cpu.codegen.module import ModuleEmitter
from tileprobe.targets.cpu.host import host
from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.targets.cpu.probing import add_probes
from tileprobe.targets.cpu.schedule.module import schedule

# Expressions are followed recursively; kernels with long unrolled loops have deep ones.
_RECURSION = 20_000


@dataclass(frozen=True)
class Compiled:
    tile_ir: str
    llvm_ir: str
    object: bytes
    info: dict[str, Any]


def compile_ttir(module: ModuleOp, options: Any) -> Compiled:
    """Compile a module of TTIR. The module is used up."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        tile = schedule(module, options.same)
        tile_ir = str(tile)
        probing = add_probes(tile, options.instrumentation_mode)
        emitter = ModuleEmitter(tile, options, host().vector_bytes)
        info = emitter.emit()
        if probing is not None:
            info["probing"] = probing
        llvm_ir = str(emitter.llvm)
        return Compiled(tile_ir, llvm_ir, compile_ir(llvm_ir), info)
    finally:
        sys.setrecursionlimit(limit)

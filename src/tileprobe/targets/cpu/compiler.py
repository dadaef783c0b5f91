"""The compiler half of Triton's backend plugin `cpu`: TTIR to scheduled tile IR to LLVM IR to an object file.

Triton finds the one class here, asks it for options and stages and caches what they return. The work between
TTIR and object code is `pipeline.compile_ttir`; importing this module imports none of it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from triton import knobs
from triton._C.libtriton import ir, passes, proton
from triton.backends.compiler import BaseBackend, GPUTarget, Language

import tileprobe
from tileprobe.errors import UnsupportedError
from tileprobe.targets.cpu import options as _options

# Everything that shapes generated code; an edit there must never meet a stale cache.
_SOURCES = ("ir", "passes", "targets/cpu")


class CpuBackend(BaseBackend):
    binary_ext = "obj"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "cpu"

    def get_target_name(self, options: Any) -> str:
        return "cpu"

    def hash(self) -> str:
        return _backend_hash()

    def parse_options(self, options: dict[str, Any]) -> _options.CpuOptions:
        return _options.parse(options)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        from tileprobe.targets.cpu.fp8e4b15 import convert_custom_types

        return {"min_dot_size": lambda lhs, rhs: (1, 1, 1), "convert_custom_types": convert_custom_types}

    def get_module_map(self) -> dict[str, ModuleType]:
        try:
            from tileprobe.targets.cpu import libdevice  # pyright: ignore[reportAttributeAccessIssue]
        except ImportError:
            from triton.language.extra.cuda import libdevice
        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """Triton's own dialects are all that TTIR needs; kernels may hold Proton's markers, too."""
        proton.load_dialects(context)

    def add_stages(self, stages: dict[str, Any], options: Any, language: Language) -> None:
        if language != Language.TRITON:
            raise UnsupportedError(
                "Gluon kernels are written for a GPU's layouts; the CPU target runs Triton kernels"
            )
        steps = _Steps(options)
        stages["ttir"] = steps.ttir
        stages["tile"] = steps.tile
        stages["llir"] = steps.llir
        stages["obj"] = steps.obj
        if knobs.runtime.add_stages_inspection_hook is not None:
            hook: Any = knobs.runtime.add_stages_inspection_hook
            hook(self, stages, options, language, None)


class _Steps:
    """One compilation. The pipeline makes tile IR to object in one go; a user may replace the LLVM IR."""

    def __init__(self, options: _options.CpuOptions):
        self.options = options
        self.compiled: Any = None

    def ttir(self, module: Any, metadata: dict[str, Any]) -> Any:
        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.common.add_inliner(manager)
        passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
        passes.common.add_canonicalizer(manager)
        passes.ttir.add_combine(manager)
        passes.ttir.add_reorder_broadcast(manager)
        passes.common.add_cse(manager)
        passes.ttir.add_triton_licm(manager)
        passes.common.add_symbol_dce(manager)
        passes.ttir.add_loop_unroll(manager)
        manager.run(module, "make_ttir")
        return module

    def tile(self, module: Any, metadata: dict[str, Any]) -> str:
        from tileprobe.ir.bridge import to_xdsl
        from tileprobe.targets.cpu.pipeline import compile_ttir

        self.compiled = compile_ttir(to_xdsl(module), self.options)
        metadata["cpu"] = self.compiled.info
        metadata["name"] = self.compiled.info["symbol"]
        # Scratch is what comes closest; launch code divides by it.
        metadata["shared"] = max(1, self.compiled.info["scratch_bytes"])
        metadata["global_scratch_size"] = metadata["profile_scratch_size"] = 0
        return self.compiled.tile_ir

    def llir(self, tile_ir: str, metadata: dict[str, Any]) -> str:
        return self.compiled.llvm_ir

    def obj(self, llvm_ir: str, metadata: dict[str, Any]) -> bytes:
        if llvm_ir == self.compiled.llvm_ir:
            return self.compiled.object
        from tileprobe.targets.cpu.loader import compile_ir

        return compile_ir(llvm_ir)


@lru_cache(maxsize=1)
def _backend_hash() -> str:
    from tileprobe.targets.cpu.host import host

    digest = hashlib.sha256(f"{tileprobe.__version__};{host().key()}".encode())
    root = Path(tileprobe.__file__).parent
    for source in sorted(path for part in _SOURCES for path in (root / part).rglob("*.py")):
        digest.update(source.relative_to(root).as_posix().encode())
        digest.update(source.read_bytes())
    return f"tileprobe-cpu-{digest.hexdigest()}"

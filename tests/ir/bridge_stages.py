"""Runs Triton's compilation stage by stage, without a GPU, so that a test can step in between.

Stops at the assembly (PTX, amdgcn): what comes after depends on nothing else and takes long.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.experimental.gluon._runtime import GluonASTSource

from tileprobe.ir.bridge import from_xdsl, generic_text, to_xdsl

TARGETS = {
    "sm80": GPUTarget("cuda", 80, 32),
    "sm90": GPUTarget("cuda", 90, 32),
    "sm100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx950": GPUTarget("hip", "gfx950", 64),
}
NVIDIA = ("sm80", "sm90", "sm100")
EVERY = (*NVIDIA, "gfx942")


@dataclass(frozen=True)
class Case:
    """A kernel and what is needed to compile it; `arguments` are its run-time arguments' types, in order."""

    fn: Any
    arguments: str
    constants: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = EVERY
    label: str = ""
    specialised: bool = False  # must come out warp-specialised

    @property
    def name(self) -> str:
        return self.label or self.fn.__name__

    def source(self) -> ASTSource:
        kinds = self.arguments.split()
        names = [name for name in self.fn.arg_names if name not in self.constants]
        signature = dict.fromkeys(self.fn.arg_names, "constexpr") | dict(zip(names, kinds, strict=True))
        aligned = [i for i, kind in enumerate(signature.values()) if kind[0] == "*" or kind == "i32"]
        attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
        make = GluonASTSource if self.fn.is_gluon() else ASTSource
        return make(self.fn, signature, self.constants, attributes)


class Compilation:
    """One kernel on its way through one backend's stages."""

    def __init__(self, case: Case, target: str):
        self._backend = make_backend(TARGETS[target])
        source = case.source()
        options = self._backend.parse_options({**case.options, **source.parse_options()})
        self.context = ir.context()
        ir.load_dialects(self.context)
        self._backend.load_dialects(self.context)
        self.stages: dict[str, Any] = {}
        self._backend.add_stages(self.stages, options, source.language)
        self.metadata = {"target": TARGETS[target], "hash": "", **options.__dict__}
        functions = self._backend.get_codegen_implementation(options)
        modules = self._backend.get_module_map()
        self.module = source.make_ir(TARGETS[target], options, functions, modules, self.context)
        self.first = "ttir" if source.language == Language.TRITON else "glir"

    def run(self, module, stage: str, metadata: dict[str, Any]):
        return self.stages[stage](module, metadata)

    def finish(self, ttgir, metadata: dict[str, Any]) -> str:
        """The assembly of a TTGIR module."""
        llir = self.run(ttgir, "llir", metadata)
        return self.run(llir, "ptx" if "ptx" in self.stages else "amdgcn", metadata)


def over_and_back(module, context):
    """A module sent through the bridge; fails if it does not print as before, locations included."""
    text, generic = module.str(), generic_text(module)
    assert module.str() == text, "reading must leave the module as it was"
    returned = from_xdsl(to_xdsl(module), context)
    assert generic_text(returned) == generic
    assert returned.str() == text
    return returned


def check_identity(case: Case, target: str) -> str:
    """Compile `case` with and without the bridge in between; the same assembly must come out."""
    compilation = Compilation(case, target)
    metadata = compilation.metadata
    first = compilation.run(compilation.module, compilation.first, metadata)
    bridged_metadata = copy.deepcopy(metadata)
    bridged_first = over_and_back(first, compilation.context)

    bridged_ttgir = compilation.run(bridged_first, "ttgir", bridged_metadata)
    ttgir = compilation.run(first, "ttgir", metadata)
    if case.specialised and target == "sm90" and bridged_ttgir.str() != ttgir.str():
        compilation, ttgir = _plain_like(bridged_ttgir.str(), case, target)
        metadata = compilation.metadata
    assert bridged_ttgir.str() == ttgir.str()
    assert ("ttg.warp_specialize" in ttgir.str()) == case.specialised
    bridged_ttgir = over_and_back(bridged_ttgir, bridged_ttgir.context)

    assembly = compilation.finish(ttgir, metadata)
    assert compilation.finish(bridged_ttgir, bridged_metadata) == assembly
    assert bridged_metadata == metadata
    return assembly


def _plain_like(text: str, case: Case, target: str):
    """Compile without the bridge until the TTGIR is `text`.

    Triton's warp specialisation for Hopper walks a set of pointers and gives one of two orders of the same
    ops, each about half of the time, with or without the bridge. A run of 24 misses is no accident.
    """
    for _ in range(24):
        compilation = Compilation(case, target)
        first = compilation.run(compilation.module, compilation.first, compilation.metadata)
        ttgir = compilation.run(first, "ttgir", compilation.metadata)
        if ttgir.str() == text:
            return compilation, ttgir
    raise AssertionError("the bridged TTIR leads to TTGIR that the plain one never leads to")

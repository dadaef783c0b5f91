"""All handlers over lanes as one table of machine code.

Handlers are LLVM functions without any of Numba's parts, so they are compiled apart, once, to an object file that is
kept beside Numba's code. A handler's number is the place of its name in `NUMBERS`. `text` and `compiled` make code of
some of them in the same way, which is how tests look at one handler, changed or not, without all the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
from llvmlite import ir

from tileprobe.targets.jit import cache_folder
from tileprobe.targets.linker import Library, load_object
from tileprobe.targets.simgpu.engine import (  # noqa: F401  they register their handlers
    lanes_address,
    lanes_bytes,
    lanes_choices,
    lanes_float,
    lanes_half,
    lanes_integer,
    lanes_matrix,
)
from tileprobe.targets.simgpu.engine.calls import HANDLER
from tileprobe.targets.simgpu.engine.lanes import HANDLERS, Emit, Lanes

NUMBERS = {name: number for number, name in enumerate(sorted(HANDLERS))}


def _module(handlers: Mapping[str, Emit]) -> ir.Module:
    module = ir.Module("tileprobe.simgpu")
    for name, emit in handlers.items():
        function = ir.Function(module, HANDLER, name)
        builder = ir.IRBuilder(function.append_basic_block())
        uop, warp, constants, mask, scratch = function.args
        emit(Lanes(builder, uop, warp, constants, mask, scratch))
        builder.ret_void()
    return module


def text(handlers: Mapping[str, Emit]) -> str:
    """LLVM IR of these handlers."""
    return str(_module(handlers))


def _object(source: str) -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
        jit=True,
    )
    module = llvm.parse_assembly(source)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _load(data: bytes, names: list[str]) -> tuple[Library, np.ndarray]:
    """The library, to be held as long as its code is used, and the addresses of these functions."""
    library = load_object(data, names)
    return library, np.array([library.address(name) for name in names], np.int64)


def compiled(source: str, names: list[str]) -> tuple[Library, np.ndarray]:
    """Code of LLVM IR, and the addresses of these functions in it."""
    return _load(_object(source), names)


def kept() -> Path:
    """Where the code of all handlers is kept: by sources and by the processor it is for."""
    import hashlib

    import llvmlite.binding as llvm

    machine = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()} {llvm.llvm_version_info}"
    digest = hashlib.sha256(machine.encode()).hexdigest()[:16]
    return cache_folder(Path(__file__)) / f"lanes-{digest}.o"


@lru_cache(maxsize=1)
def handlers() -> tuple[Library, np.ndarray]:
    """All handlers in the order of their numbers: what holds them, and their addresses."""
    from tileprobe.errors import TileProbeError
    from tileprobe.files import write_file

    path, names = kept(), list(NUMBERS)
    try:
        return _load(path.read_bytes(), names)
    except (OSError, RuntimeError):  # not there yet, or not whole
        data = _object(text({name: HANDLERS[name] for name in names}))
    with contextlib.suppress(TileProbeError):  # nowhere to keep it: compile in each process
        write_file(path, data, make_folder=True)
    return _load(data, names)

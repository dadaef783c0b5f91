"""LLVM IR text to object code for the CPU of this process."""

from __future__ import annotations

from typing import Any

from tileprobe.targets.cpu.host import Host, host


def compile_ir(text: str, machine_host: Host | None = None, opt: int = 2, passes: bool = True) -> bytes:
    """LLVM IR text to an object file, with LLVM's usual passes at that level or as it stands."""
    machine, module = _prepared(text, machine_host, opt, passes)
    return machine.emit_object(module)


def assembly(text: str, opt: int = 2) -> str:
    """The instructions that `compile_ir` makes of the same text, to read."""
    machine, module = _prepared(text, None, opt, True)
    return machine.emit_assembly(module)


def _prepared(text: str, machine_host: Host | None, opt: int, passes: bool) -> tuple[Any, Any]:
    import llvmlite.binding as llvm

    machine = (machine_host or host()).target_machine(opt)
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    if passes:
        options = llvm.create_pipeline_tuning_options(speed_level=opt)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    return machine, module

"""Machine code as people read it: an instruction a line, the source line it came from before it, as assembly has it."""

from __future__ import annotations

from tileprobe.targets.simgpu.program import Program


def machine_text(program: Program) -> str:
    """With `.file` and `.loc`, so that what reads assembly finds the lines."""
    names = [name for name in program.file_names if name]
    out = [f'\t.file {n} "{name}"' for n, name in enumerate(names, 1)]
    here: tuple[str, int] | None = None
    for pc, text in enumerate(program.texts):
        place = program.file_names[program.files[pc]], int(program.lines[pc])
        if place != here and place[0] and place[1]:
            out.append(f"\t.loc {names.index(place[0]) + 1} {place[1]} 0")
            here = place
        out.append(f"/*{16 * pc:04x}*/\t{text}")
    return "\n".join(out) + "\n"

"""The bridge between Triton's IR and xDSL.

Comes in: a module of Triton's (TTIR or TTGIR), or an xDSL module that came from one. Goes out: the other.
MLIR's generic textual form is the transport; see docs/bridge.md.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tileprobe.errors import TileProbeError
from tileprobe.ir.locations import Loc, call_chain, source_location
from tileprobe.ir.reader import read_generic
from tileprobe.ir.writer import write_generic

__all__ = ["Loc", "call_chain", "from_xdsl", "generic_text", "source_location", "to_xdsl"]

_EMPTY_BLOCK = "\n^bb1:  // no predecessors\n"


def to_xdsl(triton_module: Any) -> ModuleOp:
    """Read a Triton module into xDSL: unregistered ops, each with its location. The module itself stays."""
    return read_generic(generic_text(triton_module))


def from_xdsl(module: ModuleOp, context: Any) -> Any:
    """Make a Triton module in `context` (an `ir.context` with its dialects loaded) from an xDSL module."""
    return parse_triton(write_generic(module), context)


def parse_triton(text: str, context: Any) -> Any:
    """Parse MLIR text with Triton's parser, which reads files and explains itself on standard error only."""
    from triton._C.libtriton import ir

    with tempfile.TemporaryDirectory(prefix="tileprobe-") as folder:
        path = os.path.join(folder, "module.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        said: list[str] = []
        try:
            with _standard_error_into(said):
                module = ir.parse_mlir_module(path, context)
        except RuntimeError as error:
            raise TileProbeError(
                "Triton's parser refused the module; a pass has probably made an op with wrong operands, "
                f"types or attributes. It said:\n{''.join(said).replace(path, 'module').strip() or error}"
            ) from error
    module.context = context
    return module


@contextmanager
def _standard_error_into(lines: list[str]) -> Iterator[None]:
    """Collect what C++ code writes to file descriptor 2; a block that ends well writes it after all."""
    keep = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            os.dup2(keep, 2)
            os.close(keep)
            file.seek(0)
            data = file.read()
            lines.append(data.decode("utf-8", "replace"))
            if data and not failed:
                os.write(2, data)


def generic_text(triton_module: Any) -> str:
    """The module in MLIR's generic form with locations.

    Triton's printer has no switch for that form, but MLIR falls back to it for a module that does not
    verify: a second, empty block in the module's region is enough, and it is removed right after.
    """
    from triton._C.libtriton import ir

    builder = ir.builder(_context_of(triton_module))
    block = builder.create_block_with_parent(triton_module.get_region(0), [])
    try:
        text = triton_module.str()
    finally:
        block.erase()
    head, found, tail = text.rpartition(_EMPTY_BLOCK)
    if not found:
        raise TileProbeError("Triton did not print its module in generic form; TileProbe needs Triton 3.9")
    return f"{head}\n{tail}"


def _context_of(triton_module: Any) -> Any:
    context = getattr(triton_module, "context", None)
    if context is None:
        raise TileProbeError(
            "the Triton module carries no context: set `module.context` to the ir.context it was made in"
        )
    return context

"""What a simulated GPU says when it cannot go on. In come facts of the engine; out go sentences with source lines."""

from __future__ import annotations

from tileprobe.errors import TileProbeError, UnsupportedError


class BadCubin(TileProbeError):
    """Not a cubin, not one of this architecture, or a damaged one."""


class UnknownInstruction(UnsupportedError):
    """A variant of an instruction whose meaning is not known here. It is refused, never guessed."""

    def __init__(self, text: str, place: str, why: str = "") -> None:
        reason = f" ({why})" if why else ""
        super().__init__(f"{place}: the simulated GPU does not know the instruction `{text}`{reason}")


class KernelFault(TileProbeError):
    """The kernel did something that a GPU would stop at, or that a check found."""

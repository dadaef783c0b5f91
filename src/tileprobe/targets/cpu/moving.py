"""Takes a launch's records out of its buffer: one call that copies them and leaves zeros behind.

In comes a `Moves`, which is made once for launches alike: the words of a block that were written, and where programs
say how often their loops ran. Out go the words one block after the other, if the loops ran as often as `Moves` has it;
otherwise nothing is touched. In Python the same takes several calls of NumPy, each of which walks over all blocks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Moves:
    """`trips` are, of each loop, the words of a block that count it, and the largest count of all blocks.

    What the code reads is in this order: words of a block, number of loops, number of runs of words; of each loop the
    count, the number of words that have it, and these; of each run its first word and its length."""

    __slots__ = ("_plan", "address", "run", "words")

    def __init__(
        self, block_words: int, trips: Sequence[tuple[Sequence[int], int]], words: np.ndarray
    ) -> None:
        runs = _runs(words)
        plan = [block_words, len(trips), len(runs)]
        for places, most in trips:
            plan += [most, len(places), *places]
        for first, count in runs:
            plan += [first, count]
        self._plan = np.array(plan, np.int64)
        self.address: int = self._plan.ctypes.data
        self.words = words
        # (plan, address of blocks, their count, address of what is copied): 0 if it was done
        self.run: Callable[[int, int, int, int], int] = (_known or _code())[1]


def _runs(words: np.ndarray) -> list[tuple[int, int]]:
    """The words, which are in order, as (first, how many)."""
    cuts = np.flatnonzero(np.diff(words) > 1) + 1
    return [(int(part[0]), len(part)) for part in np.split(words, cuts) if len(part)]


_known: tuple[Any, Any] | None = None


def _code() -> tuple[Any, Any]:
    """The code and its function. Two threads that make it at once make it twice, and one may be running the other."""
    global _known
    from tileprobe.targets.cpu.loader import compile_ir
    from tileprobe.targets.cpu.moving_ir import module_text
    from tileprobe.targets.linker import load_object

    library = load_object(compile_ir(module_text()), ["tp_move"])
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    pointer = ctypes.c_void_p
    run = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, ctypes.c_int64, pointer)
    _known = library, run(library.address("tp_move"))
    return _known

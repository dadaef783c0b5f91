"""The kernels that a session saw launched, and the works of each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tileprobe.session.arguments import Telling, in_words
from tileprobe.session.works import Work
from tileprobe.targets.base import Kernel

_EXACT = 4096  # launches whose work is found without thinking, by all their arguments


class SeenKernel:
    """One compiled kernel. Launches are looked up by grid and arguments as they come, and told apart only when these
    are new."""

    def __init__(self, kernel: Kernel, matches: bool, seed: int) -> None:
        self.kernel, self.matches, self.seed = kernel, matches, seed
        self.works: dict[Hashable, Work] = {}
        self.telling = Telling()
        self._exact: dict[Hashable, Work] = {}

    def work(self, grid: tuple[int, ...], arguments: tuple[Any, ...]) -> Work:
        exact = (grid, arguments)
        try:
            return self._exact[exact]
        except KeyError:
            work = self._told(grid, arguments)
            if len(self._exact) >= _EXACT:
                self._exact.clear()
            self._exact[exact] = work
            return work
        except TypeError:  # something that cannot be looked up
            return self._told(grid, arguments)

    def _told(self, grid: tuple[int, ...], arguments: tuple[Any, ...]) -> Work:
        key = self.telling.key(grid, arguments)
        if key not in self.works:
            text = in_words(key, getattr(self.kernel, "arguments", ()))
            self.works[key] = Work(self.kernel, () if key is None else grid, text, seed=self.seed)
        return self.works[key]

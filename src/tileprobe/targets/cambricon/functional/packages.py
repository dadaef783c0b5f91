"""The flash of several packages, each with a part of every matrix: sums of integers, so nothing of a result changes.

Matrices are cut as `cam-shard` cuts them: by rows, whose sums stand behind each other, or by columns, whose sums add
up. The pages of a package are those that the compiled step of one commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tileprobe.targets.cambricon.aging import Wear
from tileprobe.targets.cambricon.expand import Placed
from tileprobe.targets.cambricon.functional.ecc.audit import Outcome
from tileprobe.targets.cambricon.functional.ecc.base import PageCodec
from tileprobe.targets.cambricon.functional.flash import Flash, Work
from tileprobe.targets.cambricon.functional.inject import Flips
from tileprobe.targets.cambricon.machine import Machine


class PackagedFlash:
    """What a `FlashModel` asks of a `Flash`, of several. Their cells have errors of their own."""

    def __init__(self, machine: Machine, codec: PageCodec, packages: int) -> None:
        self.codec = codec
        self.parts = [Flash(machine, codec) for _ in range(packages)]
        self.axis: dict[str, int] = {}

    def program(self, name: str, matrix: np.ndarray, page_map: Placed) -> None:
        self.axis[name] = 0 if page_map.rows < matrix.shape[0] else 1
        for part, piece in zip(self.parts, self._cut(name, matrix)):
            part.program(name, piece, page_map)

    def _cut(self, name: str, matrix: np.ndarray) -> list[np.ndarray]:
        return [np.ascontiguousarray(p) for p in np.split(matrix, len(self.parts), axis=self.axis[name])]

    def multiply(self, name: str, x: np.ndarray) -> np.ndarray:
        if self.axis[name] == 0:
            return np.concatenate([part.multiply(name, x) for part in self.parts], axis=1)
        pieces = np.split(x, len(self.parts), axis=1)
        sums = [part.multiply(name, np.ascontiguousarray(p)) for part, p in zip(self.parts, pieces)]
        return np.sum(sums, axis=0)

    def inject(self, rate: float, seed: int) -> Flips:
        return self._flipped(lambda part, n: part.inject(rate, seed + n))

    def age(self, wear: Wear) -> tuple[Flips, int]:
        retries = 0

        def aged(part: Flash, n: int) -> Flips:
            nonlocal retries
            flips, again = part.age(replace(wear, age=replace(wear.age, seed=wear.age.seed + n)))
            retries += again
            return flips

        return self._flipped(aged), retries

    def _flipped(self, each: Callable[[Flash, int], Flips]) -> Flips:
        total = Flips()
        for n, part in enumerate(self.parts):
            flips = each(part, n)
            total.data += flips.data
            total.spare += flips.spare
        return total

    def audit(self, written: dict[str, np.ndarray], flips: Flips) -> Outcome:
        total = Outcome(flips_data=flips.data, flips_spare=flips.spare)
        for n, part in enumerate(self.parts):
            total += part.audit({name: self._cut(name, m)[n] for name, m in written.items()}, Flips())
        return total

    def snapshot(self) -> dict[str, np.ndarray]:
        parts = enumerate(self.parts)
        return {f"{n} {name}": pages for n, part in parts for name, pages in part.snapshot().items()}

    def restore(self, pages: dict[str, np.ndarray]) -> None:
        for n, part in enumerate(self.parts):
            part.restore({name: pages[f"{n} {name}"] for name in part.matrices})

    @property
    def work(self) -> Work:
        total = Work()
        for part in self.parts:
            total.read_computes += part.work.read_computes
            total.page_reads += part.work.page_reads
            total.saturated += part.work.saturated
            total.decoder += part.work.decoder
        return total

    @work.setter
    def work(self, value: Work) -> None:
        for part in self.parts:
            part.work = replace(value, decoder=replace(value.decoder))

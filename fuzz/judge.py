"""One case through the oracle and every vector width, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fuzz.case import Case
from fuzz.process import ISAS, Worker
from fuzz.program import Scalar
from fuzz.types import decode

# In the order of the report. "refused" is the oracle's: the kernel has no defined result, or it cannot run it.
KINDS = ("wrong value", "crash", "out of bounds", "compile error", "timeout", "refused")
FINDINGS = KINDS[:-1]


@dataclass(frozen=True)
class Verdict:
    kind: str  # "same", or one of KINDS
    isa: str = ""
    words: str = ""

    @property
    def is_finding(self) -> bool:
        return self.kind in FINDINGS


def compare(case: Case, expected: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> str:
    """Where the two differ, in words; empty if nowhere. Floats compare by value: 0.0 is -0.0, NaN is NaN."""
    words = []
    for tensor in case.arguments:
        if isinstance(tensor, Scalar) or tensor.same_as:
            continue
        want, have = decode(expected[tensor.name], tensor.dtype), decode(got[tensor.name], tensor.dtype)
        differ = want != have
        if want.dtype.kind == "f":
            differ &= ~(np.isnan(want) & np.isnan(have))
            if tensor.ulps:
                differ &= ~(np.abs(want - have) <= tensor.ulps * np.spacing(np.abs(want)))
        if differ.any():
            at = np.flatnonzero(differ)
            pairs = ", ".join(f"[{i}] {have[i]} not {want[i]}" for i in at[:4])
            words.append(f"{tensor.name}: {len(at)} of {len(want)} wrong: {pairs}")
    return "; ".join(words)


class Judge:
    """Owns the worker processes. One case at a time."""

    def __init__(
        self, isas: tuple[str, ...], seconds: float = 20.0, environment: dict[str, str] | None = None
    ):
        """`environment` is added to that of the targets."""
        added = environment or {}
        self._oracle = Worker("oracle", {"TRITON_INTERPRET": "1"}, seconds)
        self._targets = {isa: Worker("target", {**ISAS[isa], **added}, seconds) for isa in isas}

    def judge(self, case: Case) -> Verdict:
        answer, expected = self._oracle.ask("interpret", case)
        if answer != "ok":
            return Verdict("refused", words=str(expected))
        for index, (isa, worker) in enumerate(self._targets.items()):
            # Guards stop reads before and behind a tensor in turns.
            answer, got = worker.ask("run", case, (case.seed + index) % 2 == 0)
            if answer != "ok":
                return Verdict(answer, isa, str(got))
            words = compare(case, expected, got)
            if words:
                return Verdict("wrong value", isa, words)
        return Verdict("same")

    def expected(self, case: Case) -> dict[str, np.ndarray]:
        """What the oracle says, for reports."""
        answer, values = self._oracle.ask("interpret", case)
        return values if answer == "ok" else {}

    def blame(self, case: Case, isa: str) -> str:
        """Which half of the compiler is wrong, as far as anybody knows."""
        answer, words = self._targets[isa].ask("blame", case)
        return str(words) if answer == "ok" else ""

    def close(self) -> None:
        for worker in (self._oracle, *self._targets.values()):
            worker.stop()

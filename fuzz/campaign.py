"""Many seeds, one after another or several at a time, and what they found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fuzz.case import Case, case_of
from fuzz.generate import generate
from fuzz.judge import KINDS, Judge, Verdict
from fuzz.program import Program
from fuzz.script import write
from fuzz.shrink import shrink
from tileprobe.files import write_json


@dataclass(frozen=True)
class Finding:
    seed: int
    kind: str
    isa: str
    words: str
    source: str  # of the shrunk kernel, if it was shrunk
    script: str = ""
    blame: str = ""


@dataclass
class Outcome:
    kernels: int = 0
    seconds: float = 0.0
    isas: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def of(self, kind: str) -> list[int]:
        return sorted(
            self.refused if kind == "refused" else [f.seed for f in self.findings if f.kind == kind]
        )

    def table(self) -> str:
        rate = self.kernels / self.seconds if self.seconds else 0.0
        lines = [f"{self.kernels} kernels on {', '.join(self.isas)}, {rate:.1f} a second"]
        for kind in KINDS:
            seeds = self.of(kind)
            shown = " ".join(map(str, seeds[:12])) + (" ..." if len(seeds) > 12 else "")
            lines.append(f"  {kind:14} {len(seeds):6}  {shown}".rstrip())
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        write_json(path, asdict(self), make_folder=True)


def smallest(program: Program, verdict: Verdict, seconds: float) -> tuple[Case, Verdict]:
    """The smallest kernel that goes wrong in the same way."""
    judge = Judge((verdict.isa,), seconds)
    try:
        best = shrink(program, lambda candidate: judge.judge(case_of(candidate)).kind == verdict.kind)
        case = case_of(best)
        return case, judge.judge(case)
    finally:
        judge.close()


def examine(seed: int, judge: Judge, seconds: float, shrinking: bool, folder: Path) -> Finding | Verdict:
    """One seed. A finding is written to the folder as a script."""
    program = generate(seed)
    case = case_of(program)
    verdict = judge.judge(case)
    if not verdict.is_finding:
        return verdict
    if shrinking:
        smaller, again = smallest(program, verdict, seconds)
        if again.kind == verdict.kind:
            case, verdict = smaller, again
    path = write(folder, case, verdict, judge.expected(case))
    half = judge.blame(case, verdict.isa) if verdict.kind == "wrong value" else ""
    return Finding(seed, verdict.kind, verdict.isa, verdict.words, case.source, str(path), half)


def campaign(
    seeds: range,
    isas: tuple[str, ...],
    *,
    jobs: int = 1,
    seconds: float = 20.0,
    shrinking: bool = False,
    folder: Path = Path("out/fuzz"),
    progress: Callable[[Outcome, int], None] = lambda outcome, total: None,
) -> Outcome:
    """Run the seeds in `jobs` lanes, each with worker processes of its own."""
    outcome = Outcome(isas=isas)
    lock, start = threading.Lock(), time.monotonic()
    queue: Iterator[int] = iter(seeds)

    def lane() -> None:
        judge = Judge(isas, seconds)
        try:
            while True:
                with lock:
                    seed = next(queue, None)
                if seed is None:
                    return
                result = examine(seed, judge, seconds, shrinking, folder)
                with lock:
                    outcome.kernels += 1
                    outcome.seconds = time.monotonic() - start
                    if isinstance(result, Finding):
                        outcome.findings.append(result)
                    elif result.kind == "refused":
                        outcome.refused.append(seed)
                    progress(outcome, len(seeds))
        finally:
            judge.close()

    with ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(lane) for _ in range(jobs)]:
            future.result()
    return outcome

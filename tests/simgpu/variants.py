"""Which instructions the simulated GPU executes, and how well each is verified, as a table for the docs.

`python tests/simgpu/variants.py found.json docs/simgpu_instructions.md`: variants are those of all kernels that were
decoded on this machine (run the tests first) and those that the page has; what `mutation.py --json found.json` found
says which of them a change in their handler makes a test fail.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from mutants_judged import GAP, lane_verdict, verdict

from tileprobe.targets.simgpu import program
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import numbers, table, vectors

GUESSED = re.compile(
    r"FCHK|HSET2\.BF|SYNCS\.ARRIVE\.TRANS64\.(A1T0|A0TR|A0T1)|QGMMA\.\w+\.F16|ARRIVES|BRA\.(DIV|CONV)"
)
ENOUGH = 0.95
assert table.known()  # importing it registers the families


def variants() -> dict[str, set[str]]:
    """By the name of a micro-op: the instructions, with their modifiers, that became one."""
    names = {number: name for name, number in (vectors.NUMBERS | numbers.NUMBERS).items()}
    found: dict[str, set[str]] = defaultdict(set)
    for path in program._kept(b"", "").parent.glob("*.npz"):
        with np.load(path, allow_pickle=False) as kept:
            texts, ops = json.loads(kept["meta"].tobytes())["texts"], kept["uops"][:, at.OP]
        for text, op in zip(texts, ops.tolist()):
            word = re.sub(r"^@!?U?P\w+ ", "", text).split()[0]
            found[names[op]].add(word)
    return found


def _state(where: str, results: dict[str, Any]) -> tuple[str, str]:
    """How well what executes an instruction is verified, and how many changes in it are noticed."""
    kind, name = ("families", where[:-3]) if where.endswith(".py") else ("handlers", where)
    judged = results.get(kind, {}).get(name)
    if not judged or not judged["tried"]:
        return "run", ""
    alive = judged["alive"]
    said = [verdict(what) if kind == "families" else lane_verdict(name, what) for what in alive]
    gaps = sum(what == GAP for what, _ in said)
    share = f"{judged['tried'] - len(alive)} of {judged['tried'] - len(alive) + gaps}"
    return ("verified" if gaps <= (1 - ENOUGH) * judged["tried"] else "partly"), share


def main() -> None:
    results, page = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    by_module = {
        family: numbers.FAMILIES[family]._pyfunc.__module__.rpartition(".")[2] for family in numbers.FAMILIES
    }
    found = {
        (word, name if name in vectors.NUMBERS else f"{by_module.get(name, '?')}.py")
        for name, words in variants().items()
        for word in words
    }
    rows, counts = [], {"verified": 0, "partly": 0, "run": 0}
    for word, where in sorted(found | _known(page)):
        state, share = _state(where, results)
        counts[state] += 1
        rows.append(f"| {word} | {where} | {share} | {state} | {'guessed' if GUESSED.match(word) else ''} |")
    head = (
        f"{sum(counts.values())} variants met in the tests' kernels for sm_80 and sm_90. Verified: at least "
        f"{ENOUGH:.0%} of the changes in its handler or family (of those that change something, "
        f"[simgpu_mutants.md](simgpu_mutants.md)) make a test fail: {counts['verified']}. Partly: fewer do: "
        f"{counts['partly']}. Run: kernels with right results execute it, its handler was not changed: "
        f"{counts['run']}. Guessed: no source says what it does. `python tests/simgpu/mutation.py` and "
        "`python tests/simgpu/variants.py` make this page; nothing was compared with a real GPU.\n"
    )
    table = "| instruction | handler or family | changes noticed | state | |\n| --- | --- | --- | --- | --- |"
    page.write_text("\n".join(["# Instructions of the simulated GPU\n", head, table, *rows]) + "\n")
    print(counts)


def _known(page: Path) -> set[tuple[str, str]]:
    """(instruction, where) of a page that was made before: kernels of its tests need not be run again."""
    cells = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")][2:]
    return {(row[0].removeprefix("| "), row[1]) for row in cells}


if __name__ == "__main__":
    main()

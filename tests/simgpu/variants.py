"""Which instructions the simulated GPU executes, and how well each is verified, as a table for the docs.

`python tests/simgpu/variants.py found.json > docs/simgpu_instructions.md`: variants are those of all kernels that were
decoded on this machine (run the tests first), what `mutation.py --json found.json` found says which of them a change
in their handler makes a test fail.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from tileprobe.targets.simgpu import program
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import numbers, table, vectors

GUESSED = (
    "FCHK",
    "DSETP.MAX",
    "DSETP.MIN",
    "HSET2.BF",
    "SYNCS.ARRIVE.TRANS64.A1T0",
    "SYNCS.ARRIVE.TRANS64.A0TR",
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


def main() -> None:
    results = json.loads(Path(sys.argv[1]).read_text())
    by_module = {
        family: numbers.FAMILIES[family]._pyfunc.__module__.rpartition(".")[2] for family in numbers.FAMILIES
    }
    rows, counts = [], {"verified": 0, "partly": 0, "run": 0}
    for name, words in sorted(variants().items(), key=lambda item: sorted(item[1])):
        judged = results.get("handlers", {}).get(name) or results.get("families", {}).get(
            by_module.get(name, "")
        )
        where = name if name in vectors.NUMBERS else f"{by_module.get(name, '?')}.py"
        state, share = "run", ""
        if judged and judged["tried"]:
            alive = [what for what in judged["alive"] if not what.endswith("(?)")]
            noticed = judged["tried"] - len(judged["alive"])
            share = f"{noticed} of {judged['tried']}"
            state = "verified" if len(alive) <= (1 - ENOUGH) * judged["tried"] else "partly"
        for word in sorted(words):
            counts[state] += 1
            guessed = "guessed" if word.startswith(GUESSED) else ""
            rows.append(f"| {word} | {where} | {share} | {state} | {guessed} |")
    total = sum(counts.values())
    print("# Instructions of the simulated GPU\n")
    print(
        f"{total} variants met in the tests' kernels for sm_80 and sm_90. Verified: at least {ENOUGH:.0%} of the "
        f"changes in its handler (of those that some input shows) make a test fail: {counts['verified']}. Partly: "
        f"fewer do: {counts['partly']}. Run: kernels with right results execute it, its handler was not changed: "
        f"{counts['run']}. Guessed: no source says what it does. `python tests/simgpu/mutation.py` and "
        "`python tests/simgpu/variants.py` make this page; nothing was compared with a real GPU.\n"
    )
    print("| instruction | handler or family | changes noticed | state | |\n| --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()

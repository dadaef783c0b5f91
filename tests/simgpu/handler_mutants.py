"""Handlers over lanes with one operation changed, in LLVM's text: what can be changed, and whether tests notice.

A change exchanges an operation for its neighbour (boundary, sign, direction), exchanges operands, moves a constant or
the place of a modifier by one. Only vectors and numbers of bits are changed, never an address, so that a changed
handler can be run. Tests compare a handler with its reference on the inputs of `given_to`; a change that answers
otherwise than the handler on these inputs fails them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import lane_references
import numpy as np
from functions_checked import functions_wrong
from in_a_child import in_a_child
from lane_cases import CASES, cases
from lane_machine import Given, Machine
from matrix_inputs import block_results, matrix_inputs

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import vectors
from tileprobe.targets.simgpu.engine.lanes import HANDLERS

MANY = 600  # inputs that decide whether a change is one
_ALIVE, _MOST_LIKELY_NONE, _NOTICED, _NO_CHANGE = range(4)
_LINE = re.compile(
    r"^(?P<head>\s*%\S+ = )(?P<op>\w+) +(?:(?P<how>s\w\w|u\w\w|o\w\w|eq|ne|uno|ord) )?"
    r"(?P<kind><\d+ x \w+>) (?P<rest>.*)$"
)
_SCALAR = re.compile(r"^(\s*%\S+ = lshr i32 %\S+, )(\d+)$")
_OPERATIONS = {
    "add": "sub", "sub": "add", "mul": "add", "and": "or", "or": "and", "xor": "or", "shl": "lshr", "lshr": "ashr",
    "ashr": "lshr", "fadd": "fsub", "fsub": "fadd", "fmul": "fadd", "fdiv": "fmul", "zext": "sext", "sext": "zext",
    "sitofp": "uitofp", "uitofp": "sitofp", "fptosi": "fptoui",
}  # fmt: skip
_COMPARISONS = {
    "slt": ("sle", "sgt"), "sle": ("slt",), "sgt": ("sge", "slt"), "sge": ("sgt",), "ult": ("ule", "ugt"),
    "ule": ("ult",), "ugt": ("uge", "ult"), "uge": ("ugt",), "eq": ("ne",), "ne": ("eq",), "olt": ("ole", "ogt"),
    "ole": ("olt",), "ogt": ("oge", "olt"), "oge": ("ogt",), "oeq": ("une",), "one": ("oeq",), "uno": ("ord",),
    "ord": ("uno",),
}  # fmt: skip
_SWAPPED = ("sub", "shl", "lshr", "ashr", "fsub", "fdiv")
_SPLAT = re.compile(r"<(?P<kind>i\d+) (?P<value>-?\d+)(?:, (?P=kind) (?P=value))+>")


def _operands(text: str) -> list[str]:
    """Split at commas that are not inside of a vector."""
    found, depth, start = [], 0, 0
    for n, sign in enumerate(text):
        depth += (sign in "<([" and 1) or (sign in ">)]" and -1) or 0
        if sign == "," and depth == 0:
            found.append(text[start:n].strip())
            start = n + 1
    return [*found, text[start:].strip()]


def _changed(line: str) -> Iterator[tuple[str, str]]:
    """(what, the line) for each change of one line."""
    scalar = _SCALAR.match(line)
    if scalar:
        yield "another bit", f"{scalar[1]}{int(scalar[2]) + 1}"
        return
    found = _LINE.match(line)
    if not found:
        return
    head, op, how, kind, rest = found.group("head", "op", "how", "kind", "rest")
    if op in ("insertelement", "shufflevector", "load", "bitcast", "extractelement", "phi", "freeze"):
        return
    spaced = f"{op} {how + ' ' if how else ''}"
    cast = " to " in rest
    if op in _OPERATIONS and not (kind.endswith("i1>") and op in ("zext", "sext", "add", "sub")):
        yield f"{op} to {_OPERATIONS[op]}", f"{head}{_OPERATIONS[op]} {kind} {rest}"
    for other in _COMPARISONS.get(how or "", ()):
        yield f"{how} to {other}", f"{head}{op} {other} {kind} {rest}"
    operands = _operands(rest)
    if not cast and op in _SWAPPED and len(operands) == 2:
        yield "operands exchanged", f"{head}{spaced}{kind} {operands[1]}, {operands[0]}"
    if op == "select":
        yield "choices exchanged", f"{head}{op} {kind} {operands[0]}, {operands[2]}, {operands[1]}"
    constant = _SPLAT.search(rest)
    if constant and not cast:
        value, bits = int(constant["value"]), constant["kind"]
        count = constant[0].count(bits)
        moved = "<" + ", ".join([f"{bits} {value + 1}"] * count) + ">"
        yield "a constant and one", line.replace(constant[0], moved, 1)


def mutants(name: str, most: int | None = None) -> list[tuple[str, str]]:
    """(what was changed, LLVM's text), one change each; of more than `most` some, drawn by the name."""
    lines = vectors.text({name: HANDLERS[name]}).splitlines()
    found = [
        (f"line {n}: {what}", "\n".join([*lines[:n], changed, *lines[n + 1 :]]))
        for n, line in enumerate(lines)
        for what, changed in _changed(line)
    ]
    if most is not None and len(found) > most:
        found = random.Random(name).sample(found, most)
    return found


def given_to(name: str, count: int = CASES, seed: int = 0) -> list[Given]:
    """Inputs of the tests, or others of their kind."""
    if name.startswith(("hmma", "imma", "dmma")):
        return matrix_inputs(name)
    given = list(cases(lane_references.GIVEN[name], count, seed))
    for one in given:
        one.third = name == "plop3"
    return given


def answers(name: str, address: int, given: list[Given]) -> list[np.ndarray]:
    """All that a handler leaves on some inputs."""
    if name.startswith("block"):
        return block_results(name, address)
    machine = Machine()
    return [
        np.concatenate([np.ravel(value).astype(np.int64) for value in machine.run(address, one).values()])
        for one in given
    ]


def _shown(name: str, first: int, second: int) -> bool:
    """Whether some of many more inputs shows that two handlers differ."""
    if name not in lane_references.GIVEN:
        return True
    given = given_to(name, MANY, seed=1)
    both = zip(answers(name, first, given), answers(name, second, given))
    return not all(np.array_equal(x, y) for x, y in both)


def survivors(name: str, most: int | None = None, places: list[int] | None = None) -> tuple[int, list[str]]:
    """How many changes were tried, and those that no test notices. Changes that many more inputs do not show either
    are named with a question mark: they are most likely none. `places` says which of all changes are tried."""
    tried = mutants(name, most)
    if places is not None:
        tried = [tried[n] for n in places]
    source = vectors.text({name: HANDLERS[name]})
    code = vectors._object(source)
    held, addresses = vectors.compiled(source, [name])
    special = name.startswith("mufu")
    given = [] if special or name.startswith("block") else given_to(name)
    right = None if special else answers(name, int(addresses[0]), given)
    alive, count = [], 0

    def look(text: str) -> int:
        try:
            changed = vectors._object(text)
        except RuntimeError:  # LLVM refuses it: no change at all
            return _NO_CHANGE
        if changed == code:  # the same instructions: no change either
            return _NO_CHANGE
        _held, found_at = vectors._load(changed, [name])
        if right is None:
            same = not functions_wrong(name, int(found_at[0]))
        else:
            found = answers(name, int(found_at[0]), given)
            same = all(np.array_equal(x, y) for x, y in zip(right, found))
        if not same:
            return _NOTICED
        return _ALIVE if _shown(name, int(addresses[0]), int(found_at[0])) else _MOST_LIKELY_NONE

    for what, text in tried:
        seen = in_a_child(lambda text=text: look(text))
        count += seen != _NO_CHANGE
        if seen in (_ALIVE, _MOST_LIKELY_NONE):
            alive.append(what if seen == _ALIVE else f"{what} (?)")
    del held
    return count, alive


def several(names: list[str], most: int | None = None) -> dict[str, tuple[int, list[str]]]:
    return {name: survivors(name, most) for name in names}


# Handlers of addresses write to memory: they are tested by every load and store. Sums in single precision ("fast") are
# for no instruction.
JUDGED = sorted(name for name in HANDLERS if not name.startswith("addresses") and not name.endswith("fast"))
assert at.LANES == 32

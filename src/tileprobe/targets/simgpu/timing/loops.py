"""The loops of machine code: where they begin, and which instructions belong to them.

A branch goes back to the beginning of a loop when every way to the branch passes there. What can reach it without
passing the beginning again is the loop, wherever the compiler put it: the slow ways of waits often lie behind the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.program import Program

_SPIN = 8  # instructions: shorter loops only wait
_ENDS = ("EXIT", "RET", "BRX", "BPT")


@dataclass(frozen=True)
class Loop:
    head: int
    branch: int  # the last one that goes back to the head
    body: frozenset[int]


def opcode_of(text: str) -> str:
    words = text.split()
    return words[1] if words[0].startswith("@") and len(words) > 1 else words[0]


def loops_of(program: Program) -> list[Loop]:
    """The loops of a kernel, outer ones first."""
    following = _following(program)
    before = _dominators(following)
    backs: dict[int, list[int]] = {}
    for n, several in enumerate(following):
        for target in several:
            if target <= n and _dominates(before, target, n):
                backs.setdefault(target, []).append(n)
    coming: list[list[int]] = [[] for _ in following]
    for n, several in enumerate(following):
        for target in several:
            coming[target].append(n)
    loops = [Loop(head, max(ends), _body(head, ends, coming)) for head, ends in backs.items()]
    return sorted(
        (loop for loop in loops if len(loop.body) >= _SPIN), key=lambda loop: (-len(loop.body), loop.head)
    )


def _following(program: Program) -> list[list[int]]:
    """Of each instruction, those that may come next. Calls come back."""
    found: list[list[int]] = []
    for n, text in enumerate(program.texts):
        opcode, guarded = opcode_of(text).split(".")[0], text.startswith("@")
        after = [n + 1] if n + 1 < len(program.texts) else []
        if opcode == "BRA":
            target = int(program.uops[n, at.I0])
            always = not guarded and "P" not in text.partition("BRA")[2].partition("`")[0]
            after = [target] if always else [*after, target]
        elif opcode in _ENDS and not guarded:
            after = []
        found.append([target for target in after if 0 <= target < len(program.texts)])
    return found


def _dominators(following: list[list[int]]) -> list[int]:
    """Of each instruction the nearest one that every way to it passes; -1 where none leads. Cooper, Harvey and Kennedy,
    A Simple, Fast Dominance Algorithm."""
    order, seen = _postorder(following), {}
    for n, instruction in enumerate(order):
        seen[instruction] = n
    coming: dict[int, list[int]] = {n: [] for n in order}
    for n in order:
        for target in following[n]:
            coming[target].append(n)
    nearest = [-1] * len(following)
    nearest[0] = 0
    changed = True
    while changed:
        changed = False
        for n in reversed(order):
            if n == 0:
                continue
            new = -1
            for other in coming[n]:
                if nearest[other] >= 0:
                    new = other if new < 0 else _meet(nearest, seen, new, other)
            if new != nearest[n]:
                nearest[n], changed = new, True
    return nearest


def _meet(nearest: list[int], seen: dict[int, int], a: int, b: int) -> int:
    while a != b:
        while seen[a] < seen[b]:
            a = nearest[a]
        while seen[b] < seen[a]:
            b = nearest[b]
    return a


def _postorder(following: list[list[int]]) -> list[int]:
    found, visited, stack = [], {0}, [(0, iter(following[0] if following else ()))]
    while stack:
        n, left = stack[-1]
        target = next((t for t in left if t not in visited), None)
        if target is None:
            found.append(n)
            stack.pop()
        else:
            visited.add(target)
            stack.append((target, iter(following[target])))
    return found


def _dominates(nearest: list[int], head: int, n: int) -> bool:
    while n > 0 and n != head and nearest[n] >= 0:
        n = nearest[n]
    return n == head


def _body(head: int, ends: list[int], coming: list[list[int]]) -> frozenset[int]:
    body, left = {head}, list(ends)
    while left:
        n = left.pop()
        if n not in body:
            body.add(n)
            left += coming[n]
    return frozenset(body)

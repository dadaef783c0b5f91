"""Which kernel and which region of one trace is which of another: by structure and by code, never by line number.

In come two traces; out go pairs of kernels and pairs of regions, and what has no partner. A comment, a blank line or a
function above a kernel moves its lines and changes nothing here. Where the code did change, what is the same on both
sides is matched first, and what lies between by kind and order.
"""

from __future__ import annotations

import ast
import textwrap
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from difflib import Match, SequenceMatcher
from typing import Generic, TypeVar

from tileprobe.trace import Kernel, Region, Trace

T = TypeVar("T")
Key = Callable[[Region], Hashable]
TELLING = 4  # regions of a kernel, below which many have the same tree
SAME = 0.5  # of the kinds of operations in two stages: then one is taken for the other, changed


@dataclass
class Matched(Generic[T]):
    pairs: list[tuple[T, T]] = field(default_factory=list)
    only_a: list[T] = field(default_factory=list)
    only_b: list[T] = field(default_factory=list)


def code_of(source: str) -> str:
    """A kernel's source without comments, blank lines and layout: the same text for the same code."""
    try:
        return ast.unparse(ast.parse(textwrap.dedent(source)))
    except (SyntaxError, ValueError, RecursionError):
        return "\n".join(line for line in map(_code_line, source.splitlines()) if line)


def nameless(source: str) -> str:
    """The same, whatever the kernel is called; empty where that cannot be told."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            statement.name = "kernel"
    return ast.unparse(tree)


def _code_line(line: str) -> str:
    """A line without its comment; a `#` in a string takes part of the line along, on both sides alike."""
    return " ".join(line.split("#")[0].split())


# -- kernels ----------------------------------------------------------------------------------------------


def match_kernels(a: Trace, b: Trace) -> Matched[Kernel]:
    """Specialisations of one name are paired by signature and code; a single one that is left on either side is
    taken for the same kernel with another signature. Those without a partner may have
    been renamed."""
    found: Matched[Kernel] = Matched()
    names = dict.fromkeys(kernel.name for kernel in (*a.kernels, *b.kernels))
    for name in names:
        left = [kernel for kernel in a.kernels if kernel.name == name]
        right = [kernel for kernel in b.kernels if kernel.name == name]
        for key in _kernel_keys(a, b):
            _pair(left, right, key, found.pairs)
        if len(left) == len(right) == 1:
            found.pairs.append((left.pop(), right.pop()))
        found.only_a += left
        found.only_b += right
    _pair_renamed(found, a, b)
    order = {kernel.id: n for n, kernel in enumerate(a.kernels)}
    found.pairs.sort(key=lambda pair: order[pair[0].id])
    return found


def _pair_renamed(found: Matched[Kernel], a: Trace, b: Trace) -> None:
    """By code, or else by signature and tree, where one kernel on each side has it."""
    keys: dict[int, list[Hashable | None]] = {}
    for trace, alone in ((a, found.only_a), (b, found.only_b)):
        for kernel in alone:
            code, tree = nameless(kernel.source), _structure(trace, kernel)
            told = kernel.signature and len(tree) >= TELLING
            keys[id(kernel)] = [
                (kernel.target, kernel.signature, code) if code else None,
                (kernel.target, kernel.signature, tree) if told else None,
            ]
    for n in (0, 1):
        times = [Counter(keys[id(k)][n] for k in side) for side in (found.only_a, found.only_b)]
        once = {key for key in times[0] if key is not None and times[0][key] == times[1][key] == 1}
        _pair(
            found.only_a,
            found.only_b,
            lambda k: keys[id(k)][n] if keys[id(k)][n] in once else None,  # noqa: B023
            found.pairs,
        )


def _kernel_keys(a: Trace, b: Trace) -> list[Callable[[Kernel], Hashable | None]]:
    """From the strictest on; None means that a kernel takes no part."""
    structures = {id(k): _structure(trace, k) for trace in (a, b) for k in trace.kernels}
    codes = {id(k): code_of(k.source) for trace in (a, b) for k in trace.kernels}
    return [
        lambda k: (k.target, k.signature, codes[id(k)], structures[id(k)]),
        lambda k: (k.target, k.signature, codes[id(k)]) if k.signature else None,
        lambda k: (k.target, k.signature) if k.signature else None,
        lambda k: k.signature or None,
        lambda k: structures[id(k)] if not k.signature else None,
    ]


def _structure(trace: Trace, kernel: Kernel) -> tuple[tuple[str, int], ...]:
    return tuple((region.kind, region.depth) for region in trace.kernel_regions(kernel.id))


def _pair(
    left: list[Kernel], right: list[Kernel], key: Callable[[Kernel], Hashable | None], pairs: list
) -> None:
    for kernel in list(left):
        mine = key(kernel)
        other = next((k for k in right if mine is not None and key(k) == mine), None)
        if other is not None:
            pairs.append((kernel, other))
            left.remove(kernel)
            right.remove(other)


# -- regions ----------------------------------------------------------------------------------------------


def match_regions(a: Trace, kernel_a: Kernel, b: Trace, kernel_b: Kernel) -> Matched[Region]:
    """Trees are compared level by level; what moved to another place or level is found by its code alone, and then
    what is in it level by level."""
    left, right = _Tree(a, kernel_a), _Tree(b, kernel_b)
    found: Matched[Region] = Matched()
    _match_level(left, right, None, None, found.pairs)
    rest_a, rest_b = _without_partner(left, right, found.pairs)
    for mine, other in _moved(left, right, rest_a, rest_b):  # a loop comes before what is in it
        if not any(mine is pair[0] or other is pair[1] for pair in found.pairs):
            found.pairs.append((mine, other))
            _match_level(left, right, mine.id, other.id, found.pairs)
    found.only_a, found.only_b = _without_partner(left, right, found.pairs)
    place = {region.id: n for n, region in enumerate(right.order)}
    found.pairs.sort(key=lambda pair: place[pair[1].id])
    return found


def _without_partner(a: _Tree, b: _Tree, pairs: list[tuple[Region, Region]]) -> tuple[list, list]:
    taken_a, taken_b = ({pair[side].id for pair in pairs} for side in (0, 1))
    return [r for r in a.order if r.id not in taken_a], [r for r in b.order if r.id not in taken_b]


class _Tree:
    """The regions of a kernel, and by what each is known."""

    def __init__(self, trace: Trace, kernel: Kernel) -> None:
        self.order = trace.kernel_regions(kernel.id)
        known = {region.id for region in self.order}
        self.children: dict[int | None, list[Region]] = {}
        for region in self.order:
            above = region.parent if region.parent in known else None
            self.children.setdefault(above, []).append(region)
        self.wholes: dict[int, Hashable] = {}
        first = kernel.first_line or 1
        self.text = {first + n: _code_line(line) for n, line in enumerate(kernel.source.splitlines())}

    def kind(self, region: Region) -> tuple[str, str]:
        """What a region does, and what a user called it."""
        return region.kind, "" if region.kind == "kernel" else region.name.split(" @ ")[0]

    def code(self, region: Region) -> tuple[Hashable, ...]:
        """The same with its lines of code; of a loop, which is known by what is in it, only its own."""
        if region.kind in ("kernel", "iteration"):
            return self.kind(region)
        numbers = region.all_lines[:1] if region.kind == "loop" else region.all_lines
        return (*self.kind(region), tuple(line for n in numbers if (line := self.text.get(n, ""))))

    def whole(self, region: Region) -> Hashable:
        """Its code, and that of all that is in it: what tells loops apart that begin with the same line."""
        if region.id not in self.wholes:
            self.wholes[region.id] = (self.code(region), *map(self.whole, self.children.get(region.id, ())))
        return self.wholes[region.id]

    def shape(self, region: Region) -> Hashable:
        """Of what has something in it, what all of that does, whatever its variables are called."""
        inside = self.children.get(region.id)
        return (self.kind(region), *(self.shape(r) or self.kind(r) for r in inside)) if inside else None


def _match_level(a: _Tree, b: _Tree, above_a: int | None, above_b: int | None, pairs: list) -> None:
    """What only one region of either side is, whole, is that region wherever it stands; the others in order."""
    left, right = a.children.get(above_a, []), b.children.get(above_b, [])
    alone = _alone(left, right, (a.whole, b.whole), (a.shape, b.shape))
    numbers = [{pair[side].id: n for n, pair in enumerate(alone)} for side in (0, 1)]
    keys = [lambda r, side=side: numbers[side].get(r.id, (side, r.id)) for side in (0, 1)]
    in_place = {r.id for block in _blocks(left, right, *keys) for r in left[block.a : block.a + block.size]}
    swapped = [pair for pair in alone if pair[0].id not in in_place]
    gone = [{pair[side].id for pair in swapped} for side in (0, 1)]
    left, right = [r for r in left if r.id not in gone[0]], [r for r in right if r.id not in gone[1]]
    for mine, other in (*_aligned(left, right, *keys, a.code, b.code, a.kind, b.kind), *swapped):
        pairs.append((mine, other))
        _match_level(a, b, mine.id, other.id, pairs)


def _alone(
    left: Sequence[Region], right: Sequence[Region], *keys: tuple[Key, Key]
) -> list[tuple[Region, Region]]:
    """Pairs that have their key alone on both sides, by the first keys, then of the rest by the second ones."""
    found: list[tuple[Region, Region]] = []
    for key_a, key_b in keys:
        taken = [{pair[side].id for pair in found} for side in (0, 1)]
        mine = {r.id: key_a(r) for r in left if r.id not in taken[0]}
        others = {r.id: key_b(r) for r in right if r.id not in taken[1]}
        count_a, count_b = Counter(mine.values()), Counter(others.values())
        by_key = {others[r.id]: r for r in right if r.id in others}
        for region in left:
            key = mine.get(region.id)
            if key is not None and count_a[key] == count_b[key] == 1:
                found.append((region, by_key[key]))
    return found


def _aligned(left: Sequence[Region], right: Sequence[Region], *keys: Key) -> list[tuple[Region, Region]]:
    """Pairs in order: those with equal first keys, and between them those with equal second keys, ...; last, between
    these, stages that do much the same."""
    if not left or not right:
        return []
    if not keys:
        return _similar(left, right)
    first, second, *rest = keys
    found: list[tuple[Region, Region]] = []
    i = j = 0
    for block in _blocks(left, right, first, second):  # the last one is empty and lies behind the ends
        found += _aligned(left[i : block.a], right[j : block.b], *rest)
        i, j = block.a + block.size, block.b + block.size
        found += zip(left[block.a : i], right[block.b : j])
    return found


def _blocks(left: Sequence[Region], right: Sequence[Region], first: Key, second: Key) -> list[Match]:
    """Stretches in which the keys of both sides are the same, in order."""
    a, b = [first(region) for region in left], [second(region) for region in right]
    return SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()


def _similar(left: Sequence[Region], right: Sequence[Region]) -> list[tuple[Region, Region]]:
    """Stages of which at least half of what they do is the same, in order."""
    found: list[tuple[Region, Region]] = []
    next_right = 0
    for region in left:
        mine = set(region.kind.split("+"))
        for n in range(next_right, len(right)):
            other = set(right[n].kind.split("+"))
            if len(mine) + len(other) > 2 and len(mine & other) >= SAME * len(mine | other):
                found.append((region, right[n]))
                next_right = n + 1
                break
    return found


def _moved(a: _Tree, b: _Tree, left: list[Region], right: list[Region]) -> list[tuple[Region, Region]]:
    """Those that have their code alone, first with all that is in them."""
    mine = [region for region in left if _tells(a.code(region))]
    found = _alone(mine, right, (a.whole, b.whole), (a.code, b.code))
    place = {region.id: n for n, region in enumerate(left)}
    return sorted(found, key=lambda pair: place[pair[0].id])


def _tells(code: tuple[Hashable, ...]) -> bool:
    return len(code) > 2 and bool(code[-1])

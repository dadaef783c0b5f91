"""A failing program made as small as it will go: edits are tried until none of them still fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from fuzz.edits import edits, pruned
from fuzz.program import IllTyped, Program
from fuzz.render import render


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 120.0) -> Program:
    """The smallest program found in so much time for which `fails` still holds."""
    deadline = time.monotonic() + seconds
    tried = {render(program)}
    best = program
    shrunk = True
    while shrunk and time.monotonic() < deadline:
        shrunk = False
        skip = 0
        while (found := _next(best, fails, tried, skip, deadline)) is not None:
            # Go on where the edit worked: what failed to shrink before it will mostly fail again.
            best, skip = found
            shrunk = True
    return best


def _next(
    program: Program, fails: Callable[[Program], bool], tried: set[str], skip: int, deadline: float
) -> tuple[Program, int] | None:
    """The first candidate that still fails, from the edit number `skip` on."""
    for number, edit in enumerate(edits(program)):
        if number < skip:
            continue
        if time.monotonic() > deadline:
            return None
        try:
            candidate = pruned(edit())
            text = render(candidate) + repr(candidate.arguments)
        except IllTyped:
            continue
        if text in tried:
            continue
        tried.add(text)
        if fails(candidate):
            return candidate, number
    return None

"""Shuffles, votes, reductions: how they become micro-ops."""

from __future__ import annotations

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.lower.case import Case, lowers

_MODES = ("UP", "DOWN", "BFLY", "IDX")
_VOTES = ("ANY", "ALL", "EQ")
_REDUCTIONS = ("AND", "OR", "XOR", "SUM", "MIN", "MAX")


@lowers("SHFL")
def shfl(x: Case) -> None:
    x.set(at.I0, _MODES.index(x.one_of(*_MODES)))
    x.predicate_result(0)
    x.result()
    for source in (at.A, at.B, at.C):
        x.source(source, "bits")
    x.emit("SHFL")


@lowers("VOTE", "VOTEU")
def vote(x: Case) -> None:
    x.set(at.I0, _VOTES.index(x.one_of(*_VOTES)))
    if x.next_is("R", "UR"):
        x.result()
    x.predicate(0, place=-1)
    if x.next_is("P", "UP"):
        x.predicate_result(0)
    x.emit(x.instruction.root)


@lowers("R2UR")
def r2ur(x: Case) -> None:
    if x.next_is("P", "UP"):
        x.predicate_result(0)
        if x.fields[at.PD] & 0xFF != at.NOWHERE:
            raise x.refuse("a predicate result")
    x.result()
    x.source(at.A, "bits")
    x.emit("R2UR")


@lowers("REDUX")
def redux(x: Case) -> None:
    signed = x.has("S32")
    x.set(at.I0, _REDUCTIONS.index(x.one_of(*_REDUCTIONS, default="AND")))
    x.set(at.I1, int(signed))
    x.result()
    x.source(at.A, "bits")
    x.emit("REDUX")


@lowers("MATCH")
def match(x: Case) -> None:
    every = x.one_of("ANY", "ALL") == "ALL"
    words = 2 if x.has("U64") else 1
    x.has("U32")
    if every:
        x.predicate_result(0)
    x.result()
    x.source(at.A, "bits", rows=words)
    x.set(at.I0, int(every))
    x.set(at.I1, words)
    x.emit("MATCH")


@lowers("ELECT")
def elect(x: Case) -> None:
    x.predicate_result(0)
    if x.next_is("UR"):
        if x.take().text != "URZ":
            raise x.refuse("a register result")
    if x.next_is("P"):
        if x.take().text != "PT":
            raise x.refuse("some of the lanes")
    x.emit("ELECT")

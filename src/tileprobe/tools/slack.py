"""Slack: how much later each moment of each stream could have been without making its launch longer.

In come streams, their hand-overs and which program let which begin; out goes the slack of all time. One pass
over all events, from the last to the first: a stream that stood still had that long to spare before, what handed over
to it had what was spare behind. Hand-overs that nobody waited for are not counted, so a slack is the most there can be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.tools.handovers import Handovers, Streams, pieces_within
from tileprobe.trace.intervals import Array

_GIVES_FIRST, _BEGIN, _END, _GIVES, _GETS = range(5)  # in this order where they are at one time


@dataclass(frozen=True)
class Slack:
    """Parts of pieces of time: the number of the piece, how long the part is, and its slack."""

    piece: Array
    ns: Array
    spare: Array


def slack_of(streams: Streams, handed: Handovers, before: dict[int, int]) -> Slack:
    """In nanoseconds; `before` has for each program the stream whose end let it begin."""
    stream, time, spare = _cuts(streams, handed, before, streams.key["launch"].to_numpy())
    order = np.lexsort((np.arange(len(time)), -time, stream))  # of several at one time the last holds
    stream, time, spare = stream[order], time[order], spare[order]
    since = np.where(stream[:-1] == stream[1:], time[1:], -np.inf)
    since = np.append(since, -np.inf)
    cut, piece = pieces_within(streams, stream, since, time)
    ns = np.minimum(streams.stop[piece], time[cut]) - np.maximum(streams.start[piece], since[cut])
    return Slack(piece, ns, spare[cut])


def _cuts(
    streams: Streams, handed: Handovers, before: dict[int, int], launch: Array
) -> tuple[Array, Array, Array]:
    """(stream, time, slack right before that time) wherever it changes."""
    begin, end, program = streams.begin, streams.end, streams.program.tolist()
    count, edges = len(begin), len(handed.to)
    ends = np.full(int(launch.max()) + 1, -np.inf)
    np.maximum.at(ends, launch, end)
    spare = (ends[launch] - end).tolist()
    given = np.flatnonzero(handed.source >= 0)
    at_begin = handed.from_ns[given] <= begin[handed.source[given]]
    what = np.concatenate(
        [np.full(count, _BEGIN), np.full(count, _END), np.where(at_begin, _GIVES_FIRST, _GIVES), np.full(edges, _GETS)]
    )  # fmt: skip
    which = np.concatenate([np.arange(count), np.arange(count), given, np.arange(edges)])
    time = np.concatenate([begin, end, handed.from_ns[given], handed.to_ns])
    of = np.concatenate([launch, launch, launch[handed.source[given]], launch[handed.to]])
    order = np.lexsort((what, -time, of))
    source, to, waited = handed.source.tolist(), handed.to.tolist(), handed.waited.tolist()
    begins, stops = begin.tolist(), end.tolist()
    followers: dict[int, list[int]] = {}
    for follower, stream in before.items():
        followers.setdefault(program[stream], []).append(follower)
    now, first = [0.0] * count, {}
    over = [0.0] * edges
    cuts: list[tuple[int, float, float]] = []
    for kind, number, when in zip(what[order].tolist(), which[order].tolist(), time[order].tolist()):
        if kind == _END:
            now[number] = spare[number]
            for follower in followers.get(program[number], ()):
                since, slack = first.get(follower, (np.inf, np.inf))
                now[number] = min(now[number], since - stops[number] + slack)
            cuts.append((number, when, now[number]))
        elif kind == _BEGIN:
            since, slack = first.get(program[number], (np.inf, np.inf))
            first[program[number]] = min(since, begins[number]), min(slack, now[number])
        elif kind == _GETS:
            stream = to[number]
            over[number] = now[stream]
            now[stream] += waited[number]
            cuts.append((stream, when, now[stream]))
        elif over[number] < now[source[number]]:
            now[source[number]] = over[number]
            cuts.append((source[number], when, over[number]))
    columns = zip(*cuts)
    stream, when, value = (np.array(column) for column in columns)
    return stream.astype(np.int64), when, value

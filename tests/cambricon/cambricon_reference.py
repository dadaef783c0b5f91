"""A second engine to check the first: one channel, plain objects, one grant for every slice, no shortcuts.

Rules are tried again and again at each instant until nothing more can happen, then time moves to the next
instant at which something ends. Slow and simple on purpose; it shares no code with the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

INF = float("inf")


@dataclass
class Page:
    group: int
    request: int  # counted over the whole run
    parts: list[tuple[float, int]]  # (compute time, result bytes) of each part


@dataclass
class Plane:
    pages: list = field(default_factory=list)  # still to be read
    reading: tuple | None = None  # (page, done)
    data: object | None = None
    copying: tuple | None = None  # (page, done)
    cache: object | None = None
    since: float = 0.0  # when the cache register was filled


@dataclass
class Core:
    planes: list[Plane]
    order: list[int] = field(default_factory=list)  # plane of each page, in turn
    page: Page | None = None
    part: int = 0
    busy_until: float | None = None
    undrained: int = 0


class Reference:
    def __init__(self, groups, cores, stream_planes, const):
        """`groups`: per group (requests, stream pages); a request is (input bytes, slots, pages of cores)."""
        self.c, self.t = const, 0.0
        self.cores = [Core([Plane() for _ in range(const["planes"])]) for _ in range(cores)]
        self.streams = {key: Plane() for key in stream_planes}
        self.requests, self.feed = [], []  # all requests; all streamed pages (group, plane, use)
        self.t_in = [0.0] + [INF] * (len(groups) - 1)
        for g, (requests, stream) in enumerate(groups):
            for inputs, slots, pages in requests:
                number = len(self.requests)
                row = {
                    "group": g,
                    "bytes": inputs,
                    "slots": slots,
                    "left": len(pages),
                    "here": None,
                    "end": 0.0,
                }
                self.requests.append(row)
                for q, (plane, parts) in pages.items():
                    core = self.cores[q]
                    core.order.append(plane)
                    core.planes[plane].pages.append(Page(g, number, parts))
            for key, use in stream:
                self.feed.append((g, key, use))
                self.streams[key].pages.append((g, key))
        self.first_of = {}
        for n, r in enumerate(self.requests):
            self.first_of.setdefault(r["group"], n)
        self.groups = len(groups)
        self.results = []  # (ready, core, bytes, group)
        self.sent = 0  # inputs
        self.bus = None  # (done, what, detail)
        self.last_slice = None  # (page number, when it ended)
        self.page_left, self.page_number = None, 0
        self.used, self.arrived, self.open_use = [], [], None
        self.done_at, self.last_result = [INF] * len(groups), [0.0] * len(groups)
        self.wait, self.slices = 0.0, 0

    # -- rules: each returns whether it changed anything

    def flash(self):
        changed = False
        for core in self.cores:
            for plane in core.planes:
                changed |= self.registers(
                    plane, lambda page: self.c["prefetch"] or self.t_in[page.group] <= self.t
                )
        for plane in self.streams.values():
            changed |= self.registers(plane, lambda page: True)
        return changed

    def may_read(self, page):
        return self.c["prefetch"] or self.t_in[page.group] <= self.t

    def registers(self, plane, may_read):
        if plane.copying and plane.copying[1] <= self.t:
            plane.cache, plane.copying, plane.data = plane.copying[0], None, None
            plane.since = self.t
            return True
        if plane.reading and plane.reading[1] <= self.t:
            plane.data, plane.reading = plane.reading[0], None
            return True
        if plane.data is not None and plane.cache is None and plane.copying is None:
            plane.copying = (plane.data, self.t + self.c["copy"])
            return True
        if plane.data is None and plane.reading is None and plane.pages and may_read(plane.pages[0]):
            plane.reading = (plane.pages.pop(0), self.t + self.c["read"])
            return True
        return False

    def compute(self):
        changed = False
        for q, core in enumerate(self.cores):
            if core.busy_until is not None and core.busy_until <= self.t:
                _, size = core.page.parts[core.part]
                self.results.append((core.busy_until, q, size, core.page.group))
                core.busy_until, core.part = None, core.part + 1
                if core.part == len(core.page.parts):
                    request = self.requests[core.page.request]
                    request["left"] -= 1
                    request["end"] = self.t
                    core.planes[core.order.pop(0)].cache = None
                    core.page, core.part = None, 0
                changed = True
            if core.busy_until is None and core.undrained < 2:
                if core.page is None and core.order:
                    page = core.planes[core.order[0]].cache
                    here = self.requests[page.request]["here"] if page is not None else None
                    if here is not None and here <= self.t:
                        core.page = page
                if core.page is not None:
                    core.busy_until = self.t + core.page.parts[core.part][0]
                    core.undrained += 1
                    changed = True
        return changed

    def input_ready(self):
        """When the next input became sendable, or None."""
        if self.sent == len(self.requests):
            return None
        r = self.requests[self.sent]
        if self.t_in[r["group"]] > self.t:
            return None
        before = self.sent - r["slots"]
        if r["bytes"] and before >= self.first_of[r["group"]]:
            earlier = self.requests[self.first_of[r["group"]] : before + 1]
            if any(one["left"] for one in earlier):  # their inputs are in use
                return None
            return max([self.t_in[r["group"]], *(one["end"] for one in earlier)])
        return self.t_in[r["group"]]

    def stream_ready(self):
        if self.page_left is not None:
            return self.page_since
        n = self.page_number
        if n == len(self.feed):
            return None
        _, key, _ = self.feed[n]
        room = n < self.c["window"] or (
            len(self.used) > n - self.c["window"] and self.used[n - self.c["window"]] <= self.t
        )
        if not room or self.streams[key].cache is None:
            return None
        freed = self.used[n - self.c["window"]] if n >= self.c["window"] else 0.0
        self.page_since = max(self.streams[key].since, freed)
        self.page_left = self.c["page_bytes"]
        self.fresh = True
        return self.page_since

    def channel(self):
        if self.bus is not None:
            if self.bus[0] > self.t:
                return False
            self.finish(*self.bus)
            self.bus = None
            return True
        inputs, page = self.input_ready(), self.stream_ready()
        if inputs is not None and self.requests[self.sent]["bytes"] == 0:  # it is there already
            self.requests[self.sent]["here"] = self.t
            self.sent += 1
            return True
        result = min(self.results) if self.results else None
        rc = min([x for x in (inputs, result and result[0]) if x is not None], default=None)
        if rc is not None and (self.c["sliced"] or page is None or rc <= page):
            if inputs is not None:
                self.wait += self.t - inputs
                r = self.requests[self.sent]
                self.bus = (self.t + self.c["command"] + r["bytes"] * self.c["byte"], "input", self.sent)
                self.sent += 1
            else:
                self.results.remove(result)
                self.wait += self.t - result[0]
                self.bus = (self.t + self.c["command"] + result[2] * self.c["byte"], "result", result)
            return True
        if page is None:
            return False
        size = min(self.c["slice"], self.page_left) if self.c["sliced"] else self.page_left
        over = self.c["resume"]
        if self.fresh:
            over = self.c["command"]
        elif self.last_slice == (self.page_number, self.t):
            over = 0.0
        self.fresh = False
        self.slices += 1
        self.bus = (self.t + over + size * self.c["byte"], "slice", size)
        return True

    def finish(self, end, what, detail):
        if what == "input":
            self.requests[detail]["here"] = end
        elif what == "result":
            self.cores[detail[1]].undrained -= 1
            self.last_result[detail[3]] = end
        else:
            self.page_left -= detail
            self.last_slice = (self.page_number, end)
            if self.page_left == 0:
                self.page_left = None
                _, key, _ = self.feed[self.page_number]
                self.streams[key].cache = None
                self.page_number += 1
                self.arrived.append(end)

    def npu(self):
        n = len(self.used)
        if n == len(self.arrived):
            return False
        group, _, use = self.feed[n]
        if self.t_in[group] == INF:
            return False
        self.used.append(max(self.arrived[n], self.t_in[group], self.used[-1] if n else 0.0) + use)
        return True

    def groups_done(self):
        for g in range(self.groups):
            if self.done_at[g] < INF or self.t_in[g] > self.t:
                continue
            mine = [n for n, r in enumerate(self.requests) if r["group"] == g]
            busy = any(self.requests[n]["left"] for n in mine) or any(r[3] == g for r in self.results)
            busy |= self.bus is not None and self.bus[1] == "result" and self.bus[2][3] == g
            pages = [n for n, f in enumerate(self.feed) if f[0] == g]
            if busy or (pages and len(self.used) <= pages[-1]):
                continue
            end = max([self.t_in[g], self.last_result[g], *([self.used[pages[-1]]] if pages else [])])
            self.done_at[g] = end
            if g + 1 < self.groups:
                self.t_in[g + 1] = end
            return True
        return False

    def next_time(self):
        times = [self.bus[0]] if self.bus else []
        planes = [p for core in self.cores for p in core.planes] + list(self.streams.values())
        times += [x[1] for p in planes for x in (p.reading, p.copying) if x]
        times += [core.busy_until for core in self.cores if core.busy_until is not None]
        times += (
            self.used + [t for t in self.t_in if t < INF] + [r["here"] for r in self.requests if r["here"]]
        )
        later = [t for t in times if t > self.t]
        return min(later, default=None)

    def run(self):
        while self.done_at[-1] == INF:
            while self.npu() or self.flash() or self.compute() or self.groups_done() or self.channel():
                pass
            if self.done_at[-1] < INF:
                break
            following = self.next_time()
            assert following is not None, "the reference stands still"
            self.t = following
        return self.done_at

"""The report as one HTML file that needs nothing else: it opens from disk, can be mailed, and fetches nothing.

In comes a trace; out goes a page. Its data is JSON and a block of numbers in script elements that the browser does not
run; its code and style are the files in `page/`, as they are, and the only ones that its content security policy lets
run. Names and source of the user's reach the page as text alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

from tileprobe.files import write_file
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.regions import region_times
from tileprobe.tools.signatures import labels
from tileprobe.trace import Kernel, Trace
from tileprobe.trace.works import left_out, with_works
from tileprobe.views import text
from tileprobe.views.encodable import encodable
from tileprobe.views.html import figures
from tileprobe.views.html.distributions import distributions
from tileprobe.views.html.levels import ROOM, levels
from tileprobe.views.html.listing import Places, listings
from tileprobe.views.html.timeline import LIMIT, timeline
from tileprobe.views.without_source import file_name, without_source

SCRIPTS = (  # in the order in which they are put together
    *("data.js", "words.js", "colours.js", "selection.js", "summary.js", "tree.js", "listing.js"),
    *("charts.js", "roofline.js", "painting.js", "arcs.js", "timeline.js", "keys.js", "main.js"),
)


class Html:
    """The view called `html`."""

    name = "html"
    suffix = ".html"

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None:
        write_html(trace, path)


def write_html(
    trace: Trace, path: str | os.PathLike[str], *, source: bool = True, limit: int = LIMIT
) -> None:
    """Writes the page. Without `source` it holds no line of the user's code, nor of the IR it became."""
    write_file(path, page(trace, source=source, limit=limit))


def page(trace: Trace, *, source: bool = True, ir: bool = True, limit: int = LIMIT) -> str:
    """The page as text; a small one has no `ir`."""
    if not ir:
        trace = replace(trace, kernels=[replace(kernel, ir={}) for kernel in trace.kernels])
    trace = with_works(encodable(trace if source else without_source(trace)))
    drawn = timeline(trace, limit)
    with text.units_of(trace):
        data = {**_data(trace), "timeline": drawn.about, "tracks": drawn.tracks, "source": source}
    blocks = {
        "data": embedded(data),
        "numbers": base64.b64encode(drawn.packed).decode("ascii"),
    }
    return assemble(data["title"], blocks)


def assemble(
    title: str, blocks: dict[str, str], template: str = "page.html", scripts: Sequence[str] = SCRIPTS
) -> str:
    """A page of its parts: code and style as they are, each allowed by its hash."""
    script = '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in scripts) + "\n})();\n"
    style = _asset("style.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "{{policy}}": policy,
        "{{title}}": _escaped(title),
        "{{style}}": style,
        "{{script}}": script,
        **{f"{{{{{name}}}}}": text for name, text in blocks.items()},
    }
    return _fill(_asset(template), parts)


def _fill(template: str, parts: dict[str, str]) -> str:
    """Every placeholder is replaced once, from left to right: what is put in is never looked at again."""
    out: list[str] = []
    rest = template
    for name in sorted(parts, key=template.index):
        before, _, rest = rest.partition(name)
        out += [before, parts[name]]
    return "".join([*out, rest])


def embedded(data: Any) -> str:
    """JSON that can stand in a script element: no `<` in it can end the element or begin a comment, and what JSON
    calls infinite is null."""
    text = json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if abs(data) < float("inf") else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data


def _data(trace: Trace) -> dict[str, Any]:
    times = region_times(trace)
    totals = {row["kernel"]: row for row in kernel_totals(trace, times).iter_rows(named=True)}
    gone = left_out(trace)
    room = ROOM
    named = labels(trace.kernels)
    kernels, regions = [], []
    for kernel in trace.kernels:
        places = Places()
        shown = listings(trace, kernel, times, places)
        ir = levels(kernel, places, room)
        room -= sum(len(text) for text in kernel.ir.values())
        mine = [region for region in trace.regions if region.kernel == kernel.id]
        regions += [figures.region(region, places.of(region, kernel)) for region in mine]
        kernels.append(
            {
                **_about(kernel, named[kernel.id]),
                "facts": figures.facts(trace, kernel, totals[kernel.id]),
                "notes": figures.notes(trace, kernel, times),
                "tree": figures.tree(trace, kernel, times),
                "total_ns": totals[kernel.id]["total_ns"],
                "share": totals[kernel.id]["share"],
                "listings": shown,
                "ir": ir,
                "distributions": distributions(trace, kernel, gone),
                "roofline": figures.roofline(trace, kernel, times),
            }
        )
    return {
        "title": _title(trace, totals),
        "unit": "instructions" if text.counts(trace) else "ns",
        "kernels": kernels,
        "regions": regions,
        "launches": figures.launches(trace),
        "findings": figures.findings(trace, times),
        "command": " ".join(str(word) for word in trace.meta.get("command", [])[1:]),
        "version": str(trace.meta.get("tileprobe", "")),
    }


def _about(kernel: Kernel, label: str) -> dict[str, Any]:
    place = f"{file_name(kernel.file)}:{kernel.first_line}" if kernel.file else ""
    return {
        "id": kernel.id,
        "name": kernel.name,
        "label": label,
        "target": kernel.target,
        "signature": kernel.signature,
        "place": place,
    }


def _title(trace: Trace, by_time: Iterable[int]) -> str:
    """The kernels with the most time, and where they ran."""
    kernels = {kernel.id: kernel.name for kernel in trace.kernels}
    names = list(dict.fromkeys(kernels[kernel] for kernel in by_time))
    if not names:
        return "an empty trace"
    targets = sorted({kernel.target for kernel in trace.kernels})
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more} on {', '.join(targets)}"


def _asset(name: str) -> str:
    return resources.files("tileprobe.views.html").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _escaped(text: str) -> str:
    """Markup and control characters as text; the title is all of the user's that stands in the page as it is."""
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in text))

"""The IR that a kernel became, level by level, and which source lines each of its lines came from.

In comes the text of a level as a trace keeps it; out go its lines without the noise of locations, and for each the
places it names: MLIR's `loc(...)`, our own `from "file.py:60,62"` on stages of the scheduled IR and in comments of LLVM
IR, `.loc` in assembly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from tileprobe.ir.parts import Frame
from tileprobe.trace import Kernel
from tileprobe.views.html.listing import Places

TITLES = {
    "ttir": "TTIR",
    "ttgir": "TTGIR",
    "tile": "scheduled",
    "probe": "probes",
    "record": "records",
    "llir": "LLVM",
    "ptx": "PTX",
    "sass": "SASS",
    "amdgcn": "AMDGCN",
    "cam": "Cambricon",
    "mapped": "mapped",
}
LONGEST = 12_000  # lines of a level that a page carries
ROOM = 5_000_000  # characters of IR on a page: what is beyond is left out, and said

DEFINED = re.compile(r"^#(loc\w*) = loc\((.*)\)\s*$")
USED = re.compile(r"\s*loc\((#loc\w*|unknown|\"(?:[^\"\\]|\\.)*\"(?:\((?:#loc\w*)\))?(?::\d+:\d+)?)\)")
PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)(?::\d+)?')
REFERENCE = re.compile(r"#(loc\w*)")
STAGE = re.compile(r'from "([^"]*?):([\d,]+)"')
FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
WHOLE = re.compile(r'"/(?:[^"/]+/)+([^"/]+\.\w+)"')  # a file with its folders, of a library
BESIDE = re.compile(r'^(\s*\.file\s+\d+\s+)"/[^"]*"\s+(?=")')  # a folder that assembly says apart
COMMENT = re.compile(r'^ *; from "', re.MULTILINE)
LINE = re.compile(r"^[ \t]*\.loc\s+(\d+)\s+(\d+)", re.MULTILINE)

Found = list[tuple[str, set[Frame]]]


def levels(kernel: Kernel, places: Places, room: int = ROOM) -> list[dict[str, Any]]:
    """Each level with its lines and the numbers of the places that they came from."""
    shown = []
    folders = {file.rsplit("/", 1)[0] + "/" for file, _ in places.numbers if "/" in file}
    for name, text in kernel.ir.items():
        found = read_level(text)
        room -= len(text)
        note = ""
        if len(found) > LONGEST or room < 0:
            kept = LONGEST if room >= 0 else 0
            note = f"{len(found) - kept:,} of {len(found):,} lines are left out to keep the page small"
            found = found[:kept]
        links = [places.find(frames) for _, frames in found]
        if not note and not any(links) and kernel.source:
            note = "this level has no source locations, so nothing here lights up with the source"
        shown.append(
            {
                "level": name,
                "title": TITLES.get(name, name),
                "lines": [_without(folders, line) for line, _ in found],
                "links": links,
                "note": note,
            }
        )
    return shown


def _without(folders: set[str], line: str) -> str:
    """Names of files are enough; where they lie is nobody's business."""
    for folder in folders:
        line = line.replace(folder, "")
    return BESIDE.sub(r"\1", WHOLE.sub(r'"\1"', line)) if '"/' in line else line


def read_level(text: str) -> Found:
    """The lines of a level that people read, each with its places."""
    if LINE.search(text):
        return _assembly(text)
    if "#loc" in text:
        return _mlir(text)
    if COMMENT.search(text):
        return _commented(text)
    return _scheduled(text)


def _mlir(text: str) -> Found:
    lines = text.splitlines()
    aliases: dict[str, str] = {}
    for line in lines:
        match = DEFINED.match(line)
        if match:
            aliases[match.group(1)] = match.group(2)
    resolve = _resolver(aliases)
    found: Found = []
    for line in lines:
        if DEFINED.match(line):
            continue
        last = [match.group(1) for match in USED.finditer(line)][-1:]
        found.append((USED.sub("", line).rstrip(), resolve(last[0]) if last else set()))
    return found


def _resolver(aliases: dict[str, str]) -> Callable[[str], set[Frame]]:
    """A function from a location to the places in it: aliases name others, calls and fusions several."""
    known: dict[str, set[Frame]] = {}

    def of(text: str, depth: int = 0) -> set[Frame]:
        if text in known:
            return known[text]
        found = {(file, int(line)) for file, line in PLACE.findall(text)}
        if depth < 32:  # a damaged file may refer to itself
            for name in REFERENCE.findall(text):
                found |= of(aliases.get(name, ""), depth + 1)
        known[text] = found
        return found

    return of


def _scheduled(text: str) -> Found:
    """Lines inside of a stage belong to it, by their indentation."""
    found: Found = []
    around: list[tuple[int, set[Frame]]] = []
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        while around and depth <= around[-1][0] and not line.lstrip().startswith("}"):
            around.pop()
        places = set(_stage_places(line))
        if places and line.rstrip().endswith("{"):
            around.append((depth, places))
        found.append((STAGE.sub(_short, line), places or (around[-1][1] if around else set())))
    return found


def _commented(text: str) -> Found:
    """LLVM IR: a comment holds for what follows it, up to the end of its function. It is not shown."""
    found: Found = []
    here: set[Frame] = set()
    for line in text.splitlines():
        if COMMENT.match(line):
            here = set(_stage_places(line))
            continue
        if line.startswith(("define", "}")):
            here = set()
        found.append((line, here))
    return found


def _stage_places(line: str) -> Iterable[Frame]:
    for file, numbers in STAGE.findall(line):
        yield from ((file, int(number)) for number in numbers.split(",") if number)


def _short(match: re.Match[str]) -> str:
    return f'from "{match.group(1).rsplit("/", 1)[-1]}:{match.group(2)}"'


def _assembly(text: str) -> Found:
    """`.loc` holds for the instructions that follow it."""
    files: dict[str, str] = {}
    for line in text.splitlines():
        match = FILE.match(line)
        if match:
            number, folder, name = match.groups()
            files[number] = f"{folder}/{name}" if folder else name
    found: Found = []
    here: set[Frame] = set()
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            here = {(files.get(match.group(1), ""), int(match.group(2)))}
        found.append((line, here))
    return found

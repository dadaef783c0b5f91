"""The arrow of the architecture, computed from the imports: nothing imports against it.

A package may import those listed for it (and itself). `targets/base.py` and `targets/catalog.py` are all that others
know of targets; the CPU target is imported by its own package and its entry points alone.
"""

import ast
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import tileprobe

ROOT = Path(tileprobe.__file__).parent
PYPROJECT = ROOT.parent.parent / "pyproject.toml"

LEAVES = {"errors", "files", "imports", "plugins", "__init__"}
ARROW = {
    "errors": set(),
    "plugins": {"errors"},
    "files": {"errors"},
    "imports": set(),
    "sweeps": LEAVES,  # one function over many points: knows nothing of what runs at them
    "ir": LEAVES,
    "passes": LEAVES | {"ir"},
    "targets": LEAVES | {"ir", "passes", "sweeps"},
    "cuda_map": LEAVES | {"targets"},
    "trace": LEAVES | {"ir"},
    "tools": LEAVES | {"ir", "trace"},
    "session": LEAVES | {"ir", "targets", "trace", "tools"},  # the one part that reaches both ends
    "views": LEAVES | {"ir", "trace", "tools"},
    "language": LEAVES | {"ir"},
    "sim": LEAVES | {"targets"},  # simulated GPUs from Python: what is public of one target
    "testing": LEAVES | {"sim"},
    "profiling": LEAVES | {"session", "views", "tools", "trace"},
    "cli": LEAVES
    | {"ir", "passes", "targets", "trace", "tools", "session", "views", "profiling", "cuda_map", "sweeps"},
    "__main__": {"cli"},
    "__init__": set(),
}
SHARED = {"base", "catalog", "edited", "triton_driver"}  # of targets: no target's own


def imports():
    """(file, module) for every import of ours, also those inside functions."""
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not node.level or file.parent.name == "vmath", f"{file}: a relative import"
                names = [f"{node.module}.{a.name}" for a in node.names] if node.module else []
            elif isinstance(node, ast.Import):
                names = [a.name for a in node.names]
            else:
                continue
            yield from (
                (file.relative_to(ROOT), n.split(".")[1:]) for n in names if n.startswith("tileprobe")
            )


def part(path):
    return path.parts[0].removesuffix(".py")


def is_module(words):
    return bool(words) and any((ROOT / words[0]).with_suffix(s).exists() for s in ("", ".py"))


def test_nothing_imports_against_the_arrow():
    against = defaultdict(set)
    for file, words in imports():
        other = words[0] if is_module(words) else "__init__"  # a public name of the package itself
        if other != part(file) and other not in ARROW[part(file)]:
            against[str(file)].add(".".join(words))
    assert not against


def test_every_part_has_its_place():
    parts = {part(p.relative_to(ROOT)) for p in ROOT.rglob("*.py")}
    assert parts == set(ARROW)


@pytest.mark.parametrize(
    "target", sorted(p.name for p in (ROOT / "targets").iterdir() if (p / "target.py").exists())
)
def test_a_target_is_imported_by_its_own_package_alone(target):
    """And by what is its own: `tileprobe llm` runs models on Cambricon-LLM, `tileprobe.sim` is a simulated GPU,
    which is a GPU to sessions."""
    more = {"cambricon": ("cli", "llm.py"), "gpu": ("targets", "simgpu"), "simgpu": ("sim",)}
    own = {("targets", target), *filter(None, [more.get(target)])}
    others = {
        str(file)
        for file, words in imports()
        if words[:2] == ["targets", target] and not {file.parts[:2], file.parts[:1]} & own
    }
    assert not others


def test_outside_of_targets_only_the_protocol_is_known():
    for file, words in imports():
        own = part(file) in ("targets", "sim") or file.parts == ("cli", "llm.py")
        if not own and words[:1] == ["targets"]:
            assert words[1] in SHARED, f"{file} imports {'.'.join(words)}"


def test_modules_named_in_strings_belong_to_the_package_that_names_them():
    """Entry points are the only strings by which a part names what is right of it."""
    for file in ROOT.rglob("*.py"):
        mine = part(file.relative_to(ROOT))
        for node in ast.walk(ast.parse(file.read_text())):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            words = text.split(":")[0].split(".")
            if words[0] != "tileprobe" or len(words) < 3 or not is_module(words[1:]) or " " in text:
                continue
            allowed = ARROW[mine] | {mine} | (set(ARROW) if mine == "__init__" else set())
            assert words[1] in allowed, f"{file} names {text}"
            assert mine == "targets" or words[1:3] != ["targets", "cpu"], f"{file} names {text}"


def test_every_target_of_ours_has_an_entry_point():
    points = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]["tileprobe.targets"]
    packages = {place.split(".")[2] for place in points.values()}
    assert packages == {p.parent.name for p in (ROOT / "targets").glob("*/target.py")}


def test_no_two_test_files_have_one_name():
    """Tests are imported by their names alone: of two of one name, pytest collects the first."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []

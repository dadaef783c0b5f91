"""Damaged traces, damaged IR, senseless options: a short campaign. `make fuzz` runs any number of others."""

from __future__ import annotations

import pytest
from fuzz.inputs import campaign, ir, trying
from fuzz.inputs.mutate import bytes_like, json_like, text_like
from fuzz.inputs.structure import structured

PER_KIND = 120


@pytest.mark.parametrize("kind", sorted(trying.KINDS))
def test_a_command_ends_well_or_says_what_is_wrong(kind):
    outcome = campaign.campaign({kind: range(PER_KIND)})
    shown = [f"seed {found.seed}: {found.what}: {found.words}" for found in outcome.found]
    assert not shown, "\n".join(
        [*shown, f"`python -m fuzz.inputs --kind {kind} --one SEED` shows one of them"]
    )
    row = outcome.counts[kind]
    assert sum(row.values()) == PER_KIND
    assert row["fine"] > 3, "some cases must go all the way"
    assert row["refused"] > 20, "damage must be noticed"


def test_a_planted_fault_is_found(monkeypatch):
    """An exception that goes through the command, and one that is printed."""
    from tileprobe.trace import Trace

    monkeypatch.chdir(trying.folder())
    monkeypatch.setenv("TILEPROBE_DEBUG", "1")
    compares = [n for n in range(200) if "compare" in trying.command("trace", n)]
    seed = next(n for n in compares if trying.attempt("trace", n)[0] == "fine")

    def broken(path):
        raise KeyError("planted")

    monkeypatch.setattr(Trace, "open", broken)
    what, words = trying.attempt("trace", seed)
    assert what == "traceback"
    assert "planted" in words


class Stuck:
    """A worker that does not come back from one of its cases."""

    def __init__(self, seed, answer):
        self.seed, self.answer = seed, answer

    def ask(self, service, kind, seeds):
        if self.seed in seeds:
            return self.answer, "words"
        return "ok", [("fine", "")] * len(seeds)


@pytest.mark.parametrize(("answer", "what"), [("timeout", "hang"), ("crash", "crash")])
def test_the_case_that_did_it_is_found_by_itself(answer, what):
    found = campaign._tried(Stuck(13, answer), "trace", range(10, 20))
    assert [result for result, _ in found] == ["fine"] * 3 + [what] + ["fine"] * 6


@pytest.mark.parametrize("kind", sorted(trying.KINDS))
def test_a_case_is_its_seed(kind):
    assert trying.command(kind, 5) == trying.command(kind, 5)
    assert len({tuple(trying.command(kind, seed)) for seed in range(30)}) > 5


def test_damage_damages():
    import random

    draw = random.Random(0)
    assert sum(bytes_like(b"a" * 500, draw) != b"a" * 500 for _ in range(100)) > 80
    text = ir.corpus()[0][0]
    assert sum(text_like(text, draw, [text]) != text for _ in range(100)) > 70
    document = {"a": [1, 2, {"b": "c"}], "d": None}
    assert sum(json_like(document, draw) != document for _ in range(100)) > 70
    assert document == {"a": [1, 2, {"b": "c"}], "d": None}


def test_structured_damage_gets_through():
    """Most changes of this kind leave IR that can be read: passes see it, not only the parser."""
    import random

    text, passes = next((text, passes) for text, passes in ir.corpus() if passes == "schedule")
    seen, read = set(), 0
    for seed in range(60):
        damaged = structured(text, random.Random(seed))
        (trying.folder() / "structured.mlir").write_text(damaged)
        code, said = trying.run(["opt", str(trying.folder() / "structured.mlir"), "-p", passes])
        assert code is not None, said
        read += "cannot be read as IR" not in said
        seen.add(damaged)
    assert len(seen) > 50, "changes differ"
    assert read >= 20

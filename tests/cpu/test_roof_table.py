"""What `tileprobe doctor --roofs` measures: which caches there are, how much each loop does; times are made up."""

import pytest

from tileprobe.targets.cpu import roof_table as table
from tileprobe.targets.cpu.measuring import Took, vector


@pytest.fixture
def caches(tmp_path, monkeypatch):
    rows = (
        ("1", "Data", "48K"),
        ("1", "Instruction", "32K"),
        ("2", "Unified", "1024K"),
        ("3", "Unified", "32768K"),
    )
    for n, row in enumerate(rows):
        place = tmp_path / f"index{n}"
        place.mkdir()
        for name, value in zip(("level", "type", "size"), row):
            (place / name).write_text(value + "\n")
    monkeypatch.setattr(table, "_CACHES", tmp_path)
    return tmp_path


def test_caches_are_those_that_hold_data(caches):
    assert table.caches() == [("L1", 48 << 10), ("L2", 1 << 20), ("L3", 32 << 20)]


def test_what_the_system_does_not_say_is_left_out(caches):
    (caches / "index0" / "size").write_text("many K")
    (caches / "index2" / "size").write_text("2M")
    (caches / "index3" / "type").unlink()
    assert table.caches() == [("L1", 32 << 10)]  # of any core


def test_a_copy_fills_three_quarters_of_a_cache_and_the_last_lies_in_none(caches, monkeypatch):
    monkeypatch.setattr(table, "_copied", lambda name, size: (name, size))
    assert table._copies() == [
        ("copy in L1", 36 << 10), ("copy in L2", 768 << 10), ("copy in L3", 24 << 20), ("copy in memory", 128 << 20),
    ]  # fmt: skip
    (caches / "index3" / "size").write_text("1024K")
    assert table._copies()[-1] == ("copy in memory", 64 << 20)


def test_a_rate_is_of_the_quickest_try(monkeypatch):
    roof = table._rate("f32", 100.0, Took(2.0, 3.0), "operations")
    assert (roof.per_s, roof.spread, roof.unit) == (50e9, 0.5, "operations")


def test_a_copy_counts_what_it_reads_and_writes(monkeypatch):
    calls = []
    monkeypatch.setattr(table, "TRYING_S", 0.0)
    monkeypatch.setattr(table, "copier", lambda: lambda *given: calls.append(given))
    clock = iter(range(0, 1_000_000, 1000))
    monkeypatch.setattr(table.time, "perf_counter_ns", lambda: next(clock))
    roof = table._copied("copy", 20_000)
    into, out_of, half, times = calls[0]
    assert (half, times, out_of - into, into % 64) == (8192, (4 << 20) // 8192, 8192, 0)
    assert len(calls) == table.TRIES
    assert (roof.per_s, roof.spread) == (pytest.approx(2 * half * times / 1e-6), 0.0)


class _Host:
    vector_bytes = 64

    def __init__(self, *features):
        self.features = features

    def has(self, name):
        return name in self.features


def test_types_without_instructions_are_not_there(monkeypatch):
    taken = []

    def timed(values, body, rounds):
        taken.append((len(values), rounds))
        return Took(1.0, 1.0)

    monkeypatch.setattr(table, "timed", timed)
    monkeypatch.setattr(table, "host", lambda: _Host())
    assert [roof.name for roof in table._products()] == ["f64 multiply-add", "f32 multiply-add"]
    monkeypatch.setattr(table, "host", lambda: _Host("avx512fp16", "avx512bf16", "avx512vnni"))
    found = {roof.name.split()[0]: roof.per_s for roof in table._products()}
    each = 16 * 8 * 1e9  # chains and links, each a nanosecond
    f32 = vector("f32").count
    assert found == {
        "f64": 2 * vector("f64").count * each, "f32": 2 * f32 * each, "f16": 4 * f32 * each,
        "bf16": 4 * f32 * each, "int8": 8 * f32 * each,
    }  # fmt: skip
    assert set(taken) == {(17, table.ROUNDS // 8)}  # the factor goes round, too

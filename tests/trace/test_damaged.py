"""A damaged trace is known as one when it is opened, and what is wrong with it is said."""

import json
import os
from io import BytesIO

import made
import polars as pl
import pytest

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.tools.regions import Regions
from tileprobe.trace import Trace, checksum
from tileprobe.trace.file import KEY


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "t.parquet"
    made.attention(launches=2, programs=2, iterations=2).save(path)
    return path.read_bytes()


def changed(whole, path, head=None, frame=None):
    """Writes the file with its description or its rows changed."""
    rows = pl.read_parquet(BytesIO(whole))
    text = json.loads(pl.read_parquet_metadata(BytesIO(whole))[KEY])
    if head is not None:
        head(text)
    if frame is not None:
        rows = frame(rows)
    rows.write_parquet(path, metadata={KEY: json.dumps(text)})
    return path


def put(*keys, value):
    def change(head):
        for key in keys[:-1]:
            head = head[key]
        head[keys[-1]] = value

    return change


DESCRIPTIONS = {
    "launches": (put("launches", value={}), "launchs are no table"),
    "a row": (put("kernels", 0, value=3), "kernels are no table"),
    "a type": (put("kernels", 0, "name", value=3), "the name of a kernel cannot be '3'"),
    "no number": (put("launches", 0, "duration_ns", value=float("nan")), "the duration_ns of a launch"),
    "negative": (put("launches", 0, "duration_ns", value=-5.0), "took less than no time"),
    "a clock": (put("kernels", 0, "clock", "hz", value=0), "the clock of attention"),
    "bits": (put("kernels", 0, "clock", "bits", value=99), "the clock of attention"),
    "twice": (put("launches", 1, "id", value=0), "launches are not numbered one by one"),
    "no kernel": (put("launches", 1, "kernel", value=7), "is of kernel 7, and there is none"),
    "a circle": (put("regions", 0, "parent", value=3), "in a circle"),
    "no parent": (put("regions", 1, "parent", value=77), "in one that is not there"),
    "a grid": (put("launches", 0, "grid", value=[-1]), "there is no grid"),
    "a layout": (put("kernels", 0, "layout", value={"x": 1}), "the layout of attention cannot be read"),
    "a cost": (put("kernels", 0, "calibration", value={"cost_ticks": "much"}), "the cost_ticks of attention"),
    "the session": (put("meta", value=[]), "what it says of the session"),
    "notes": (put("meta", value={"notes": [3]}), "what it says of the session"),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_wrong_description(name, whole, tmp_path, capsys):
    change, message = DESCRIPTIONS[name]
    path = changed(whole, tmp_path / "t.parquet", head=change)
    with pytest.raises(TileProbeError, match="is a damaged trace: "):
        Trace.open(path)
    for command in (["report", str(path)], ["compare", str(path), str(path)], ["inspect", str(path)]):
        assert main(command) == 2
        assert message in capsys.readouterr().err


TABLES = {
    "a launch": (lambda f: f.with_columns(launch=pl.lit(9, pl.UInt32)), "launch is none of its launches"),
    "a region": (lambda f: f.with_columns(region=pl.lit(99, pl.UInt32)), "region is none of its regions"),
    "a unit": (lambda f: f.with_columns(unit=pl.lit(9, pl.UInt32)), "unit is none of its units"),
    "nothing": (lambda f: f.with_columns(start=pl.lit(None, pl.Int64)), "start is missing in a row"),
    "a weight": (lambda f: f.with_columns(weight=pl.lit(1e30, pl.Float32)), "weight is no count in a row"),
    "less than nothing": (
        lambda f: f.with_columns(weight=pl.lit(-0.5, pl.Float32)),
        "weight is no count in a row",
    ),
    "taken": (
        lambda f: f.with_columns(taken_ns=(pl.col("stop_ns") - pl.col("start_ns") + 3.0).cast(pl.Float32)),
        "more was taken of a row than it lasted",
    ),
    "no number": (lambda f: f.with_columns(stop_ns=pl.lit(float("nan"))), "stop_ns is no number in a row"),
    "no column": (lambda f: f.drop("program"), "without the column 'program'"),
    "a type": (lambda f: f.with_columns(launch=pl.lit("first")), "truncated or damaged"),
}


@pytest.mark.parametrize("name", TABLES)
def test_wrong_rows(name, whole, tmp_path):
    change, message = TABLES[name]
    path = changed(whole, tmp_path / "t.parquet", frame=change)
    with pytest.raises(TileProbeError, match=message):
        Trace.open(path)


def test_a_page_that_cannot_be_read(whole, tmp_path):
    """Damage behind the description is found when the file is opened, not when a query needs it."""
    path = tmp_path / "t.parquet"
    data = bytearray(changed(whole, path).read_bytes())  # without a checksum
    data[4:400] = b"\xff" * 396
    path.write_bytes(data)
    with pytest.raises(TileProbeError, match="truncated or damaged"):
        Trace.open(path)


def test_what_is_whole_is_opened(whole, tmp_path):
    path = changed(whole, tmp_path / "t.parquet")
    assert len(Trace.open(path).launches) == 2


def test_what_was_taken_is_rounded(whole, tmp_path):
    """Half a nanosecond more than a row lasted is no damage: the columns have other widths."""
    more = (pl.col("stop_ns") - pl.col("start_ns") + 0.5).cast(pl.Float32)
    Trace.load(changed(whole, tmp_path / "t.parquet", frame=lambda f: f.with_columns(taken_ns=more)))


def test_what_opens_can_be_read(whole, tmp_path):
    """Bits of the file's own description of its columns: some of them only matter to a reader that filters while it
    reads. Whatever `open` lets through, tools can read."""
    path, tried = tmp_path / "t.parquet", 0
    whole = changed(whole, path).read_bytes()  # without its checksum, as an older version wrote it
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for place in range(footer, footer + 900):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        if not _misleads(bytes(damaged)):
            continue
        path.write_bytes(damaged)
        tried += 1
        try:
            trace = Trace.open(path)
        except TileProbeError:
            continue
        Regions().read(trace)
    assert tried > 5, "there are such bits"


def _misleads(data):
    """Whether it can be read as a whole and not with a filter."""
    try:
        pl.read_parquet(BytesIO(data))
    except BaseException:  # Rust's panics
        return False
    try:
        pl.scan_parquet(BytesIO(data)).filter(pl.col("kind").is_in(["region"])).collect()
    except BaseException:
        return True
    return False


def test_a_name_that_is_no_text(tmp_path, capsys):
    """Names of files are bytes; Polars takes text."""
    path = tmp_path / os.fsdecode(b"\x80.parquet")
    made.attention(launches=1).save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert main(["report", str(path)]) == 0
    assert "attention" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["report", "t.parquet", "--json", "t.parquet"],
        ["report", "t.parquet", "--chrome", "link"],
        ["report", "t.parquet", "--html", "./t.parquet"],
        ["report", "t.parquet", "--view", "csv=t.parquet"],
        ["compare", "t.parquet", "t.parquet", "--json", "t.parquet"],
        ["export", "t.parquet", "--to", "chrome", "--out", "t.parquet"],
        ["view", "t.parquet", "--no-open", "--out", "t.parquet"],
    ],
)
def test_a_trace_that_is_read_is_not_written_over(words, whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.parquet").write_bytes(whole)
    (tmp_path / "link").symlink_to("t.parquet")
    assert main(words) == 2
    assert "is the trace that is read" in capsys.readouterr().err
    assert (tmp_path / "t.parquet").read_bytes() == whole


def test_a_byte_anywhere_is_noticed(whole, tmp_path):
    """Before Polars sees it, which trusts the sizes in a file: a wrong one ends the process."""
    path = tmp_path / "t.parquet"
    for place in range(4, len(whole) - 8, 97):
        damaged = bytearray(whole)
        damaged[place] ^= 0x20
        path.write_bytes(damaged)
        if not checksum.sealed(path):
            continue  # the mark itself was hit
        with pytest.raises(TileProbeError, match=r"damaged|not one that TileProbe wrote|not a trace"):
            Trace.open(path)


def test_a_file_without_a_checksum_is_read(whole, tmp_path):
    """Files of older versions have none."""
    assert not checksum.broken(changed(whole, tmp_path / "t.parquet"))
    assert Trace.open(tmp_path / "t.parquet").launches


@pytest.mark.parametrize("halves", [["kernels", 0, "name"], ["meta"]])
def test_a_text_that_is_none(halves, whole, tmp_path):
    value = "\udc80" if halves != ["meta"] else {"problems": {"k": "\udc80"}}
    path = changed(whole, tmp_path / "t.parquet", head=put(*halves, value=value))
    with pytest.raises(TileProbeError, match="a text in its description is none"):
        Trace.open(path)


@pytest.mark.parametrize("option", ["--trace", "--json", "--chrome", "--html"])
def test_the_script_that_is_run_is_not_written_over(tmp_path, capsys, option):
    script = tmp_path / "chat.py"
    script.write_text("print('hello')\n")
    assert main(["run", option, str(script), str(script)]) == 2
    assert "is a script that is run: write to another file" in capsys.readouterr().err
    assert script.read_text() == "print('hello')\n"

"""The command: its output files, its errors, sweeps that resume, and traces that any tool reads."""

import json

import polars as pl
import pytest

from tileprobe.cli import main
from tileprobe.tools import load_tool
from tileprobe.tools.accounting import accounted
from tileprobe.tools.regions import region_tree
from tileprobe.trace import Trace

RUN = ["llm", "--model", "opt-6.7b", "--device", "cambricon:s"]
SCHEMA = {
    "model": str, "device": str, "tokens_per_s": float, "latency_ms": float, "channel_use": float,
    "channel_gb_per_token": float, "joules_per_token": float, "alpha": float, "tile": list,
    "page_commands": int, "units": dict, "operators": list,
}  # fmt: skip


def test_json_has_the_promised_fields(tmp_path, capsys):
    file = tmp_path / "result.json"
    assert main([*RUN, "--json", str(file)]) == 0
    document = json.loads(file.read_text())
    for name, kind in SCHEMA.items():
        assert isinstance(document[name], kind), name
    assert document["tile"] == [256, 2048]
    assert document["page_commands"] == 393216
    assert {"channels", "cores", "planes", "npu_array", "npu_sfu", "dram"} <= set(document["units"])
    assert document["tokens_per_s"] == pytest.approx(1e3 / document["latency_ms"])
    shown = capsys.readouterr().out
    for word in ("tokens/s", "channel use", "393,216", "Roofline", "Limit", "Helps", "attention"):
        assert word in shown


def test_json_to_the_terminal_is_nothing_but_json(capsys):
    assert main([*RUN, "--json", "-", "--flash-only"]) == 0
    assert json.loads(capsys.readouterr().out)["alpha"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm"], "say which model"),
        (["llm", "--model", "nothing"], "no model 'nothing'"),
        ([*RUN, "--channels", "0"], "channels must be more than zero, found 0"),
        ([*RUN, "--chips-per-channel", "-1"], "chips_per_channel must be more than zero"),
        ([*RUN, "--set", "read_us"], "write CONSTANT=VALUE"),
        ([*RUN, "--set", "speed=3"], "no constant of a machine is named `speed`"),
        ([*RUN, "--tile", "9999x9999"], "multiple of the 4 cores"),
        ([*RUN, "--json", "/nowhere/x.json"], "cannot write /nowhere/x.json"),
        (["llm", "--model", "opt-6.7b", "--device", "gpu"], "no device 'gpu'"),
        (["llm", "sweep", "--model", "opt-6.7b", "--vary", "context"], "write NAME=A,B"),
        (
            ["llm", "sweep", "--model", "opt-6.7b", "--vary", "colour=1,2"],
            "no constant of a machine is named `colour`",
        ),
        (["llm", "sweep", "--vary", "context=1,2"], "say which model"),
    ],
)
def test_mistakes_are_one_message(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_printed_ir_goes_through_opt(tmp_path, capsys):
    assert main([*RUN, "--ir", "built"]) == 0
    file = tmp_path / "step.mlir"
    file.write_text(capsys.readouterr().out)
    passes = "cam-tile,cam-split,cam-double-buffer,cam-map-pages,cam-slice"
    assert main(["opt", str(file), "-p", passes]) == 0
    mapped = capsys.readouterr().out
    assert main([*RUN, "--ir"]) == 0

    # names of values may differ, not what is said of them
    def words(text):
        return [line.split("(")[0].split(" = ")[-1].strip() for line in text.splitlines() if "cam." in line]

    assert words(capsys.readouterr().out) == words(mapped)


SWEEP = ["llm", "sweep", "--model", "opt-6.7b", "--jobs", "1", "--vary", "chips_per_channel=1,2"]


def test_sweep_writes_a_table_and_a_picture_and_resumes(tmp_path):
    name = str(tmp_path / "chips")
    assert main([*SWEEP, "--out", name]) == 0
    first = pl.read_parquet(f"{name}.parquet")
    assert first["tokens_per_s"].to_list() == sorted(first["tokens_per_s"].to_list())
    pytest.importorskip("matplotlib")
    assert (tmp_path / "chips.png").read_bytes()[:4] == b"\x89PNG"

    lines = (tmp_path / "chips.jsonl").read_text().splitlines()
    more = [*SWEEP[:-1], "chips_per_channel=1,2,4"]
    assert main([*more, "--out", name]) == 0
    new = (tmp_path / "chips.jsonl").read_text().splitlines()
    assert new[:3] == lines  # only what was not there is run
    assert [json.loads(line)["settings"]["chips_per_channel"] for line in new[3:]] == [4]
    frame = pl.read_parquet(f"{name}.parquet")
    assert frame["chips_per_channel"].to_list() == [1, 2, 4]
    assert frame["key"].to_list()[:2] == first["key"].to_list()


def test_sweep_in_parallel_gives_the_same(tmp_path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert main([*SWEEP, "--vary", "context=10,20", "--out", one]) == 0
    assert main([*SWEEP, "--vary", "context=10,20", "--jobs", "2", "--on", "local", "--out", two]) == 0
    columns = ["chips_per_channel", "context", "tokens_per_s", "joules_per_token"]
    a, b = (pl.read_parquet(f"{n}.parquet").select(columns).sort(columns) for n in (one, two))
    assert a.equals(b)


def test_a_bad_point_does_not_stop_a_sweep(tmp_path, capsys):
    name = str(tmp_path / "s")
    assert main([*SWEEP[:-1], "chips_per_channel=0,2", "--out", name]) == 0
    frame = pl.read_parquet(f"{name}.parquet")
    assert "must be more than zero" in frame["error"][0]
    said = capsys.readouterr().err
    assert "chips_per_channel 0: device cambricon:s" in said
    assert "1 of 2 points failed" in said
    assert frame["error"][1] is None
    assert frame["tokens_per_s"][1] > 0


def test_damaged_results_are_not_overwritten(tmp_path, capsys):
    (tmp_path / "s.jsonl").write_text("nonsense\n")
    assert main([*SWEEP, "--out", str(tmp_path / "s")]) == 2
    assert "s.jsonl, line 1: it is damaged" in capsys.readouterr().err
    assert (tmp_path / "s.jsonl").read_text() == "nonsense\n"


def test_trace_tells_the_same_as_the_result(tmp_path):
    file = tmp_path / "t.trace"
    assert main([*RUN, "--trace", str(file), "--trace-intervals", "2000000", "--context", "100"]) == 0
    trace = Trace.load(file)
    assert trace.losses.sampled_out == trace.losses.lost == 0
    frame = trace.to_polars()
    result = trace.meta["llm"]
    units = frame.filter(pl.col("launch") == 1)
    count = dict(units.group_by("name").len().iter_rows())
    assert count["read-compute"] == result["read_compute_commands"]
    assert units.filter(pl.col("name") == "slices")["value"].sum() == result["slices"]
    busy = units.filter(pl.col("name").is_in(["slices", "result", "input broadcast"]))["duration_ns"].sum()
    assert busy / 8 / (result["latency_ms"] * 1e6) == pytest.approx(
        result["units"]["channels"]["busy"], rel=1e-6
    )
    step = frame.filter((pl.col("launch") == 0) & (pl.col("name") == "opt-6.7b"))
    assert step["duration_ns"][0] == pytest.approx(result["latency_ms"] * 1e6)
    attention = frame.filter((pl.col("launch") == 0) & (pl.col("name") == "attention"))
    assert attention.height == 32
    assert attention["iteration"].to_list() == list(range(32))


def test_channels_never_do_two_things_at_once(tmp_path):
    file = tmp_path / "t.trace"
    assert main([*RUN, "--trace", str(file), "--trace-intervals", "100000"]) == 0
    trace = Trace.load(file)
    assert trace.losses.sampled_out > 0  # a sample of whole layers, the rest counted
    kinds = ["slices", "result", "input broadcast", "read-compute", "array read"]
    frame = (
        trace.to_polars().filter((pl.col("launch") == 1) & pl.col("name").is_in(kinds)).sort("unit", "start")
    )
    after = frame.with_columns(before=pl.col("stop").shift(1).over("unit"))
    assert after.filter(pl.col("start") < pl.col("before") - 1).height == 0


def test_a_changed_device_file_is_run_again(tmp_path):
    device = tmp_path / "mine.toml"
    sweep = [
        "llm",
        "sweep",
        "--model",
        "opt-6.7b",
        "--jobs",
        "1",
        "--vary",
        "context=10",
        "--device",
        str(device),
    ]
    rates = []
    for read_us in (30.0, 20.0):
        device.write_text(
            f'inherits = "cambricon:s"\n[flash]\nread_us = {read_us}\n[core]\npage_us = {read_us}\n'
        )
        assert main([*sweep, "--out", str(tmp_path / "s")]) == 0
        rates.append(pl.read_parquet(tmp_path / "s.parquet")["tokens_per_s"].to_list()[-1])
    assert rates[1] > rates[0]


def test_layers_that_sampling_leaves_out_are_scaled_up(tmp_path):
    """What is recorded stands for all layers; the output projection is there once, and stands for itself."""
    file = tmp_path / "t.trace"
    assert main([*RUN, "--trace", str(file), "--trace-intervals", "200000", "--lm-head"]) == 0
    trace = Trace.load(file)
    result = trace.meta["llm"]
    assert trace.losses.sampled_out > 0 and not trace.losses.lost
    units = {row["name"]: row for row in region_tree(trace, trace.kernels[1]).iter_rows(named=True)}
    assert units["read-compute"]["count"] == pytest.approx(result["read_compute_commands"], rel=1e-9)
    assert units["page read"]["count"] == pytest.approx(
        result["page_commands"] - result["read_compute_commands"], rel=0.01
    )
    assert units["read-compute"]["estimate"] and units["read-compute"]["recorded"] < 0.2
    weights = (
        trace.to_polars().filter(pl.col("launch") == 1).group_by("iteration").agg(pl.col("weight").unique())
    )
    found = dict(weights.iter_rows())
    assert found.pop(-1) == [1.0] and all(weight == [32 / len(found)] for weight in found.values())
    (shares,) = [accounted(trace, trace.kernels[1])]
    assert shares is not None and shares.percent == pytest.approx(100.0, abs=2.0)


def test_a_run_writes_the_page_and_other_views(tmp_path, capsys):
    files = {name: tmp_path / name for name in ("t.parquet", "p.html", "c.json", "t.csv")}
    outputs = ["--trace", files["t.parquet"], "--html", files["p.html"], "--chrome", files["c.json"]]
    outputs += ["--view", f"csv={files['t.csv']}", "--trace-intervals", "20000"]
    assert main([*RUN, *map(str, outputs)]) == 0
    assert all(file.stat().st_size for file in files.values())
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("written: " + ", ".join(str(file) for file in files.values()))
    assert "cam.gemv" in files["p.html"].read_text()
    assert main([*RUN, "--html", str(files["p.html"]), "--no-source", "--trace-intervals", "20000"]) == 0
    assert "cam.gemv" not in files["p.html"].read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--html", "nowhere/p.html"], "cannot write nowhere/p.html: there is no folder"),
        (["--view", "csv"], "--view takes NAME=FILE"),
        (["--html", "one", "--trace", "one"], "need files of their own"),
        (
            ["--from-ir", "step.mlir", "--html", "p.html"],
            "--from-ir runs as the file says and records nothing",
        ),
        (["--from-ir", "step.mlir", "--trace", "t.parquet"], "leave out --trace"),
    ],
)
def test_outputs_that_cannot_be_are_said_before_the_run(arguments, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_options_of_traces_are_not_passed_over(capsys):
    for words in (["--trace-intervals", "3000"], ["--no-source"]):
        assert main([*RUN, *words]) == 2
        assert f"{words[0]} is about what is recorded: give --trace" in capsys.readouterr().err


def test_whole_layers_are_left_out_where_more_was_recorded_than_there_is_room_for(tmp_path):
    """Of four sequences a page has four results: more than was thought. Nothing of a layer that is kept is lost, and
    the critical path is the whole step."""
    file = tmp_path / "batch.parquet"
    assert main([*RUN, "--batch", "4", "--trace", str(file), "--trace-intervals", "150000"]) == 0
    trace = Trace.load(file)
    kernel = trace.kernels[-1]
    (launch,) = trace.kernel_launches(kernel.id)
    assert launch.losses.lost == 0 and launch.losses.sampled_out > 0 and launch.losses.kept <= 150_000
    result = load_tool("critical-path").read(trace)
    kinds = next(t.frame for t in result.tables if t.kernel == kernel.id and "kinds of time" in t.title)
    shares = dict(kinds.select("kind", "share").iter_rows())
    assert shares["work"] == pytest.approx(1.0, abs=0.02) and "launch ramp" not in shares
    assert any("stands for what was left out" in f.text for f in result.findings)

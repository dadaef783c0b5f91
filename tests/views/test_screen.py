"""What reaches a terminal, a file or a notebook: no control characters, nothing it cannot show, no lost report."""

import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import report_kernels as kernels
from made import attention

import tileprobe
from tileprobe.cli import main
from tileprobe.ir.functions import Function
from tileprobe.ir.parts import Part
from tileprobe.tools import Finding, Result, Table, load_tool
from tileprobe.trace import Trace, Work
from tileprobe.views.preformatted import report_html
from tileprobe.views.screen import Screen, c_locale, make_console
from tileprobe.views.terminal import print_report
from tileprobe.views.text import ascii_only, printable

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066\r\n\x08\x00\u2028"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
TOOLS = ("regions", "source", "iterations", "programs", "units")


def poisoned():
    """A trace with a control sequence in every name that there is."""
    trace = attention(launches=3, unprobed=3)
    (kernel,) = trace.kernels
    helper = Function(f"f{EVIL}", f"h{EVIL}.py", 1, f"def f(x): # {EVIL}")
    trace.kernels = [
        replace(
            kernel,
            name=f"k{EVIL}",
            target=f"cpu{EVIL}",
            file=f"dir/k{EVIL}.py",
            source=kernel.source.replace("# the scores", f"# {EVIL}").replace("    ", "\t"),
            functions=(helper,),
            signature=f"x: {EVIL}, BLOCK=1",
            streams=(f"a{EVIL}", f"b{EVIL}"),
        )
    ]
    part = Part(1.0, f"exp{EVIL}", ((f"h{EVIL}.py", 1), (f"dir/k{EVIL}.py", 35)))
    trace.regions = [
        replace(r, name=f"{r.name}{EVIL}", file=f"dir/k{EVIL}.py", parts=(part,) if r.id == 5 else ())
        for r in trace.regions
    ]
    trace.units = [replace(u, name=f"{u.name}{EVIL}", kind=f"core{EVIL}") for u in trace.units]
    trace.works = [Work(n, 0, (8,), f"n={EVIL}{n}", 9, 3) for n in (0, 1)]
    trace.meta = {"problems": {"k": f"problem {EVIL}"}, "notes": [f"note {EVIL}"]}
    return trace


def shown(trace, screen_file, results=None, width=120):
    results = [load_tool(name).read(trace) for name in TOOLS] if results is None else results
    print_report(trace, results, make_console(screen_file, width))


def test_names_reach_no_terminal_raw():
    out = io.StringIO()
    trace = poisoned()
    own = Result("mine", [Table(f"title {EVIL}", load_tool("regions").read(trace).tables[0].frame, [])])
    own.findings = [Finding(f"finding {EVIL}\ud800", "warning"), Finding(f"of a kernel {EVIL}", kernel=0)]
    own.tables[0].columns = load_tool("regions").read(trace).tables[0].columns
    shown(trace, out, [*(load_tool(name).read(trace) for name in TOOLS), own])
    assert not RAW.findall(out.getvalue())
    assert out.getvalue().count("\\x1b]0;owned") > 20
    assert max(len(line) for line in out.getvalue().splitlines()) <= 120


def test_colours_are_the_only_sequences():
    out = io.StringIO()
    trace = poisoned()
    screen = Screen(out, 100, force_terminal=True, color_system="standard")
    print_report(trace, [load_tool(name).read(trace) for name in TOOLS], screen)
    assert "\x1b[" in out.getvalue()
    assert not RAW.findall(re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()))


def test_commands_print_nothing_raw(tmp_path, capsys):
    paths = [str(tmp_path / f"{n}.parquet") for n in "ab"]
    for path in paths:
        poisoned().save(path)
    for command in (["report", paths[0]], ["compare", *paths], ["report", *paths, "--full"]):
        assert main(command) == 0
        found = capsys.readouterr()
        assert "owned" in found.out
        assert not RAW.findall(found.out + found.err)
    for command in (["report", paths[0], "--json", "-"], ["compare", *paths, "--json", "-"]):
        assert main(command) == 0
        assert capsys.readouterr().out.isascii()


def test_code_of_a_file_is_printed_as_it_is_but_for_control_characters(tmp_path, capsys):
    trace = attention(launches=1)
    long = "\tmov " + "x" * 300
    trace.kernels = [replace(trace.kernels[0], name=f"k{EVIL}", ir={"ttir": f"{long}\n  {EVIL} µ\n"})]
    trace.save(tmp_path / "t.parquet")
    assert main(["inspect", "--level", "ttir", str(tmp_path / "t.parquet")]) == 0
    shown = capsys.readouterr().out
    assert f"        mov {'x' * 300}\n" in shown
    assert not RAW.findall(shown)
    assert "µ" in shown


def test_printable():
    assert printable("load @ 35") == "load @ 35"
    assert printable("a\tb") == "a b"
    assert printable("\x1b[31m\u202e\ud800\x9b") == "\\x1b[31m\\u202e\\ud800\\x9b"
    assert printable("größe 中 é") == "größe 中 é"
    assert ascii_only("12 µs ±3 % é") == "12 us +-3 % \\xe9"


def test_ascii_has_the_same_report(tmp_path):
    with open(tmp_path / "out.txt", "w", encoding="ascii") as file:
        shown(attention(launches=4, noise=0.01, unprobed=3), file)
    text = (tmp_path / "out.txt").read_bytes().decode("ascii")
    assert "?" not in text
    assert "us" in text
    assert "####" in text
    assert "|-dot @ 35" in text
    assert "+-" in text


@pytest.mark.parametrize(
    ("environment", "plain"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # as Python itself sets it for LANG=C
        ({"LANG": "C"}, True),
        ({"LC_CTYPE": "C"}, True),
        ({}, False),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}, False),
        ({"LC_ALL": "C", "PYTHONUTF8": "1"}, False),
    ],
)
def test_locales(environment, plain):
    assert c_locale(environment) == plain


@pytest.mark.parametrize(
    "more", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"LANG": "C", "PYTHONUTF8": "0"}]
)
def test_a_c_locale_gets_ascii(tmp_path, more):
    attention(launches=4, unprobed=3).save(tmp_path / "t.parquet")
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONUTF8", "PYTHONIO"))
    }
    command = [sys.executable, "-m", "tileprobe", "report", str(tmp_path / "t.parquet")]
    done = subprocess.run(command, env={**environment, **more}, capture_output=True, timeout=300, check=True)
    text = done.stdout.decode("ascii")
    assert " us" in text
    assert "?" not in text


def test_a_console_without_a_file(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert make_console(io.StringIO()).width == 120
    closed = io.StringIO()
    closed.close()
    make_console(closed)


class Words(HTMLParser):
    """The text of a page; only the tags that a report has."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags = "", set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


def test_a_notebook_shows_the_report():
    trace = attention(unprobed=3)
    trace.kernels = [replace(trace.kernels[0], name="<script>alert(1)</script>&amp;")]
    page = Words(report_html(trace, [load_tool(name).read(trace) for name in TOOLS]))
    assert page.tags == {"pre", "span"}
    assert "<script>alert(1)</script>&amp;  on cpu" in page.text
    assert "36 % of the time is in dot @ 35" in page.text
    assert "s = tl.dot(q, k) * scale" in page.text
    assert not RAW.findall(report_html(poisoned(), [load_tool(name).read(poisoned()) for name in TOOLS]))


def test_a_session_shows_itself_in_a_notebook_at_any_time():
    x = np.ones(2 * kernels.BLOCK, np.float32)
    with tileprobe.profile() as session:
        assert "no kernel" in Words(session._repr_html_()).text
        kernels.chain_kernel[(2,)](tileprobe.array(x), tileprobe.array(x), BLOCK=kernels.BLOCK)
        assert "chain_kernel" in Words(session._repr_html_()).text
    page = Words(session._repr_html_())
    assert "z = tl.sin" in page.text
    assert page.tags == {"iframe", "details", "summary", "pre", "span"}  # the page; and as text, with colours


def test_a_report_of_nothing_in_a_notebook():
    nothing = Trace.build({"region": [], "start": [], "stop": []}, kernels=[], launches=[], regions=[])
    assert "no kernel" in report_html(nothing, [])

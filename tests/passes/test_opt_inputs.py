"""What `tileprobe opt` says of IR that it cannot take, and that it says it soon."""

import time

import pytest

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.ir.precheck import WIDEST, check_text

# Each of these took minutes or did not end at all.
ENDLESS = [
    (
        'builtin.module {\n  "a.b"() {x = "' + "abc " * 40 + "} : () -> ()\n}\n",
        "line 2: a string is not closed",
    ),
    (
        '"a.b"() {x = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\\q"} : () -> ()\n',
        "line 1: a string is",
    ),
    ("%0 = arith.constant 1 : i4294967296\n", "an integer of 4294967296 bits"),
    ('"a.b"() {x = array<i999999999999: 1, 2>} : () -> ()\n', "an integer of 999999999999 bits"),
]


@pytest.mark.parametrize(("text", "message"), ENDLESS)
def test_text_that_the_parser_is_never_done_with(text, message, tmp_path, capsys):
    path = tmp_path / "a.mlir"
    path.write_text(text)
    before = time.monotonic()
    assert main(["opt", str(path)]) == 2
    assert time.monotonic() - before < 60
    assert message in capsys.readouterr().err


def test_what_is_right_stays_right():
    check_text(
        f'// "a comment\n"a"() {{s = "x\\n\\22\\"", i3000 = "i99999"}} : () -> (i1, ui{WIDEST}, si8)\n%i99999 = "b"()',
        "f",
    )
    with pytest.raises(TileProbeError, match=r"f, line 2"):
        check_text('\n"', "f")


WRONG = [
    (b"\xff\xfe", [], "is no text in UTF-8"),
    (b"func.func @a(", [], "cannot be read as IR"),
    (b"(" * 20_000, [], "cannot be read as IR"),
    (b'"a"() ({' * 3000, [], "nested too deeply"),
    (b"builtin.module {}", ["-p", "none"], "cannot read the pipeline 'none'"),
    (b"builtin.module {}", ["-p", "select{"], "cannot read the pipeline 'select{'"),
    (b"builtin.module {}", ["-p", "select,,"], "cannot read the pipeline 'select,,'"),
    (b"builtin.module {}", ["-p", "select{kinds=}"], "cannot read the pipeline"),
    (b"builtin.module {}", ["-p", "select{structure=none}"], "none"),
    (b"builtin.module {}", ["--target", "none"], "there is no target 'none'"),
    (b"builtin.module {}", ["-o", "no/such/folder"], "there is no folder"),
    (b"builtin.module {}", ["-p", "schedule"], "the module has no kernel"),
    (b"tt.func @k() attributes {noinline = false} { tt.return } // tensor<", ["-p", "schedule"], None),
]


@pytest.mark.parametrize(("text", "words", "message"), WRONG)
def test_what_is_wrong_is_said(text, words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.mlir").write_bytes(text)
    code = main(["opt", "a.mlir", *words])
    said = capsys.readouterr().err
    if message is not None:
        assert code == 2
        assert message in said
    assert said.count("\n") <= 40


@pytest.mark.parametrize(
    ("words", "message"), [((), "the result"), (("--between",), "what comes before select")]
)
def test_what_cannot_be_printed_is_said(words, message, tmp_path, capsys):
    """A comparison that MLIR has no word for."""
    path = tmp_path / "a.mlir"
    path.write_text(
        '%a = arith.constant 1 : i32\n%0 = "arith.cmpi"(%a, %a) <{predicate = 57 : i64}> : (i32, i32) -> i1\n'
    )
    assert main(["opt", str(path), "-p", "select", *words]) == 2
    said = capsys.readouterr().err
    assert f"{message} cannot be printed" in said and "Traceback" not in said

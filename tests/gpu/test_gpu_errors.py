"""What cannot be done on a GPU is said, in one message."""

import os
from types import SimpleNamespace

import pytest
from gpu_cases import DENSE, bridged

from tileprobe.errors import TileProbeError
from tileprobe.targets.catalog import find
from tileprobe.targets.gpu.compile import gpu_target, options_of
from tileprobe.targets.gpu.instrument import instrument


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({"buffer": "private"}, "records of cuda cannot have buffer private; possible: global, shared"),
        ({"clock_bits": 16}, "records of cuda cannot have clock_bits 16; possible: 64, 32"),
        ({"granularity": "thread"}, "no granularity 'thread'"),
        ({"max_words": 8}, "one program's records need 16 words and may take 8"),
    ],
)
def test_records_that_cannot_be(records, message):
    module, _ = bridged("softmax", "sm80")
    with pytest.raises(TileProbeError, match=message):
        instrument(module, DENSE.pipeline("ttgir", records=records))


@pytest.mark.parametrize("name", ["cuda:75", "hip:gfx900"])
def test_a_machine_that_is_not_known(name):
    with pytest.raises(TileProbeError, match="has no machine"):
        find(name)


def test_a_machine_that_is_not_here():
    with pytest.raises(TileProbeError, match="no GPU for 'nvidia' answers"):
        find("cuda")[0].use("90")


@pytest.mark.parametrize(
    ("backend", "machine", "name"), [("cuda", "80", "libdevice"), ("hip", "gfx942", "ocml")]
)
def test_libraries_of_a_python_that_is_gone_are_those_of_this_one(backend, machine, name, tmp_path):
    """Triton's cache names files of whoever compiled a kernel first; a library of the user's stays what it is."""
    target, own = gpu_target(backend, machine), tmp_path / "own.bc"
    own.write_bytes(b"")
    kept = [[name, "/gone/lib.bc"], ["own", str(own)], ["lost", "/gone/lost.bc"]]  # as JSON has them
    found = dict(
        options_of(SimpleNamespace(metadata=SimpleNamespace(target=target, extern_libs=kept)))["extern_libs"]
    )
    assert os.path.exists(found[name])
    assert (found["own"], found["lost"]) == (str(own), "/gone/lost.bc")

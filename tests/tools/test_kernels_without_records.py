"""Kernels of which nothing was recorded do not hide others; what is too little is not listed."""

from dataclasses import replace

from made import attention

from tileprobe.tools.headline import _mixture
from tileprobe.tools.regions import Regions
from tileprobe.tools.units import Units
from tileprobe.trace import Launch


def test_a_kernel_without_records_does_not_hide_the_next():
    trace = attention()
    empty = replace(trace.kernels[0], id=1, name="empty")
    trace.kernels = [empty, trace.kernels[0]]
    trace.launches.append(Launch(99, 1, (1,), 0.0, 1.0, False))
    assert [table.kernel for table in Regions().read(trace).tables] == [0]
    assert {table.kernel for table in Units().read(trace).tables} <= {0}


def test_hardly_anything_is_not_listed():
    text = _mixture({"dot": 0.6, "load+mul": 0.397, "exp": 0.003})
    assert text.endswith("dot 60 %, load + mul 40 %")
    assert _mixture({"a": 0.4, "b": 0.3, "c": 0.1, "d": 0.1, "e": 0.1}).endswith("d 10 %, the rest 10 %")

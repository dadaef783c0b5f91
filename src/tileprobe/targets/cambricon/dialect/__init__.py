"""The `cam` dialect: a decode or prefill step of a model, its layers as a loop, its matrices as single ops.

    cam.machine "cambricon:s" with {channels = 4 : i64}
    cam.step @"opt-6.7b" decode tokens 1 context 1000 weights "w8a8" mode "split" {
    ^bb0(%x : !cam.vector<4096>):
      %y = cam.layers 32 (%x) {
      ^bb0(%h : !cam.vector<4096>):
        %n = cam.special "layernorm"(%h) passes 3 reads 16384 -> 4096
        %q = cam.gemv "q"(%n) 4096 x 4096 bias tile <rows 256, cols 2048>
        ...
        cam.yield %r
      }
      cam.return
    }

Passes add `tile`, `split` and `buffers` to a gemv and finally a body of command loops
(`commands.py`).
"""

from __future__ import annotations

from xdsl.ir import Dialect

from tileprobe.targets.cambricon.attributes import BuffersAttr, ExpertsAttr, SplitAttr, TileAttr, VectorType
from tileprobe.targets.cambricon.commands import COMMANDS
from tileprobe.targets.cambricon.dialect.exchange import ExchangeOp
from tileprobe.targets.cambricon.dialect.gemv import GemvOp, groups
from tileprobe.targets.cambricon.dialect.machine import MachineOp, find_machine
from tileprobe.targets.cambricon.dialect.npu import AttentionOp, SpecialOp
from tileprobe.targets.cambricon.dialect.step import LayersOp, ReturnOp, StepOp, YieldOp

__all__ = [
    "AttentionOp",
    "Cam",
    "ExchangeOp",
    "GemvOp",
    "LayersOp",
    "MachineOp",
    "ReturnOp",
    "SpecialOp",
    "StepOp",
    "YieldOp",
    "find_machine",
    "groups",
]

Cam = Dialect(
    "cam",
    [MachineOp, StepOp, LayersOp, YieldOp, ReturnOp, SpecialOp, AttentionOp, GemvOp, ExchangeOp, *COMMANDS],
    [VectorType, ExpertsAttr, TileAttr, SplitAttr, BuffersAttr],
)

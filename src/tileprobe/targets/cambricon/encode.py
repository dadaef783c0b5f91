"""From mapped IR to the engine's tables: the loop over layers is unrolled into operators, matrices stay
one row each.

Also the way back for readers of the IR: `page_tables` gives the commands of every matrix of every layer, which is what
stored values are laid out by.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import VectorType
from tileprobe.targets.cambricon.build import SOFTMAX_PASSES
from tileprobe.targets.cambricon.dialect import (
    AttentionOp,
    ExchangeOp,
    GemvOp,
    LayersOp,
    ReturnOp,
    SpecialOp,
    StepOp,
    YieldOp,
    find_machine,
)
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.expand import Expanded, Placed, expand
from tileprobe.targets.cambricon.kv_cache import Paged
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry, geometry_of
from tileprobe.targets.cambricon.precision import Precision, precision_of
from tileprobe.targets.cambricon.walk import expanded


def the_step(module: ModuleOp) -> StepOp:
    for op in module.walk():
        if isinstance(op, StepOp):
            return op
    raise TileProbeError("the module has no cam.step")


def page_tables(module: ModuleOp) -> Iterator[tuple[str, Placed]]:
    """Every matrix of a mapped module with its pages: `0.q`, `3.gate.17` (layer, matrix, expert), `lm_head`."""
    machine, step = find_machine(module), the_step(module)
    geometry = geometry_of(machine, step.mode.data)
    first = 0
    for op in step.body.block.ops:
        if isinstance(op, GemvOp):
            yield op.label.data, Placed(expanded(op, geometry))
        if not isinstance(op, LayersOp):
            continue
        gemvs = [inner for inner in op.body.block.ops if isinstance(inner, GemvOp)]
        bodies = [(gemv, expanded(gemv, geometry)) for gemv in gemvs]
        for layer in range(op.count.data):
            for gemv, body in bodies:
                for expert in range(gemv.experts.of.data) if gemv.experts is not None else [None]:
                    name = f"{first + layer}.{body.name}" + ("" if expert is None else f".{expert}")
                    yield name, Placed(body, layer, expert or 0)
        first += op.count.data


def encode(module: ModuleOp) -> p.Program:
    """The program of a mapped module."""
    return _Encoder(find_machine(module), the_step(module)).run()


def _width(value: SSAValue) -> int:
    assert isinstance(value.type, VectorType)
    return value.type.length.data


class _Encoder:
    def __init__(self, machine: Machine, step: StepOp) -> None:
        self.machine, self.step = machine, step
        self.precision: Precision = precision_of(step.weights.data)
        self.geometry: Geometry = geometry_of(machine, step.mode.data)
        self.tokens, self.context = step.tokens.data, step.context.data
        self.names: list[str] = []
        self.labels: list[str] = []
        self.operators: list[list[int]] = []
        self.costs: list[list[float]] = []
        self.matrices: list[list[int]] = []
        self.matrix_names: list[str] = []
        self.bodies: list[p.Bodies] = []
        self.expanded: dict[Operation, tuple[int, Expanded]] = {}  # place in `bodies`, commands
        self.uses: list[float] = []
        # start or stop, region, the operator after it, products of that operator before it, layer
        self.probes: list[tuple[str, int, int, int, int | None]] = []
        self.macs = 0.0  # of all weights that are met, by the tokens that meet them
        self.npu_macs = 0.0  # on the array: streamed weights and attention
        self.sent_bytes = 0.0  # by each package to the next
        self.dram_weights = 0.0  # of experts that are kept there
        self.made: dict[SSAValue, int] = {}  # value -> operator that makes it
        self.layers: LayersOp | None = None  # the loop that is unrolled, and the layers before it
        self.before = 0

    def run(self) -> p.Program:
        self._block(self.step.body.block, None)
        return p.Program(
            names=self.names,
            labels=self.labels,
            operators=np.array(self.operators, np.int64).reshape(-1, p.N_OPERATOR_COLUMNS),
            costs=np.array(self.costs, np.float64).reshape(-1, p.N_COST_COLUMNS),
            matrices=np.array(self.matrices, np.int64).reshape(-1, p.N_MATRIX_COLUMNS),
            bodies=p.Bodies.join(self.bodies, self.geometry.channels, self.geometry.cores),
            matrix_names=self.matrix_names,
            use_per_page_us=np.array(self.uses, np.float64),
            sliced=self.step.sliced is not None,
            meta={
                "probes": self.probes,
                "macs": self.macs,
                "npu_macs": self.npu_macs,
                "dram_weights": self.dram_weights,
                "sent_bytes": self.sent_bytes,
                "missing": {e.name: n for _, e in self.expanded.values() if (n := e.missing())},
            },
        )

    def _block(self, block: Block, layer: int | None) -> None:
        group: list[GemvOp] = []
        for op in block.ops:
            if isinstance(op, GemvOp) and (not group or group[0].vector is op.vector):
                group.append(op)
                continue
            if group and not op.name.startswith("probe."):
                self._products(group, layer)
                group = [op] if isinstance(op, GemvOp) else []
            self._one(op, layer, len(group))
        if group:
            self._products(group, layer)

    def _one(self, op: Operation, layer: int | None, pending: int) -> None:
        if isinstance(op, SpecialOp):
            self._special(op, layer)
        elif isinstance(op, AttentionOp):
            self._attention(op, layer)
        elif isinstance(op, ExchangeOp):
            self._exchange(op, layer)
        elif isinstance(op, LayersOp):
            self._layers(op)
        elif op.name in ("probe.start", "probe.stop"):
            region = op.properties["region"]
            assert isinstance(region, IntAttr)
            self.probes.append((op.name.removeprefix("probe."), region.data, len(self.names), pending, layer))
        elif not isinstance(op, (GemvOp, YieldOp, ReturnOp)) and not op.name.startswith("probe."):
            raise TileProbeError(f"the engine does not know {op.name}")

    def _layers(self, op: LayersOp) -> None:
        body = op.body.block
        value = self.made.get(op.init, -1)
        self.layers = op
        for layer in range(op.count.data):
            self.made[body.args[0]] = value
            self._block(body, self.before + layer)
            last = body.last_op
            assert isinstance(last, YieldOp)
            value = self.made.get(last.value, -1)
        self.before, self.layers = self.before + op.count.data, None
        self.made[op.out] = value

    def _add(self, kind: int, label: str, layer: int | None, op: Operation, **columns: int) -> list[float]:
        row = [0] * p.N_OPERATOR_COLUMNS
        row[p.KIND] = kind
        for n, column in enumerate(p.DEPS):
            row[column] = self.made.get(op.operands[n], -1) if n < len(op.operands) else -1
        for name, value in columns.items():
            row[getattr(p, name)] = value
        for result in op.results:
            self.made[result] = len(self.names)
        self.operators.append(row)
        self.costs.append([0.0] * p.N_COST_COLUMNS)
        self.names.append(label if layer is None else f"layer {layer} / {label}")
        self.labels.append(label)
        return self.costs[-1]

    def _sfu_us(self, elements: float) -> float:
        return elements / (self.machine.npu.sfu_lanes * self.machine.npu.clock_ghz * 1e3)

    def _special(self, op: SpecialOp, layer: int | None) -> None:
        cost = self._add(p.VECTOR, op.label.data, layer, op)
        cost[p.SFU_US] = self._sfu_us(self.tokens * op.passes.data * _width(op.out))
        cost[p.DRAM_US] = op.reads.data / (self.machine.dram.gb_per_s * 1e3)

    def _exchange(self, op: ExchangeOp, layer: int | None) -> None:
        link = self.machine.packages
        cost = self._add(p.EXCHANGE, f"{op.how.data} over the link", layer, op)
        cost[p.LINK_US] = op.steps * link.latency_us + op.sent / (link.gb_per_s * 1e3)
        self.sent_bytes += op.sent

    def _attention(self, op: AttentionOp, layer: int | None) -> None:
        heads, kv_heads, dim, latent = op.heads.data, op.kv_heads.data, op.head_dim.data, op.latent.data
        decode, near = self.step.kind.data == "decode", op.seen(self.context) - op.flash.data
        # causal: a prompt's tokens see half of it on average, or their window
        seen = near if decode else min((self.tokens + 1) / 2, op.window.data or self.tokens)
        cost = self._add(p.ATTENTION, "attention", layer, op, KV_HEADS=kv_heads)
        number = len(self.names) - 1
        dram, npu = self.machine.dram.gb_per_s * 1e3, self.machine.npu
        queries = heads // kv_heads * self.tokens
        for key, array, size in (
            (p.K_DRAM_US, p.QK_ARRAY_US, dim),
            (p.V_DRAM_US, p.PV_ARRAY_US, latent or dim),
        ):
            # of the keys, or the values, of one head, in all sequences
            stored = near * size * self.precision.kv_bytes * self.step.batch
            macs = queries * seen * size
            self.npu_macs += kv_heads * macs
            # each key is used by `queries` vectors: loading the array or multiplying, whichever takes longer
            cost[array] = max(stored / (npu.edge_gb_per_s * 1e3), macs / npu.macs_per_us)
            cost[key] = (
                0.0 if latent and key == p.V_DRAM_US else stored / dram
            )  # latent values are part of the keys
        cost[p.SOFTMAX_US] = self._sfu_us(SOFTMAX_PASSES * queries * seen)
        if npu.kv_ahead and decode:  # a prompt's keys do not exist before
            cost[p.AHEAD_US] = kv_heads * cost[p.K_DRAM_US]
        written = self.tokens * op.cached_values * self.precision.kv_bytes
        cost[p.DRAM_US] = self.machine.dram.latency_us + written / dram
        if op.flash.data:
            self._attention_in_flash(op, layer, number)

    def _attention_in_flash(self, op: AttentionOp, layer: int | None, near: int) -> None:
        """The older tokens: their pages stream to the NPU beside the DRAM's, and both results are merged."""
        if op not in self.expanded:
            body = op.body.block if op.body is not None and op.body.blocks else None
            pages = self._paged(op).pages(op.flash.data)
            found = expand("keys and values", pages, 1, body, self.geometry)
            self.expanded[op] = len(self.bodies), found
            self.bodies.append(found.body())
        body, found = self.expanded[op]
        row, npu = [0] * p.N_MATRIX_COLUMNS, self.machine.npu
        row[p.BODY], row[p.INPUT_SLOTS], row[p.VALUES_PER_PAGE] = body, 1, 1
        local = 0 if layer is None else layer - self.before
        row[p.STREAM_OFFSET] = self.geometry.planes * local * int(found.strides[1][0])
        first = len(self.matrices)
        self.matrices.append(row)
        self.matrix_names.append(f"layer {layer} / keys and values")
        macs = 2 * op.heads.data * op.flash.data * op.head_dim.data * self.tokens
        self.npu_macs += macs
        page_us = max(
            self.machine.flash.page_bytes / (npu.edge_gb_per_s * 1e3), macs / found.pages / npu.macs_per_us
        )
        self.uses.append(page_us * self.geometry.channels)
        cost = self._add(p.WEIGHTS, "kv from flash", layer, op, FIRST_MATRIX=first, END_MATRIX=first + 1)
        cost[p.ARRAY_US], cost[p.FLASH_US] = found.pages * page_us, self._write_us(op)
        merge = self._add(p.VECTOR, "merge attention", layer, op)
        # two results with their maxima and sums: scale and add
        merge[p.SFU_US] = self._sfu_us(2 * self.tokens * _width(op.out))
        row = self.operators[-1]
        row[p.DEP_0], row[p.DEP_1], row[p.DEP_2], row[p.DEP_3] = near, near + 1, -1, -1

    def _paged(self, op: AttentionOp) -> Paged:
        return Paged.of(op.cached_values * self.precision.kv_bytes, self.machine.flash.page_bytes)

    def _write_us(self, op: AttentionOp) -> float:
        """A layer's part of writing a token's page: all layers fill theirs with the same token, and program them
        together, one on each die, while the machine waits.
        """
        flash, paged = self.machine.flash, self._paged(op)
        spilled = sum(
            layers.count.data
            for layers in self.step.body.block.ops
            if isinstance(layers, LayersOp)
            and any(isinstance(o, AttentionOp) and o.flash.data for o in layers.body.block.ops)
        )
        rounds = -(-spilled * paged.pages_per_token // self.machine.dies)
        programs_us = rounds * flash.program_us / paged.tokens_per_page / max(spilled, 1)
        sent_us = paged.written_per_token * flash.page_bytes / (flash.channels * flash.channel_gb_per_s * 1e3)
        return self.tokens * (programs_us + sent_us)

    def _products(self, group: list[GemvOp], layer: int | None) -> None:
        first = len(self.matrices)
        streamed = cached = cached_macs = 0.0
        for gemv in group:
            weights, tokens = gemv.rows.data * gemv.cols.data, self._tokens(gemv, layer)
            self.macs += weights * tokens * (1 if gemv.experts is None else len(self._met(gemv, layer)))
            if gemv.experts is None:
                streamed += self._matrix(gemv, layer)
                continue
            for expert in self._met(gemv, layer):
                if expert >= 0:
                    streamed += self._matrix(gemv, layer, expert)
                else:
                    cached += weights
                    cached_macs += weights * tokens
        label = " ".join(gemv.label.data for gemv in group)
        cost = self._add(p.WEIGHTS, label, layer, group[0], FIRST_MATRIX=first, END_MATRIX=len(self.matrices))
        for gemv in group:
            self.made[gemv.out] = len(self.names) - 1
        # what is left when the last sum arrives: one pass over the longest result, to scale and add its bias
        cost[p.TAIL_US] = self._sfu_us(self.tokens * max(gemv.ends[1] for gemv in group))
        # experts that are kept in DRAM are streamed from there beside the others
        cost[p.DRAM_US] = cached * self.precision.weight_bits / 8 / (self.machine.dram.gb_per_s * 1e3)
        cost[p.ARRAY_US] = streamed + cached_macs / self.machine.npu.macs_per_us
        self.dram_weights += cached
        self.npu_macs += cached_macs

    def _commands(self, gemv: GemvOp) -> tuple[int, Expanded]:
        """What the matrix's loops command: expanded once for all layers."""
        if gemv not in self.expanded:
            found = expanded(gemv, self.geometry)
            self.expanded[gemv] = len(self.bodies), found
            self.bodies.append(found.body())
        return self.expanded[gemv]

    def _met(self, gemv: GemvOp, layer: int | None) -> list[int]:
        """The experts whose matrix this layer multiplies by; below zero those that are in DRAM."""
        assert gemv.experts is not None
        if self.layers is None or layer is None or gemv.experts.active.data == gemv.experts.of.data:
            return list(range(gemv.experts.active.data))
        return self.layers.experts(layer - self.before, gemv.experts.active.data)

    def _tokens(self, gemv: GemvOp, layer: int | None) -> float:
        """By how many tokens a matrix is multiplied: each of them meets some of the experts that the step meets."""
        if gemv.experts is None:
            return float(self.tokens)
        return self.tokens * gemv.experts.active.data / len(self._met(gemv, layer))

    def _matrix(self, gemv: GemvOp, layer: int | None, expert: int = 0) -> float:
        if gemv.buffers is None:
            raise TileProbeError(f"{gemv.label.data} has no buffers; run cam-double-buffer before")
        body, found = self._commands(gemv)
        values, planes = self.precision.values_per_page(self.machine), self.geometry.planes
        compute, stream = found.strides
        row = [0] * p.N_MATRIX_COLUMNS
        row[p.ROWS], row[p.COLS], row[p.BODY] = gemv.rows.data, gemv.cols.data, body
        row[p.INPUT_SLOTS], row[p.VALUES_PER_PAGE] = gemv.buffers.inputs.data, values
        instance = np.array([0 if layer is None else layer - self.before, expert])
        row[p.COMPUTE_OFFSET], row[p.STREAM_OFFSET] = (planes * int(s @ instance) for s in (compute, stream))
        self.matrices.append(row)
        self.matrix_names.append(gemv.label.data if layer is None else f"layer {layer} / {gemv.label.data}")
        # a streamed page on the array: loaded once, multiplied by every token; channels share the array
        # evenly
        npu = self.machine.npu
        tokens = self._tokens(gemv, layer)
        page_us = max(
            self.machine.flash.page_bytes / (npu.edge_gb_per_s * 1e3), values * tokens / npu.macs_per_us
        )
        blocks = found.stream.blocks
        self.npu_macs += float((blocks.rows * blocks.cols).sum()) * tokens
        self.uses.append(page_us * self.geometry.channels)
        return len(blocks.row) * page_us

"""The published figures of Cambricon-LLM that a run can be held against, by group, and readings of the paper's text.

Speeds of figure 9 are printed with one or two decimals; `step` is the last of them, so that a figure can be told from
its rounding. Twelve of them were read in public repositories that quote the figure, and not in the paper. A hypothesis
is what was changed in the model because the paper's text says so, and how to switch it off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import Machine, load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY
from tileprobe.targets.cambricon.result import Result
from tileprobe.targets.cambricon.simulate import simulate


@dataclass(frozen=True)
class Point:
    """One figure of the paper and how to get it from us."""

    name: str
    paper: float
    model: str = "opt-6.7b"
    device: str = "cambricon:s"
    what: str = "tokens_per_s"
    options: Options = Options()  # noqa: RUF009
    changes: tuple[tuple[str, object], ...] = ()
    step: float = 0.01  # of the figure's last digit
    why: str = ""

    def machine(self, extra: dict | None = None) -> Machine:
        machine = load_machine(self.device)
        changes = {**(extra or {}), **dict(self.changes)}
        return machine.replace(**changes) if changes else machine

    def run(self, extra: dict | None = None, options: dict | None = None) -> Result:
        return simulate(
            load_model(self.model, mha=True), self.machine(extra), replace(self.options, **(options or {}))
        )

    def value(self, extra: dict | None = None, options: dict | None = None) -> float:
        return getattr(self.run(extra, options), self.what)


@dataclass(frozen=True)
class Gain(Point):
    """A mean over the models of figure 9: how much faster W4A16, or the best tile, is."""

    against: Options = Options()  # noqa: RUF009

    def value(self, extra: dict | None = None, options: dict | None = None) -> float:
        gains = []
        # a DRAM that holds the 16-bit caches of the two largest models, too: the mean over all of them is the paper's
        room = {**(extra or {}), "dram_capacity_bytes": 10**10} if self.options == W4 else extra
        for name in SPEEDS:
            ours, other = (
                replace(self, model=name, options=o).run(room, options) for o in (self.options, self.against)
            )
            gains.append(ours.tokens_per_s / other.tokens_per_s)
        return sum(gains) / len(gains)


# figure 9, tokens/s on S, M, L; the text and the abstract give more digits of some
SPEEDS: dict[str, tuple[str, str, str]] = {
    "opt-6.7b": ("3.56", "10.96", "36.34"),
    "opt-13b": ("1.9", "4.68", "14.2"),
    "opt-30b": ("0.8", "2.50", "7.6"),
    "opt-66b": ("0.36", "1.15", "2.59"),
    "llama2-7b": ("3.55", "10.4", "34.0"),
    "llama2-13b": ("1.9", "4.7", "14.0"),
    "llama2-70b": ("0.30", "0.99", "3.44"),
}
_WHY = {
    (
        "llama2-7b",
        "m",
    ): "7.7 % has OPT-6.7B, too, and stay open; 1.6 are half requests of 11,008 rows that the NPU takes "
    "here and the cores there; 1.4 are the paper's alone (docs/cambricon.md)",
}
_USE = (
    "both printed uses say 1.78 GB a token (0.792 * 8 GB/s / 3.56 and 0.484 * 8 / 2.17), its label says 1.9; "
    "--hypotheses shows what each way of counting explains: speed 5 and 9 %, 2^30 bytes 8, the split 5"
)
_SLICE = "a mean over the models of figure 9 (W4A16: in a DRAM that holds all their caches)"
W4 = Options(weights="w4a16")

GROUPS: dict[str, list[Point]] = {
    "speed": [
        Point(f"{model} on {device.upper()}", float(v), model, f"cambricon:{device}",
              step=10.0 ** -len(v.partition(".")[2]), why=_WHY.get((model, device), ""))
        for model, values in SPEEDS.items() for device, v in zip("sml", values)
    ],
    "w4a16": [
        Point("S, W4A16", 6.80, options=W4),
        Point("L, W4A16", 42.8, device="cambricon:l", options=W4, step=0.1),
    ],
    "tile shapes": [
        Point("S, tile 128x4096", 3.54, options=Options(tile="128x4096")),
        Point("S, tile 4096x128", 2.81, options=Options(tile="4096x128")),
    ],
    "ablations": [
        Point("S, no slice control", 2.17, options=Options(slicing=False)),
        Point("S, without tiling: all in flash", 2.69, options=Options(mode=FLASH_ONLY)),
    ],
    "scaling": [
        Point(f"8 channels, {n} chip{'s' * (n > 1)} a channel", v, changes=(("chips_per_channel", n),))
        for n, v in zip((1, 4, 8), (2.37, 6.01, 10.7))
    ],
    "traffic": [
        Point("GB over the channels a token", 1.9, what="channel_gb", step=0.1),
        Point("channel use, full", 0.792, what="channel_use", why=_USE),
        Point("channel use, no slice control", 0.484, what="channel_use", options=Options(slicing=False), why=_USE),
        Point("channel use, without tiling", 0.032, what="channel_use", options=Options(mode=FLASH_ONLY)),
    ],
    "energy": [Point("J a token", 1.07, what="joules_per_token")],
    "gains": [
        Gain("W4A16 over W8A8 on S, mean (x)", 1.853, options=W4, why=_SLICE),
        Gain("W4A16 over W8A8 on L, mean (x)", 1.479, device="cambricon:l", options=W4, why=_SLICE),
        Gain("256x2048 over 128x4096, mean (x)", 1.175, against=Options(tile="128x4096"), why=_SLICE),
        Gain("256x2048 over 4096x128, mean (x)", 1.247, against=Options(tile="4096x128"), why=_SLICE),
        Gain("slice control over none, mean (x)", 1.7, against=Options(slicing=False), step=0.2, why=_SLICE),
        Gain("tiling over none, mean (x)", 1.35, against=Options(mode=FLASH_ONLY), step=0.1, why=_SLICE),
    ],
}  # fmt: skip
TOKENS = ("speed", "w4a16", "tile shapes", "ablations", "scaling")  # groups that are tokens/s


@dataclass(frozen=True)
class Hypothesis:
    name: str
    text: str  # what supports it
    off: dict[str, object]  # options
    off_machine: dict[str, object]
    kept: bool = True


HYPOTHESES = [
    Hypothesis("striped", "the remainder of the matrix goes over the channels to the NPU: all of them",
               {"striped": False}, {}),
    Hypothesis("counted", "the split balances the total time of read-compute and of read requests: whole ones, counted",
               {"counted": False}, {}),
    Hypothesis("spare", "t_r = page / ((1 - rate_rc) * bw): the spare area does not travel", {},
               {"spare_travels": True}),
    Hypothesis("keys beside", "K is loaded beside Q = X W_Q: the keys of the layer, while the products before "
               "attention run", {}, {"kv_ahead": False}),
    Hypothesis("edges", "(not kept: the text does not say which requests are the remainder) the NPU gets the columns "
               "first that do not fill a request", {"edges": False}, {}, kept=False),
    Hypothesis("20 us core", "(not kept: the figure without tiling contradicts it) a core is sized for a page in 20 us",
               {}, {"page_us": 30.0}, kept=False),
    Hypothesis("in order", "(not kept: the cache register frees the data register for the next read, which needs no "
               "input) a read-compute command sends its input and then reads the array", {}, {"prefetch": True},
               kept=False),
    Hypothesis("2 inputs", "(not kept: t_rc = tR + W / (channels * bw) has the input after the page) a core holds the "
               "next input while it computes", {}, {"input_slots": 1}, kept=False),
]  # fmt: skip
TURNED_ON: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "edges": ({"edges": True}, {}),
    "20 us core": ({}, {"page_us": 20.48}),
    "in order": ({}, {"prefetch": False}),
    "2 inputs": ({}, {"input_slots": 2}),
}

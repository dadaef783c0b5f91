"""How many chips does a channel need? Tokens/s and what limits them, for one model on one device.

python examples/cambricon/balance.py
"""

from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.limits import bottleneck
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate


def main() -> None:
    model, device = load_model("llama3-8b"), load_machine("cambricon:s")
    for chips in (1, 2, 4, 8, 16):
        machine = device.replace(chips_per_channel=chips)
        result = simulate(model, machine, Options(context=2000, tiling="best"))
        limit, _ = bottleneck(result, machine)
        speed = f"{result.tokens_per_s:5.2f} tokens/s, {result.joules_per_token:.2f} J"
        print(f"{chips:2d} chips a channel: {speed}; {limit}")


if __name__ == "__main__":
    main()

"""Text out of a model in flash, token by token.

In: a `FlashModel`, its tokenizer, a prompt and how to choose. Out: an iterator of `Token`: its number, the
text it adds, and how long the machine takes for it when a timer is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.model import FlashModel
from tileprobe.targets.cambricon.functional.tokenizer import Tokenizer

Timer = Callable[[int], float]  # context length -> microseconds that the machine takes for the next token
UNFINISHED = "\ufffd"  # a character whose bytes are spread over tokens, and not all are there yet


@dataclass(frozen=True)
class Token:
    number: int
    text: str
    simulated_us: float | None


@dataclass
class Sampler:
    """Greedy at temperature 0; otherwise a draw among the `top_k` likeliest tokens."""

    temperature: float = 0.7
    top_k: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < 100.0:
            raise TileProbeError(
                f"a temperature of {self.temperature}: expected 0 (greedy) or more, such as 0.7"
            )
        if self.top_k < 1:
            raise TileProbeError(f"top_k = {self.top_k}: expected at least 1")
        self._rng = np.random.default_rng(self.seed)

    def __call__(self, logits: np.ndarray) -> int:
        logits = np.nan_to_num(logits.astype(np.float64), nan=-1e30, posinf=1e30, neginf=-1e30)
        if self.temperature == 0.0:
            return int(logits.argmax())
        best = np.argsort(-logits, kind="stable")[: self.top_k]
        chances = np.exp((logits[best] - logits[best[0]]) / self.temperature)
        return int(self._rng.choice(best, p=chances / chances.sum()))


def generate(
    model: FlashModel,
    tokenizer: Tokenizer,
    prompt: str,
    count: int,
    sampler: Sampler | None = None,
    timer: Timer | None = None,
) -> Iterator[Token]:
    """Up to `count` tokens after the prompt; fewer at the model's end token or the end of its context."""
    if count < 1:
        raise TileProbeError(f"{count} tokens asked for: expected at least 1")
    tokens = tokenizer.encode(prompt)
    if not tokens:
        raise TileProbeError("the prompt is empty: give --prompt with at least one character")
    sampler, cache = sampler or Sampler(), model.new_cache()
    fresh, shown = list(tokens), tokenizer.decode(tokens)
    for _ in range(count):
        if cache.length + len(fresh) > model.spec.positions and cache.length:
            return
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            logits = model.transformer(fresh, cache, last_only=True)[-1]
        number = sampler(logits)
        if number in model.spec.stop_tokens:
            return
        tokens.append(number)
        fresh = [number]
        whole = tokenizer.decode(tokens)
        text = "" if whole.endswith(UNFINISHED) else whole[len(shown) :]
        shown = shown + text if text else shown
        yield Token(number, text, timer(cache.length) if timer else None)

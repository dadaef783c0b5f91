"""Text to token numbers and back, from a folder's tokenizer.json.

With the `tokenizers` package any tokenizer.json works. Without it, byte-level BPE (GPT-2, OPT, Llama 3,
Qwen and the example of this repository) is read here, as long as it uses GPT-2's own splitting of words.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from tileprobe.errors import TileProbeError

# GPT-2's pattern; `[^\W\d_]` are the letters and `\d` the numbers that Python's own `re` knows
SPLIT = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


class Tokenizer(Protocol):
    size: int

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: list[int]) -> str: ...


class LibraryTokenizer:
    """tokenizer.json through the `tokenizers` package."""

    def __init__(self, path: Path):
        from tokenizers import Tokenizer as Backend

        try:
            self._backend = Backend.from_file(str(path))
        except Exception as error:  # the package raises bare Exception
            raise TileProbeError(f"{path} is no tokenizer that `tokenizers` can read: {error}") from None
        self.size = 1 + max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1)

    def encode(self, text: str) -> list[int]:
        return list(self._backend.encode(text).ids)

    def decode(self, tokens: list[int]) -> str:
        return self._backend.decode(tokens)


def byte_alphabet() -> dict[int, str]:
    """The printable character that stands for each byte in a byte-level vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in alphabet)
    return {**alphabet, **{byte: chr(256 + k) for k, byte in enumerate(others)}}


class BytePairTokenizer:
    """Byte-level BPE in plain Python."""

    def __init__(self, path: Path):
        data = _read_json(path)
        model = data.get("model") or {}
        before = data.get("pre_tokenizer") or {}
        plain = (
            model.get("type") == "BPE" and before.get("type") == "ByteLevel" and not data.get("normalizer")
        )
        if not plain or data.get("added_tokens") or not isinstance(model.get("vocab"), dict):
            raise TileProbeError(
                f"{path}: this kind of tokenizer needs the `tokenizers` package: pip install tokenizers"
            )
        self._prefix = " " if before.get("add_prefix_space") else ""
        self._vocab: dict[str, int] = model["vocab"]
        pairs = (tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model.get("merges", []))
        self._rank = {pair: rank for rank, pair in enumerate(pairs)}
        self._char = byte_alphabet()
        self._byte = {char: byte for byte, char in self._char.items()}
        self._text = {number: token for token, number in self._vocab.items()}
        self._cache: dict[str, list[int]] = {}
        self.size = 1 + max(self._text, default=-1)

    def encode(self, text: str) -> list[int]:
        return [token for word in SPLIT.findall(self._prefix + text) for token in self._word(word)]

    def _word(self, word: str) -> list[int]:
        if word not in self._cache:
            parts = self._merge([self._char[b] for b in word.encode("utf-8")])
            self._cache[word] = [self._vocab[part] for part in parts if part in self._vocab]
        return self._cache[word]

    def _merge(self, parts: list[str]) -> list[str]:
        """Joins neighbours, the earliest learned pair first."""
        while len(parts) > 1:
            ranks = [self._rank.get(pair, len(self._rank)) for pair in pairwise(parts)]
            best = min(ranks)
            if best == len(self._rank):
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts

    def decode(self, tokens: list[int]) -> str:
        chars = "".join(self._text.get(token, "") for token in tokens)
        return bytes(self._byte[c] for c in chars if c in self._byte).decode("utf-8", "replace")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TileProbeError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise TileProbeError(f"{path}: expected a JSON object, found {type(data).__name__}")
    return data


def load_tokenizer(folder: Path, vocab: int) -> Tokenizer:
    """The folder's tokenizer, checked against the model's vocabulary."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise TileProbeError(f"{folder}: no tokenizer.json in it, so text cannot be read or written")
    _read_json(path)
    try:
        tokenizer: Tokenizer = LibraryTokenizer(path)
    except ModuleNotFoundError:
        tokenizer = BytePairTokenizer(path)
    if not 0 < tokenizer.size <= vocab:
        raise TileProbeError(
            f"{path} does not match the model: its tokens go up to {tokenizer.size - 1}, the model knows "
            f"{vocab} (vocab_size in config.json)"
        )
    return tokenizer

"""What a question is about: regions and lines that a word of the user's means."""

from __future__ import annotations


def lines_meant(word: str) -> range | None:
    """`31-34`, with or without a file and a colon in front, is lines; None where a word is none of that."""
    first, dash, last = word.rpartition(":")[2].partition("-")
    return range(int(first), int(last) + 1) if dash and first.isdigit() and last.isdigit() else None


def is_meant(word: str, name: str, file: str, first: int, last: int) -> bool:
    """Whether a region or line called so, which has these lines of a file, is meant: as a whole, or by its name."""
    lines = lines_meant(word)
    if lines is None:
        return word in name
    return first in lines and last in lines and file.endswith(word.rpartition(":")[0])

"""The plain reader of byte-level BPE against the `tokenizers` package, and without it."""

from __future__ import annotations

import json
import sys

import pytest
from functional_models import EXAMPLE
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.tokenizer import (
    BytePairTokenizer,
    LibraryTokenizer,
    load_tokenizer,
)

PLAIN = BytePairTokenizer(EXAMPLE / "tokenizer.json")


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(codec="ascii"), max_size=60))
def test_it_equals_the_package(text):
    pytest.importorskip("tokenizers")
    library = LibraryTokenizer(EXAMPLE / "tokenizer.json")
    tokens = PLAIN.encode(text)
    assert tokens == library.encode(text)
    assert PLAIN.decode(tokens) == library.decode(tokens) == text


@given(text=st.text(max_size=40))
def test_every_text_survives_the_round_trip(text):
    text = text.encode("utf-8", "replace").decode()
    assert PLAIN.decode(PLAIN.encode(text)) == text


def test_the_novels():
    pytest.importorskip("tokenizers")
    text = (EXAMPLE / "heldout.txt").read_text(encoding="utf-8")
    assert PLAIN.encode(text) == LibraryTokenizer(EXAMPLE / "tokenizer.json").encode(text)


def test_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert isinstance(load_tokenizer(EXAMPLE, 1024), BytePairTokenizer)
    data = json.loads((EXAMPLE / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps({**data, "pre_tokenizer": {"type": "Metaspace"}}))
    with pytest.raises(TileProbeError, match="pip install tokenizers"):
        load_tokenizer(tmp_path, 1024)

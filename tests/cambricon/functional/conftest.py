"""Folders of small models for the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from functional_models import CONFIGS, write_folder


@pytest.fixture(params=sorted(CONFIGS))
def family(request) -> str:
    return request.param


@pytest.fixture
def folder(tmp_path, family) -> Path:
    return write_folder(tmp_path / family, CONFIGS[family])


@pytest.fixture
def llama(tmp_path) -> Path:
    return write_folder(tmp_path / "llama", CONFIGS["llama"])

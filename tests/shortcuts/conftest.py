"""Digits that can be read off, in place of handwriting."""

from __future__ import annotations

from pathlib import Path

import pytest
from flat_digits import write_flat_digits


@pytest.fixture
def flat_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """VISIR_DATA points to a folder with such an MNIST; the folder of its files."""
    monkeypatch.setenv("VISIR_DATA", str(tmp_path / "data"))
    return write_flat_digits(tmp_path / "data")

"""The files of a model: when the hash over its weights begins, and that it is the same whenever it begins."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import tiny_transformers as tiny

from visir.encoders import load
from visir.encoders.models import hub
from visir.encoders.models.hub import ModelFiles


def hashing() -> bool:
    return any(thread.name.startswith("visir-hash") for thread in threading.enumerate())


def test_the_hash_begins_while_classes_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.save("clip", tmp_path / "model")
    expected = load(tmp_path / "model").card.weights
    begin, go_on = threading.Event(), threading.Event()
    hash_file = hub.hash_file

    def slow(path: Path) -> str:
        begin.set()
        assert go_on.wait(30)
        return str(hash_file(path))

    monkeypatch.setattr(hub, "hash_file", slow)
    files = ModelFiles(tmp_path / "model", None)
    files.hash_while_importing()
    assert begin.wait(30) and hashing()
    go_on.set()
    assert files.fingerprint == expected


def test_nothing_is_hashed_of_a_model_that_may_have_to_be_fetched_or_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.save("clip", tmp_path / "model")
    monkeypatch.setattr(hub, "hash_file", lambda path: pytest.fail(f"read {path}"))
    (tmp_path / "empty").mkdir()
    ModelFiles(tmp_path / "empty", None).hash_while_importing()
    ModelFiles(tmp_path / "model", "main", hub="somebody/model").hash_while_importing()
    monkeypatch.setattr(hub, "_SMALL", 1000)
    ModelFiles(tmp_path / "model", None).hash_while_importing()
    assert not hashing()

"""Manifests as tests read and change them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from visir.files import json_bytes
from visir.storage import MANIFEST, FileRecord, Manifest


def content_of(folder: Path) -> dict[str, Any]:
    """What `visir.json` says beside the files."""
    return dict(Manifest.read(folder).content)


def rewrite(folder: Path, content: Mapping[str, Any]) -> None:
    """Another content, properly sealed, as if visir had written it."""
    (folder / MANIFEST).write_bytes(replace(Manifest.read(folder), content=content).to_bytes())


def seal(folder: Path) -> None:
    """Checksums of what lies there: a folder may come from anybody."""
    manifest = Manifest.read(folder)
    files = {name: FileRecord.of(folder / name) for name in manifest.files}
    (folder / MANIFEST).write_bytes(replace(manifest, files=files).to_bytes())


def write_json(path: Path, value: Any) -> None:
    """A file of JSON, as anybody may write it."""
    path.write_bytes(json_bytes(value))

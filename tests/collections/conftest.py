"""Files for the readers' tests."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson
import pytest

Write = Callable[[str, object], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write text, bytes, JSON, a zip or a tar (a mapping of names to bytes) under the test's folder."""

    def do(name: str, content: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_bytes(content.encode())
        elif path.suffix == ".zip" and isinstance(content, Mapping):
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
                for member, data in content.items():
                    made.writestr(member, data)
        elif path.suffix == ".tar" and isinstance(content, Mapping):
            with tarfile.open(path, "w") as made:
                for member, data in content.items():
                    about = tarfile.TarInfo(member)
                    about.size = len(data)
                    made.addfile(about, io.BytesIO(data))
        else:
            path.write_bytes(orjson.dumps(content))
        return path

    return do

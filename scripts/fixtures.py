"""Small files of every format that visir writes and reads back, kept with the tests: tests/fixtures/edition-2.

    python scripts/fixtures.py                 write all of them again
    python scripts/fixtures.py result library  only these

Each fixture is one NAME.tar.xz with the file or folder inside. `tests/storage/test_fixtures.py` opens each one, and
changes the version of each to see that another version is refused with the next action. Run this script when a format
changes, and raise the format's version where another visir would misread it. `fixture_formats.py` lists the formats.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fixture_formats import FORMATS

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "edition-2"


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a fixture into a folder, and return the file or folder that it holds."""
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def write_fixtures(names: Iterable[str]) -> None:
    """Write fixtures again, and check that each can be read."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["VISIR_CACHE"] = str(Path(folder, "cache"))
            path = Path(folder, name)
            FORMATS[name].write(path)
            FORMATS[name].read(path)
            with tarfile.open(FIXTURES / f"{name}.tar.xz", "w:xz", preset=9) as archive:
                archive.add(path, name, filter=_plain)
        print(f"{name}: {(FIXTURES / f'{name}.tar.xz').stat().st_size / 1000:.1f} kB")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member without the user and the time of the machine that wrote it."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    write_fixtures(sys.argv[1:] or FORMATS)

"""Files of this edition open; a file of another version is refused with the next action. See scripts/fixtures.py."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from visir.errors import VisirError

ROOT = Path(__file__).parents[2]


sys.path.insert(0, str(ROOT / "scripts"))
SCRIPT: Any = importlib.import_module("fixtures")
FORMATS = sorted(SCRIPT.FORMATS)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))


def unpacked(name: str, folder: Path) -> Path:
    for package in SCRIPT.FORMATS[name].packages:
        pytest.importorskip(package)
    path: Path = SCRIPT.unpacked(name, folder)
    return path


def test_every_format_has_a_fixture_of_a_few_kilobytes() -> None:
    files = {path.name.removesuffix(".tar.xz"): path.stat().st_size for path in SCRIPT.FIXTURES.iterdir()}
    assert sorted(files) == FORMATS
    assert max(files.values()) < 25_000


@pytest.mark.parametrize("name", FORMATS)
def test_a_fixture_opens(name: str, tmp_path: Path) -> None:
    path = unpacked(name, tmp_path)
    try:
        SCRIPT.FORMATS[name].read(path)
    except VisirError as fault:
        # Objects of scikit-learn mean something else in another version of it.
        if name == "purchase-model" and "was trained with scikit-learn" in fault.message:
            pytest.skip(fault.message)
        raise


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("change", "age"), [(1, "a newer"), (-1, "an older")])
def test_another_version_is_refused_with_the_next_action(name: str, change: int, age: str, tmp_path: Path) -> None:
    path, fixture = unpacked(name, tmp_path), SCRIPT.FORMATS[name]
    other = fixture.version + change
    fixture.set_version(path, other)
    before = shutil.make_archive(str(tmp_path / "before"), "tar", tmp_path, name)
    expected = rf"written by {age} visir \(.+, version {other}; this one reads {fixture.version}\)"
    with pytest.raises(VisirError, match=expected) as caught:
        fixture.read(path)
    assert caught.value.hint, "the next action"
    assert (caught.value.hint == "update visir") == (change == 1)
    after = shutil.make_archive(str(tmp_path / "after"), "tar", tmp_path, name)
    assert Path(before).read_bytes() == Path(after).read_bytes(), "a file that is refused stays as it is"

"""The Python of the pages for people who come from another toolkit runs, where that toolkit is installed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from photo_toys import photos_and_clip

FOLDER = Path(__file__).parent.parent / "docs" / "coming-from"
PACKAGES = {"open_clip": "open_clip", "sentence-transformers": "sentence_transformers", "ranx": "ranx"}
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = photos_and_clip(tmp_path_factory.mktemp("peers"))
    shutil.copytree(folder / "clip", folder / "openai" / "clip-vit-base-patch32")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_page_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.stem in PACKAGES:
        pytest.importorskip(PACKAGES[page.stem])
    monkeypatch.chdir(folder)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_has_ten_things_and_says_what_visir_does_not_do(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    table = text.partition("here you write |")[2].partition("\n\n")[0]
    assert table.count("\n") == 11  # the rule and ten rows
    assert "that visir does not" in text and "## What is the same" in text and "## What differs" in text

"""The Python of docs/how-to/classify.md runs, from its first block to its last."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from photo_toys import photos_and_clip

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "classify.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    photos_and_clip(tmp_path)
    photos = sorted((tmp_path / "photos").iterdir())
    for number, photo in enumerate(photos[:18]):
        place = tmp_path / "data" / ("train" if number < 9 else "test") / ("fox", "owl", "snail")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        (place / photo.name).write_bytes(photo.read_bytes())
    (tmp_path / "my-templates.txt").write_text("a photo of a {}.\na {} outside.\n")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for number, (_, block) in enumerate(blocks, 1):
        exec(compile(textwrap.dedent(block), f"classify.md, block {number}", "exec"), names)
    assert (tmp_path / "labels.csv").is_file() and (tmp_path / "runs" / "classes" / "classification.html").is_file()

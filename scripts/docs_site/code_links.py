"""Links into the code: `[search](../../src/visir/retrieval/exact.py#search)` works beside the sources; on the site it
becomes the file and the line."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:src/visir|papers/src/visir_papers)/[\w./-]+)(?:#([\w.]+))?\)")


def with_places(markdown: str) -> str:
    """The page with every link into the code as text: "`search` (retrieval/exact.py:66)"."""
    return LINK.sub(_place, markdown)


def _place(link: re.Match[str]) -> str:
    text, place, name = link.groups()
    path = ROOT / place
    short = place.removeprefix("papers/").removeprefix("src/").removeprefix("visir/").rstrip("/")
    if not path.exists():
        raise FileNotFoundError(f"{place}: a document links to it")
    if name:
        pattern = re.compile(rf"\s*(?:class|def) {name.rpartition('.')[2]}\b|{name}\b\s*[:=]")
        lines = path.read_text(encoding="utf-8").splitlines()
        short += f":{next(number for number, line in enumerate(lines, 1) if pattern.match(line))}"
    return f"`{short}`" if path.name == text.strip("`") else f"{text} (`{short}`)"

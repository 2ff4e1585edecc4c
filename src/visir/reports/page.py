"""A page: one HTML file made of sections, which fetches nothing and runs nothing.

A report is a function that lists the sections of its page. The looks are in `templates/page.html.j2`, which has one
macro per kind of block, and in `templates/page.css`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from visir.reports.blocks import Block, Inline
from visir.reports.formats import to_html
from visir.storage import write_new

_SEAL = b"<!-- written by visir, "
_END = b" -->\n"


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading."""

    anchor: str  # its id, to which the navigation links
    title: str  # the heading
    blocks: Sequence[Block]  # what stands in it
    short: str = ""  # what the navigation calls it; the heading by default


@dataclass(frozen=True)
class Page:
    """A page of sections."""

    kind: str  # what kind of page it is, in a word or two ("evaluation report")
    title: str  # the heading of the page
    sections: Sequence[Section]  # its sections, in order
    facts: Sequence[Inline] = ()  # what stands below the heading, side by side


def write_page(path: str | Path, page: Page, *, replace: bool = False) -> Path:
    """Write a page as a single HTML file that needs no network, no script and no other file."""
    # The file follows the reader's light or dark theme. The same page gives the same bytes. Every text is escaped. The
    # file ends in a seal over its content, so that a page of visir's that nobody has changed since can be written
    # again.
    write_new(path, page_bytes(page), replace=replace or is_unchanged_page(Path(path)))
    return Path(path)


def page_bytes(page: Page) -> bytes:
    """The page as bytes, with its seal."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("visir.reports", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["html_table"] = lambda table: Markup(to_html(table))
    data = environment.get_template("page.html.j2").render(page=page).encode("utf-8")
    data = data if data.endswith(b"\n") else data + b"\n"
    return data + _seal(data)


def is_unchanged_page(path: Path) -> bool:
    """Whether a file is a page that visir wrote and nobody has changed since."""
    if not path.is_file() or path.is_symlink():
        return False
    data = path.read_bytes()
    content, seal, _ = data.rpartition(_SEAL)
    return bool(seal) and data == content + _seal(content)


def _seal(data: bytes) -> bytes:
    return _SEAL + hashlib.blake2b(data, digest_size=16).hexdigest().encode() + _END

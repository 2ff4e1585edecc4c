"""A page: one HTML file from a template and its values, with nothing fetched from anywhere."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from visir.storage import write_new

ROOM = "visir.reports"
_SEAL = b"<!-- written by visir, "
_END = b" -->\n"


def write_page(path: str | Path, template: str, *, room: str = ROOM, replace: bool = False, **values: Any) -> Path:
    """Fill a template and write it; every value is escaped unless the template says safe.

    The same values give the same bytes. A page ends in a seal over its content, so that a page of visir's that nobody
    has changed since can be written again.

    Args:
        path: Where to.
        template: The name of the template.
        room: The package in whose folder `templates` it lies; it may include those of `visir.reports`.
        replace: Whether the page may take the place of any other file.
        values: What the template asks for.

    Raises:
        FolderError: There is a file already that is no unchanged page of visir's.
    """
    write_new(path, page_bytes(template, room=room, **values), replace=replace or is_unchanged_page(Path(path)))
    return Path(path)


def page_bytes(template: str, *, room: str = ROOM, **values: Any) -> bytes:
    """The page as bytes, with its seal."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(one, "templates") for one in dict.fromkeys((room, ROOM))]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    data = environment.get_template(template).render(**values).encode("utf-8")
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

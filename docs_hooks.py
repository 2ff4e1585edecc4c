"""Tables of the documentation that are printed from the code's own data, so that they are never written twice.

A page holds a line `<!-- table: NAME -->`; this hook puts the table there when the docs are built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace every table marker of a page; an unknown name stops the build."""
    return re.sub(r"<!-- table: ([\w-]+) -->", lambda found: TABLES[found.group(1)](), markdown)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Iterable[str]) -> str:
        return (
            "| "
            + " | ".join(cell.replace("<", "&lt;").replace("|", "\\|").replace("\n", "<br>") for cell in cells)
            + " |"
        )

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def _families() -> str:
    from visir.encoders.families import every_family

    return _table(
        ("family", "name it as", "example", "needs"),
        (
            (f.title, f"`{f.form}`", f"`{f.example}`", f"`visir[{f.extra}]`" if f.extra else "core")
            for f in every_family()
        ),
    )


def _measures() -> str:
    from visir.evaluation.measures import MEASURES

    return _table(
        ("name", "what it is", "formula", "papers on image–caption retrieval call it", "source"),
        ((f"`{m.pattern}`", m.says, m.formula, m.papers, m.source) for _, m in MEASURES.items()),
    )


def _formats() -> str:
    from visir.collections.formats import FORMATS

    return _table(
        ("format", "what it is", "layout"),
        ((f"`{name}`", f.title, f.layout) for name, f in FORMATS.items()),
    )


def _judgements() -> str:
    from visir.collections.formats import JUDGEMENTS

    return _table(
        ("judgements", "what they are", "layout", "sets"),
        ((f"`{name}`", j.title, j.layout, str(j.sets)) for name, j in JUDGEMENTS.items()),
    )


TABLES: dict[str, Callable[[], str]] = {
    "families": _families,
    "measures": _measures,
    "formats": _formats,
    "judgements": _judgements,
}

"""The hooks that MkDocs calls. Each part of the work has a file beside this one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs_site import code_links, tables


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the tables, then turn links into the code into places."""
    return code_links.with_places(tables.filled(markdown))

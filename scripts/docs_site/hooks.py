"""The hooks that MkDocs calls. Each part of the work has a file beside this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.append(str(Path(__file__).parents[1]))

from docs_site import (
    code_links,
    commands,
    environment,
    http_api,
    protocol_fields,
    python_pages,
    tables,
    tutorial_pages,
    tutorials,
)

GENERATED: dict[str, str] = {}
OUTPUTS: dict[str, dict[str, str]] = {}


def on_config(config: Any, **_: Any) -> Any:
    """Make the generated pages, and put them where the navigation says "generated: FOLDER"."""
    GENERATED.clear()
    for made in (commands.pages, python_pages.pages, protocol_fields.page, environment.page, http_api.page):
        GENERATED.update(made())
    config.nav = _with_generated(config.nav)
    return config


def _with_generated(nav: Any) -> Any:
    if isinstance(nav, list):
        return [_with_generated(one) for one in nav]
    if isinstance(nav, dict):
        return {title: _with_generated(one) for title, one in nav.items()}
    if isinstance(nav, str) and nav.startswith("generated: "):
        folder = nav.removeprefix("generated: ")
        return [path for path in GENERATED if path.startswith(f"{folder}/")]
    return nav


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add what is generated: pages, and every tutorial as a notebook."""
    for path, text in GENERATED.items():
        files.append(File.generated(config, path, content=text))
    for page in tutorials.every_tutorial():
        files.append(File.generated(config, f"tutorials/{page.stem}.ipynb", content=tutorials.as_ipynb(page)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Run a tutorial; fill the tables; turn links into the code into places."""
    path = Path(page.file.abs_src_path or "")
    if path in tutorials.every_tutorial():
        skip = os.environ.get("TUTORIALS") == "skip"
        notebook = tutorials.notebook(path) if skip else tutorials.executed(path)
        markdown, OUTPUTS[page.file.src_uri] = tutorial_pages.as_markdown(notebook, path.stem)
    return code_links.with_places(tables.filled(markdown))


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the outputs of a tutorial where its marks are."""
    for mark, output in OUTPUTS.pop(page.file.src_uri, {}).items():
        html = html.replace(mark, output)
    return html

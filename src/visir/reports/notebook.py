"""What a notebook shows of an object: its blocks as one piece of HTML that needs nothing else.

Colours are those of the notebook around it, light or dark: no background is set, and what is faint is a mixture of the
text's own colour. The style sheet applies to nothing outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from visir.reports.blocks import Block
from visir.reports.formats import to_html

if TYPE_CHECKING:
    import jinja2

PICTURES = 24
"""How many pictures are shown at most."""
BUDGET = 240_000
"""How many bytes all pictures of one output may take together."""


def to_notebook(blocks: Sequence[Block], label: str) -> str:
    """The blocks as HTML for the output of a notebook's cell; every text is escaped."""
    return _environment().get_template("notebook.html.j2").render(blocks=blocks, label=label)


@cache
def _environment() -> jinja2.Environment:
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
    return environment

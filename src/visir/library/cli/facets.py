"""`visir library facets`: how many items have each brand, lie in each category, cost how much."""

from __future__ import annotations

from typing import Annotated

import typer

from visir.cli import output
from visir.cli.verbs import examples
from visir.display import cut
from visir.library.cli.parts import LibraryFolder
from visir.library.query_help import QUERY_HELP

_WIDEST = 80
"""Longer values are cut in the table that is printed; `--json` has them whole."""


@examples(
    "visir library facets shop.visir",
    "visir library facets shop.visir --where 'price < 50' --field brand",
    "visir library facets shop.visir 'red dress under 50'",
)
def facets(
    library: LibraryFolder,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Count what these words find. Default: everything.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="CONDITION", help='A condition: "price < 50" … Repeatable.')
    ] = None,
    category: Annotated[str | None, typer.Option(help=QUERY_HELP["category"])] = None,
    field: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="Only this field. Repeatable. Default: those that group.")
    ] = None,
) -> None:
    """Count how many items have each brand, lie in each category, cost how much.

    A field is counted without the conditions on itself, so that other choices can be compared; it says so.
    """
    from rich.table import Table

    from visir.library.layout import check_first_update_done
    from visir.library.searcher import Searcher

    check_first_update_done(library)
    with Searcher.open(library, once=True) as searcher:
        opened = searcher.library
        counted = searcher.facets({"text": text, "where": where or (), "category": category}, field)
        output.answer({"library": opened.name, **counted.to_dict()})
        table = Table("field", "value", "items", show_edge=False)
        for facet in counted.facets:
            for place, value in enumerate(facet.values):
                table.add_row("" if place else facet.field, cut(value.label, _WIDEST), f"{value.count:,}")
            if facet.left_out:
                table.add_row("", f"(without {' and '.join(map(str, facet.left_out))})", "")
            if facet.more:
                table.add_row("", f"and {facet.more:,} more", "")
        output.rich_table(table)
        means = {"all": "", "found": " found", "ranked": " ranked"}[counted.of]
        output.note(f"{counted.total:,} of {len(opened):,} {opened.card.unit}{means}")

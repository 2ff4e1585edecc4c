"""What the verbs that run recipes have in common: options, and the list of recipes."""

from __future__ import annotations

from typing import Annotated

import typer

from visir.cli import output
from visir.cli.headings import heading
from visir.terminal import safe

DataOption = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="COLLECTION", help="A collection: pictures and captions to learn from, in any known format."
    ),
]
EpochsOption = Annotated[int | None, typer.Option(min=1, help="How often every caption, or every product, is seen.")]
BatchOption = Annotated[int | None, typer.Option(min=2, help="How many pairs a step compares with one another.")]
SplitByOption = Annotated[
    str | None,
    typer.Option(
        metavar="RULE", help="How pictures are divided: “random(train=0.9, val=0.1, seed=0)”. Default: their splits."
    ),
]


def print_recipes(verb: str, within: str | None = None) -> None:
    """Print the recipes of a verb under their headings; of tables of papers only how many, unless they are asked for.

    Args:
        verb: "train" or "sparsify".
        within: Part of a name or of a heading: only these, all with their titles.
    """
    from visir.training.shipped import GROUPS, recipes

    chosen = recipes(verb, within)
    output.answer([{"name": recipe.name, "title": recipe.title, "group": recipe.group} for recipe in chosen])
    if output.wants_json():
        return
    for group in chosen.groups:
        members = [recipe for recipe in chosen if recipe.group == group]
        heading(GROUPS[group])
        if GROUPS[group].startswith("Papers") and within is None:
            output.line(f"  {len(members)} recipes: visir {verb} {group} --list")
        else:
            width = max(len(recipe.name) for recipe in members)
            for recipe in members:
                output.line(safe(f"  {recipe.name:<{width}}  {recipe.title}"))
    if within is None:
        output.line(f"\nEverything that a recipe says: visir {verb} NAME --dry-run")

"""Options and arguments that several verbs take, each declared once, and how their values are read."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION",
        help="A file or folder in any known format, FORMAT:PATH, or scenes:2000.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str, typer.Option("--model", "-m", help="A model: a hub name, a checkpoint folder, …", show_default=False)
]
SplitOption = Annotated[str | None, typer.Option(help="The split, or several: train+val. Default: everything.")]
ImagesOption = Annotated[
    list[str] | None,
    typer.Option("--images", "-i", help="Where the pictures are: folder, zip, tar; or none (repeatable)."),
]
GalleryOption = Annotated[str, typer.Option(help="Candidates: of the split, or of the whole collection.")]
RecallOption = Annotated[str, typer.Option(help="What R@k and rsum mean: hit, recall, capped_recall.")]
SkipBrokenOption = Annotated[
    bool, typer.Option("--skip-broken", help="Set images aside that cannot be read, and count them.")
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps, … Default: the best there is.")]
DtypeOption = Annotated[str, typer.Option(help="Arithmetic of the forward pass: float32, bfloat16, float16.")]
BatchSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Inputs per forward pass. Default: the model's own.", show_default=False)
]


def name_value_pairs(
    assignments: list[str] | None, option: str = "--set", hint: str = "visir index kinds lists them"
) -> dict[str, Any]:
    """The values of a repeatable option NAME=VALUE, by name, with "_" for "-".

    Args:
        assignments: The texts as written.
        option: What the option is called, for errors.
        hint: Where the names are listed.

    Raises:
        ConfigurationError: Listing every text without a value, and every name that is given twice.

    Example:
        >>> name_value_pairs(["ef-search=64"])
        {'ef_search': '64'}
    """
    from visir.options import parse_pairs

    pairs = parse_pairs(assignments or [], option, hint=hint)
    return {name.replace("-", "_"): value for name, value in pairs.items()}


def single_or_all(values: list[str] | None) -> Any:
    """The value of an option that was given once; all values where it was repeated; None where it was not given.

    Example:
        >>> single_or_all(["photos"]), single_or_all(["a.tar", "b.tar"]), single_or_all(None)
        ('photos', ['a.tar', 'b.tar'], None)
    """
    return values[0] if values and len(values) == 1 else values or None


def command_line() -> str:
    """The command line of this process, so that a report says how to make it again."""
    return shlex.join(["visir", *sys.argv[1:]])

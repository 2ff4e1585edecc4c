"""`visir search`: search a library, or a collection, with words or with a picture.

The options are those of the search in a collection (`visir.cli.search`), and those that a library alone takes.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli.search import search as search_collection
from visir.library.query_help import QUERY_HELP

_LIBRARY: Any = {"rich_help_panel": "In a library"}


def _library_options(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="LIBRARY|COLLECTION",
            help="What visir library make made, a folder of photos, or any known format.",
            show_default=False,
        ),
    ],
    image: Annotated[
        Path | None, typer.Option(help="Look for what fits this picture, instead of a text; a library takes both.")
    ] = None,
    like: Annotated[str | None, typer.Option("--like", help=QUERY_HELP["like"], **_LIBRARY)] = None,
    text_weight: Annotated[
        float | None, typer.Option(help=f"{QUERY_HELP['text_weight']} Default: 0.5", **_LIBRARY)
    ] = None,
    system: Annotated[str | None, typer.Option(help=QUERY_HELP["system"], **_LIBRARY)] = None,
    fusion: Annotated[str | None, typer.Option(help=f"{QUERY_HELP['fusion']} Default: rrf", **_LIBRARY)] = None,
    weight: Annotated[float | None, typer.Option(help=f"{QUERY_HELP['weight']} Default: 0.5", **_LIBRARY)] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help='A condition: "width >= 800", "taken >= 2024-05", "camera contains canon" …', **_LIBRARY),
    ] = None,
    category: Annotated[str | None, typer.Option(help=QUERY_HELP["category"], **_LIBRARY)] = None,
    offset: Annotated[int | None, typer.Option(min=0, help=QUERY_HELP["offset"], **_LIBRARY)] = None,
    rerank: Annotated[int | None, typer.Option(min=0, help=QUERY_HELP["rerank"], **_LIBRARY)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the service would answer.", **_LIBRARY)] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Show thumbnails where the terminal can.", **_LIBRARY)
    ] = True,
) -> None:
    """The options that a library takes: its own, and those of a collection that say something else here."""


_COLLECTION_OPTIONS = inspect.signature(search_collection, eval_str=True).parameters
_LIBRARY_OPTIONS = inspect.signature(_library_options, eval_str=True).parameters
_SHARED = {"collection", "text", "image", "k", "device"}


def search(context: typer.Context, **options: Any) -> None:
    """Find images (or captions) by a text, or by a picture: ranked, with scores and where the pictures are.

    In a library (visir library make PLACE --model M) it takes a moment; a collection is encoded first. With a model of
    weighted words (visir sparsify) the terms that matched are shown, and how much each gave.
    """
    from visir.collections.opening import COLLECTIONS
    from visir.collections.sources import find_source
    from visir.errors import ConfigurationError, raise_faults
    from visir.library.layout import check_first_update_done, is_library

    place = options["collection"]
    check_first_update_done(Path(place))
    in_library = is_library(place)
    if not in_library and "://" not in place:
        find_source(place, COLLECTIONS)  # a place that does not exist is the first thing to say
    if in_library:
        kind = "a library, which has its own models and pictures"
        wrong = _COLLECTION_OPTIONS.keys() - _SHARED
    else:
        kind = "no library (visir library make PLACE --model M)"
        wrong = _LIBRARY_OPTIONS.keys() - _SHARED - {"pictures"}
    faults = [f"{flag}: {place} is {kind}" for flag in _flags_given(context, wrong)]
    raise_faults(ConfigurationError, "search", faults, hint="leave it out")
    if in_library:
        from visir.library.cli.search_library import search_library

        search_library(Path(place), options)
    else:
        search_collection(**{name: options[name] for name in _COLLECTION_OPTIONS})


def _flags_given(context: typer.Context, names: set[str]) -> list[str]:
    """The options of these names that the command line gives, as it writes them: "--like"."""
    flags = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            flags.append(max(parameter.opts, key=len))
    return flags


_OPTIONS = {**_COLLECTION_OPTIONS, **_LIBRARY_OPTIONS}
_CONTEXT = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
# typer reads the options of a verb from its signature: both lists, each written once.
search.__signature__ = inspect.Signature([_CONTEXT, *_OPTIONS.values()])  # type: ignore[attr-defined]
search.__annotations__ = {name: option.annotation for name, option in {"context": _CONTEXT, **_OPTIONS}.items()}

"""`visir search`, also for libraries, and `visir library search` with all that a library can be asked."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli.completion import of
from visir.cli.options import CountOption, DeviceOption
from visir.cli.search import search as search_collection
from visir.cli.verbs import examples
from visir.library.cli.parts import LibraryFolder
from visir.library.query_help import QUERY_HELP

_FILTERS, _SYSTEMS = "Filters", "How it is searched"


@examples(
    "visir library search photos.visir 'a red car'",
    "visir library search photos.visir 'at night' --image beach.jpg",
    "visir library search photos.visir 'a dog' --where 'width >= 800' --where 'taken >= 2024-05'",
)
def search_in_library(
    library: LibraryFolder,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")] = None,
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Look for what fits this picture, beside or instead of a text.")
    ] = None,
    like: Annotated[str | None, typer.Option(metavar="PICTURE", help=QUERY_HELP["like"])] = None,
    k: CountOption = 10,
    offset: Annotated[int | None, typer.Option(min=0, metavar="N", help=QUERY_HELP["offset"])] = None,
    thumbnails: Annotated[
        bool, typer.Option("--thumbnails/--no-thumbnails", help="Show pictures where the terminal can.")
    ] = True,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help='A condition: "width >= 800", "taken >= 2024-05", "camera contains canon" … Repeatable.',
            rich_help_panel=_FILTERS,
        ),
    ] = None,
    category: Annotated[str | None, typer.Option(help=QUERY_HELP["category"], rich_help_panel=_FILTERS)] = None,
    read_prices: Annotated[
        bool | None,
        typer.Option("--read-prices/--no-read-prices", help=QUERY_HELP["read_prices"], rich_help_panel=_FILTERS),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--search-by",
            help=QUERY_HELP["by"],
            rich_help_panel=_SYSTEMS,
            autocompletion=of("words", "vectors", "both"),
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            help=QUERY_HELP["system"], rich_help_panel=_SYSTEMS, autocompletion=of("dense", "sparse", "hybrid")
        ),
    ] = None,
    text_weight: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help=f"{QUERY_HELP['text_weight']} Default: 0.5", rich_help_panel=_SYSTEMS),
    ] = None,
    fusion: Annotated[
        str | None,
        typer.Option(help=QUERY_HELP["fusion"], rich_help_panel=_SYSTEMS, autocompletion=of("rrf", "weighted")),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help=QUERY_HELP["weight"], rich_help_panel=_SYSTEMS),
    ] = None,
    rerank: Annotated[
        int | None,
        typer.Option("--rerank-top", min=0, metavar="N", help=QUERY_HELP["rerank"], rich_help_panel=_SYSTEMS),
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Search a library with words, a picture, or both, among all pictures or those that pass filters."""
    from visir.library.cli.search_library import search_library
    from visir.library.layout import check_first_update_done

    check_first_update_done(library)
    search_library(library, locals())


def search(context: typer.Context, **options: Any) -> None:
    """As `search` of a collection, and a library is searched by its own model."""
    from visir.errors import ConfigurationError, raise_faults
    from visir.library.layout import check_first_update_done, is_library

    place = options["collection"]
    check_first_update_done(Path(place))
    if not is_library(place):
        if "://" not in place:
            from visir.collections.opening import COLLECTIONS
            from visir.collections.sources import find_source

            find_source(place, COLLECTIONS)  # a place that does not exist is the first thing to say
        else:
            from visir.collections.own_folders import check_no_own_folder

            check_no_own_folder(place)
        search_collection(**options)
        return
    faults = [f"{flag}: {place} is a library, which has its own model and pictures" for flag in _not_for_it(context)]
    raise_faults(ConfigurationError, "search", faults, hint=f"leave it out; more options: visir library search {place}")
    from visir.library.cli.search_library import search_library

    shared = {name: options[name] for name in _SHARED}
    others = dict.fromkeys(inspect.signature(search_in_library).parameters.keys() - _SHARED)
    search_library(Path(place), {**others, "thumbnails": True, **shared})


_SHARED = {"text", "image", "k", "device"}


def _not_for_it(context: typer.Context) -> list[str]:
    """The options of the command line that a library does not take, as they are written: "--split"."""
    flags = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        is_given = source is not None and source.name == "COMMANDLINE"
        if is_given and parameter.name not in {*_SHARED, "collection", "as_json", "quiet"}:
            flags.append(max(parameter.opts, key=len))
    return flags


# typer reads the options of a verb from its signature: those of the search in a collection, which are written once.
_CONTEXT = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
_PARAMETERS = [_CONTEXT, *inspect.signature(search_collection, eval_str=True).parameters.values()]
search.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
search.__annotations__ = {item.name: item.annotation for item in _PARAMETERS}
search.__doc__ = search_collection.__doc__
search.examples = search_collection.examples  # type: ignore[attr-defined]

"""`visir search`: ask a library, or a collection, in words or with a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli.search import Answers, Count, Device, Images, IndexFolder, Model, Query, SkipBroken, Split
from visir.cli.search import search as search_collection

_HERE: Any = {"rich_help_panel": "In a library"}


def search(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="LIBRARY|COLLECTION",
            help="What visir index made, a folder of photos, or any known format.",
            show_default=False,
        ),
    ],
    query: Query = None,
    model: Model = "",
    image: Annotated[
        Path | None, typer.Option(help="Look for what fits this picture, instead of a text; a library takes both.")
    ] = None,
    k: Count = 10,
    index: IndexFolder = None,
    to: Answers = None,
    split: Split = None,
    images: Images = None,
    device: Device = None,
    skip_broken: SkipBroken = False,
    like: Annotated[
        str | None, typer.Option(help="Look for pictures like this one of the library: its path, name or id.", **_HERE)
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Part of the text beside a picture, 0 to 1. Default: 0.5", **_HERE)
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="dense, sparse or hybrid. Default: dense, if there.", **_HERE)
    ] = None,
    fusion: Annotated[
        str | None, typer.Option(help="How hybrid joins the two: rrf or weighted. Default: rrf", **_HERE)
    ] = None,
    weight: Annotated[float | None, typer.Option(help="Part of dense in weighted. Default: 0.5", **_HERE)] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help='A condition: "width >= 800", "taken >= 2024-05", "camera contains canon" …', **_HERE),
    ] = None,
    category: Annotated[
        str | None, typer.Option(help="Only this folder or category, with what lies below it.", **_HERE)
    ] = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many of the first answers.", **_HERE)] = 0,
    rerank: Annotated[
        int, typer.Option(min=0, help="Put so many of the best in order by the model's matching head.", **_HERE)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the service would answer.", **_HERE)] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Show thumbnails where the terminal can.", **_HERE)
    ] = True,
) -> None:
    """Find images (or captions) by a text, or by a picture: ranked, with scores and where the pictures are.

    In a library (visir index PLACE --model M) it takes a moment; a collection is encoded first. With a model of
    weighted words (visir sparsify) the terms that matched are shown, and how much each gave.
    """
    from visir.collections.open import COLLECTIONS
    from visir.collections.sources import find_source
    from visir.errors import ConfigurationError, raise_faults
    from visir.library.cli.search_library import SearchOptions, search_library
    from visir.library.layout import check_first_update_done, is_library

    asked = SearchOptions(query, image, like, share, system, fusion, weight, where or (), category, k, offset, rerank,
                          device, as_json, pictures)  # fmt: skip
    check_first_update_done(Path(collection))
    here = is_library(collection)
    if not here and "://" not in collection:
        find_source(collection, COLLECTIONS)  # a place that is not there is the first thing to say
    elsewhere = {"--model": model or None, "--index": index, "--to": to, "--split": split, "--images": images,
                 "--skip-broken": skip_broken or None}  # fmt: skip
    unfit = [name for name, value in elsewhere.items() if value is not None] if here else asked.only_here()
    what = "a library, which has its own models and pictures" if here else "no library (visir index PLACE --model M)"
    raise_faults(ConfigurationError, "search", [f"{one}: {collection} is {what}" for one in unfit], hint="leave it out")
    if here:
        search_library(Path(collection), asked)
    else:
        search_collection(collection, query, model, image, k, index, to, split, images, device, skip_broken)

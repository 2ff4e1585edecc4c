"""`visir library`: photos made searchable, kept up to date, searched and served. One file per verb."""

from __future__ import annotations

from visir.cli.verbs import group
from visir.library.cli.make import check, info, make, update, watch
from visir.library.cli.search import search_in_library
from visir.library.cli.serve import app as token
from visir.library.cli.serve import duplicates, facets, serve

app = group(
    "library",
    "Photos made searchable, kept up to date, searched and served.",
    {
        "make": make,
        "search": search_in_library,
        "serve": serve,
        "update": update,
        "watch": watch,
        "info": info,
        "facets": facets,
        "duplicates": duplicates,
        "check": check,
    },
)
app.add_typer(token, name="token")

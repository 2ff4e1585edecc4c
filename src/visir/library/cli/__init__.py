"""`visir library`: photos made searchable, kept up to date, searched and served. One file per verb."""

from __future__ import annotations

from visir.cli.verbs import group
from visir.library.cli.check import check
from visir.library.cli.duplicates import duplicates
from visir.library.cli.facets import facets
from visir.library.cli.info import info
from visir.library.cli.make import make
from visir.library.cli.search import search_in_library
from visir.library.cli.serve import serve
from visir.library.cli.token import app as token
from visir.library.cli.update import update, watch

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

"""`visir library`: photos made searchable, kept up to date and served."""

from __future__ import annotations

from visir.cli.verbs import group
from visir.library.cli.make import check, info, make, update, watch
from visir.library.cli.serve import app as token
from visir.library.cli.serve import duplicates, facets, serve

app = group(
    "library",
    "Photos made searchable, kept up to date and served; visir search searches them.",
    {
        "make": make,
        "serve": serve,
        "update": update,
        "watch": watch,
        "info": info,
        "facets": facets,
        "duplicates": duplicates,
        "check": check,
        "token": token,
    },
)

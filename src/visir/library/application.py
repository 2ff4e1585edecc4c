"""What libraries add to visir."""

from __future__ import annotations

from visir.applications import Application, Verb

APPLICATION = Application(
    "library",
    verbs=(
        Verb("index", "visir.library.cli.index:app", extends=True),
        Verb("search", "visir.library.cli.search:search", extends=True),
        Verb("serve", "visir.library.cli.serve:serve", after="search"),
        Verb("token", "visir.library.cli.token:app"),
    ),
)

"""What libraries add to visir."""

from __future__ import annotations

from visir.plugins import Application, Verb

APPLICATION = Application(
    "library",
    verbs=(
        Verb("library", "visir.library.cli:app", group="find", after="search"),
        Verb("search", "visir.library.cli.search:search", extends=True),
    ),
    views={
        "DuplicatePictures": "visir.library.views",
        "ExplainedPicture": "visir.library.views",
        "Library": "visir.library.views",
        "LibraryPicture": "visir.library.views",
        "LibraryResults": "visir.library.views",
    },
)

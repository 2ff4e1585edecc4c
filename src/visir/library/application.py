"""What libraries add to visir."""

from __future__ import annotations

from visir.plugins import Application, Verb

APPLICATION = Application(
    "library",
    verbs=(
        Verb("search", "visir.library.cli.search:search", group="find"),
        Verb("library", "visir.library.cli:app", group="find"),
    ),
    views={
        "DuplicatePictures": "visir.library.views",
        "ExplainedPicture": "visir.library.views",
        "Library": "visir.library.views",
        "LibraryPicture": "visir.library.views",
        "LibraryResults": "visir.library.views",
    },
)

"""What the product side adds to visir."""

from __future__ import annotations

from visir.applications import Application, Verb

APPLICATION = Application(
    "products",
    verbs=(Verb("categories", "visir.products.cli:app"),),
    acts={"categories": "visir.products.experiments.categories:Categories"},
    formats={"Catalogues": "visir.products.formats:FORMATS"},
    shapes={"figure-7-2": "visir.products.experiments.shapes:figure_7_2"},
)

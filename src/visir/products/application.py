"""What the product side adds to visir."""

from __future__ import annotations

from visir.plugins import Application, Verb

APPLICATION = Application(
    "products",
    verbs=(Verb("products", "visir.products.cli:app", group="shop"),),
    formats={"Catalogues": "visir.products.opening:FORMATS"},
    views={
        "CategoryEvaluation": "visir.products.reports.evaluation",
        "InferredCategories": "visir.products.reports.inferred_view",
        "LandingPage": "visir.products.reports.landing",
        "ProductAnswer": "visir.products.reports.search",
    },
)

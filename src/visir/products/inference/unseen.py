"""Which products a trained model has not learnt from: only those can calibrate its confidences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError
from visir.products.draft import UNCATEGORISED
from visir.products.split import folds
from visir.records.catalogue import Catalogue

MOST_FOLDS = 10


def unseen_products(catalogue: Catalogue, folder: str | Path) -> NDArray[np.bool_] | None:
    """Return the products that were left out when a model was trained, as its folds say."""
    # Returns: (n,) bool in the order of the products; None where the model was trained on other products.
    from visir.products.model.trained import load_categories_model

    trained_on = load_categories_model(folder).facts.get("trained_on", {}).get("catalogue")
    has_category = pc.not_equal(catalogue.products["category_id"], UNCATEGORISED)
    part = catalogue.keep_products(has_category)
    names = part.categories.filter(pc.not_equal(part.categories["id"], UNCATEGORISED))
    labelled = Catalogue(part.name, part.products, part.attributes, names, part.root)
    for n in (5, *(n for n in range(2, MOST_FOLDS + 1) if n != 5)):
        try:
            splits = folds(labelled, n)
        except ConfigurationError:  # too few products for so many folds
            continue
        for split in splits:
            if labelled.keep_products(split.train).fingerprint == trained_on:
                left_out = labelled.products["id"].filter(pa.array(split.test)).combine_chunks()
                return np.asarray(pc.is_in(catalogue.products["id"], left_out).to_numpy())
    return None

"""Category models that cells need: each trained once for all studies, resumed where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from visir.fingerprint import hash_json
from visir.studies.experiment import ExperimentContext

if TYPE_CHECKING:
    from visir.products.model.recipe import CategoriesRecipe
    from visir.products.split import Split
    from visir.records.catalogue import Catalogue


def category_models(
    recipe: CategoriesRecipe, catalogue: Catalogue, splits: Sequence[Split], context: ExperimentContext
) -> list[Path]:
    """The folders of the trained models, one for each split, in their order (`visir products train`)."""
    # A folder is named by the recipe, the catalogue and the split, so studies that need the same training share it. The
    # training runs in this process, on one thread, so that figures do not depend on the number of processors. Another
    # process that needs the same model waits.
    from visir.encoders.families import CHECKPOINT_FILE
    from visir.products.encoding import encode_catalogue
    from visir.products.training import train_categories
    from visir.storage import locked

    training = {"recipe": recipe.model_dump(mode="json"), "catalogue": catalogue.fingerprint}
    parent = context.shared / "categories" / f"{recipe.name}-{recipe.setting}-{hash_json(training)[:10]}"
    modalities = recipe.product.modalities
    folders = []
    for split in splits:
        folder = parent / split.name.replace(", ", "-").replace(" ", "-")
        waiting = f"{folder}: is being trained by another process; waiting for it"
        lock = folder.with_name(f"{folder.name}.lock")
        with context.locks.for_folder(folder), locked(lock, waiting=waiting, elsewhere="--out"):
            if not (folder / CHECKPOINT_FILE).is_file():
                with context.locks.process, _one_thread():
                    vectors = encode_catalogue(
                        catalogue,
                        image=recipe.encoders.image if "image" in modalities else None,
                        text=recipe.encoders.text,
                        titles="title" in modalities,
                        attributes="attributes" in modalities,
                        skip_broken=True,
                    )
                    train, validation = (vectors.keep_products(part) for part in (split.train, split.validation))
                    train_categories(recipe, train, validation, folder, resume=True)
        folders.append(folder)
    return folders


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Saved category models as systems: each is found its split, so that none is tested with what it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from visir.encoders.store import Store
from visir.errors import ConfigurationError, raise_faults
from visir.products.encoding import encode_catalogue
from visir.products.relevance import SETTINGS
from visir.products.split import Split, seen_categories
from visir.products.systems import CategoryVectorSystem, TrainedSystem
from visir.products.vectors import CatalogueVectors
from visir.records.catalogue import Catalogue

if TYPE_CHECKING:
    from visir.products.model.trained import CategoriesModel


@dataclass(frozen=True, eq=False)
class _Member:
    """A model, the split it was trained on, and what its recipe says."""

    model: CategoriesModel
    split: Split
    name: str
    setting: str
    seed: int


def trained_systems(
    folders: Sequence[str | Path],
    catalogue: Catalogue,
    splits: Sequence[Split],
    *,
    every_setting: bool = False,
    device: str | None = None,
    store: Store | None = None,
) -> list[TrainedSystem]:
    """The models in `folders`, those of one recipe name together: one per split and setting ("-general" and "-specific"
    at the end of a name are left out).

    A model's split is the one whose training products it was trained on, to the last product (a fingerprint). Models
    that share name, split and setting are told apart by seed ("clip-ita, seed 1").

    - `every_setting`: a model answers all three settings, instead of the one it was trained for (as in the thesis); its
      name then says for which it was trained

    Raises `ConfigurationError` naming every model that was trained on other products than any of `splits`.
    """
    from visir.products.model.trained import load_categories_model

    members = _placed([load_categories_model(one) for one in folders], catalogue, splits)
    seeds: dict[tuple[str, str, str], set[int]] = {}
    for one in members:
        seeds.setdefault((one.name, one.split.name, one.setting), set()).add(one.seed)
    several = {name for (name, _, _), found in seeds.items() if len(found) > 1}
    encoded: dict[tuple[str | None, ...], CatalogueVectors] = {}
    systems: dict[str, dict[tuple[str, str], CategoryVectorSystem]] = {}
    cards: dict[str, dict[str, object]] = {}
    for one in members:
        name = one.name + (f", seed {one.seed}" if one.name in several else "")
        name += f" (trained for {one.setting})" if every_setting else ""
        key = tuple(one.model.cards[part].name if part in one.model.cards else None for part in _PARTS)
        if key not in encoded:
            encoded[key] = vectors_for(one.model, catalogue, device=device, store=store)
        categories, products = one.model.embed(encoded[key])
        seen = seen_categories(catalogue, one.split, one.setting, one.seed)  # type: ignore[arg-type]
        system = CategoryVectorSystem(name, categories, products, trained_on=seen)
        for setting in SETTINGS if every_setting else (one.setting,):
            place = (one.split.name, setting)
            if place in systems.setdefault(name, {}):
                raise ConfigurationError(
                    f"two models of {name} for {place[0]}, setting {setting}: {one.model.name} is the second.",
                    hint="leave one out, or give their recipes different names or seeds",
                )
            systems[name][place] = system
        encoders = {part: card.name for part, card in one.model.cards.items()}
        cards[name] = {"reads": ", ".join(one.model.modalities), **encoders}
    return [TrainedSystem(name, members, cards[name]) for name, members in systems.items()]


_PARTS = ("categories", "images", "titles", "attributes")


def vectors_for(
    model: CategoriesModel, catalogue: Catalogue, *, device: str | None = None, store: Store | None = None
) -> CatalogueVectors:
    """The vectors of a catalogue that a saved model reads, by the encoders it was trained over, through the store."""
    cards = model.cards
    if "categories" not in cards:
        raise ConfigurationError(
            f"{model.name} does not know its encoders: it was trained over vectors from elsewhere.",
            hint="embed those vectors with the library: model.embed(vectors)",
        )
    return encode_catalogue(
        catalogue,
        image=cards["images"].name if "images" in cards else None,
        text=cards["categories"].name,
        titles="titles" in cards,
        attributes="attributes" in cards,
        store=store,
        device=device,
        skip_broken=True,
    )


def _placed(models: Sequence[CategoriesModel], catalogue: Catalogue, splits: Sequence[Split]) -> list[_Member]:
    """Each model with its split."""
    of = {catalogue.keep_products(one.train).fingerprint: one for one in splits}
    members, strangers = [], []
    for model in models:
        trained_on, recipe = model.facts["trained_on"], model.facts["recipe"]
        split = of.get(trained_on["catalogue"])
        if split is None:
            strangers.append(
                f"{model.name}: trained on {trained_on['products']:,} products that are the training part of none of "
                f"{len(splits)} splits"
            )
        else:
            # Recipes of one model for several settings are called "clip-ita", "clip-ita-general", …
            name = recipe["name"].removesuffix(f"-{recipe['setting']}")
            members.append(_Member(model, split, name, recipe["setting"], recipe["seed"]))
    raise_faults(
        ConfigurationError,
        f"{catalogue.name}: models that would be tested on other products than were held out",
        strangers,
        hint="evaluate with the catalogue, its options, the number of folds and the seed that they were trained with",
    )
    return members

"""Saved category models as systems: each is tested on the split whose training products it learnt from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from visir.encoders.base import Encoder
from visir.encoders.loading import load_recorded
from visir.encoders.store import Store
from visir.errors import ConfigurationError, raise_faults
from visir.products.encoding import CatalogueVectors, encode_catalogue
from visir.products.relevance import SETTINGS, Setting
from visir.products.systems import CategorySystem, CategoryVectorSystem, TrainedSystem, baseline
from visir.products.task import Split, seen_categories
from visir.records.catalogue import Catalogue

if TYPE_CHECKING:
    from visir.products.model.trained import CategoriesModel


@dataclass(frozen=True, eq=False)
class _Member:
    """A model, the split it was trained on, and what its recipe says."""

    model: CategoriesModel
    split: Split
    name: str
    setting: Setting
    seed: int


def systems_of(
    systems: Sequence[CategorySystem | str | Path],
    catalogue: Catalogue,
    splits: Sequence[Split],
    *,
    every_setting: bool = False,
    device: str | None = None,
) -> list[CategorySystem]:
    """Systems from themselves, the names of baselines, and the folders of trained models."""
    if isinstance(systems, (str, Path)):
        systems = [systems]
    if not systems:
        raise ConfigurationError(
            "no system: nothing to evaluate.", hint='a baseline ("bm25"), or the folder of a model'
        )
    folders = [system for system in systems if isinstance(system, (str, Path)) and Path(system).is_dir()]
    named = [system for system in systems if system not in folders]
    made = [baseline(str(system), catalogue, device=device) if isinstance(system, (str, Path)) else system
            for system in named]  # fmt: skip
    trained = trained_systems(folders, catalogue, splits, every_setting=every_setting, device=device) if folders else []
    return [*made, *trained]


def trained_systems(
    folders: Sequence[str | Path],
    catalogue: Catalogue,
    splits: Sequence[Split],
    *,
    every_setting: bool = False,
    device: str | None = None,
    store: Store | None = None,
) -> list[TrainedSystem]:
    """The models in `folders` as systems; those of one recipe name are one system."""
    # Such a system has one model per split and setting ("-general" and "-specific" at the end of a name are left out).
    # The split of a model is the one whose training products it was trained on, exactly (a fingerprint). Models that
    # share name, split and setting are told apart by seed ("clip-ita, seed 1").
    from visir.products.model.trained import load_categories_model

    members = _with_splits([load_categories_model(folder) for folder in folders], catalogue, splits)
    seeds: dict[tuple[str, str, str], set[int]] = {}
    for member in members:
        seeds.setdefault((member.name, member.split.name, member.setting), set()).add(member.seed)
    several = {name for (name, _, _), of_name in seeds.items() if len(of_name) > 1}
    encoded: dict[tuple[str | None, ...], CatalogueVectors] = {}
    systems: dict[str, dict[tuple[str, str], CategoryVectorSystem]] = {}
    cards: dict[str, dict[str, object]] = {}
    for member in members:
        model = member.model
        name = member.name + (f", seed {member.seed}" if member.name in several else "")
        name += f" (trained for {member.setting})" if every_setting else ""
        encoders = tuple(model.cards[part].name if part in model.cards else None for part in _PARTS)
        if encoders not in encoded:
            encoded[encoders] = vectors_for(model, catalogue, device=device, store=store)
        categories, products = model.embed(encoded[encoders])
        seen = seen_categories(catalogue, member.split, member.setting, member.seed)
        system = CategoryVectorSystem(name, categories, products, trained_on=seen)
        for setting in SETTINGS if every_setting else (member.setting,):
            key = (member.split.name, setting)
            if key in systems.setdefault(name, {}):
                raise ConfigurationError(
                    f"two models of {name} for {key[0]}, setting {setting}: {model.name} is the second.",
                    hint="leave one out, or give their recipes different names or seeds",
                    code="is-the-second",
                )
            systems[name][key] = system
        names = {part: card.name for part, card in model.cards.items()}
        cards[name] = {"reads": ", ".join(model.modalities), **names}
    return [TrainedSystem(name, of_name, cards[name]) for name, of_name in systems.items()]


_PARTS = ("categories", "images", "titles", "attributes")


def vectors_for(
    model: CategoriesModel, catalogue: Catalogue, *, device: str | None = None, store: Store | None = None
) -> CatalogueVectors:
    """The vectors of a catalogue that a saved model reads, by the encoders it was trained over, through the store."""
    cards, loaded = model.cards, dict[str, Encoder]()
    if "categories" not in cards:
        raise ConfigurationError(
            f"{model.name} does not know its encoders: it was trained over vectors from elsewhere.",
            hint="embed those vectors with the library: model.embed(vectors)",
        )
    for part in ("categories", "images"):
        if part in cards and (name := cards[part].name) not in loaded:
            loaded[name] = load_recorded(name, model.name, device=device)
    return encode_catalogue(
        catalogue,
        image=loaded[cards["images"].name] if "images" in cards else None,
        text=loaded[cards["categories"].name],
        titles="titles" in cards,
        attributes="attributes" in cards,
        store=store,
        device=device,
        skip_broken=True,
    )


def _with_splits(models: Sequence[CategoriesModel], catalogue: Catalogue, splits: Sequence[Split]) -> list[_Member]:
    """Each model with its split."""
    split_of = {catalogue.keep_products(split.train).fingerprint: split for split in splits}
    members, faults = [], []
    for model in models:
        trained_on, recipe = model.facts["trained_on"], model.facts["recipe"]
        split = split_of.get(trained_on["catalogue"])
        if split is None:
            faults.append(
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
        faults,
        hint="evaluate with the catalogue, its options, the number of folds and the seed that they were trained with",
    )
    return members

"""Systems that answer categories with products: vectors from anywhere, trained models, BM25."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders.base import Encoder
from visir.encoders.forms import one_each
from visir.encoders.loading import load_recorded
from visir.encoders.store import Store
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.systems.base import System
from visir.evaluation.systems.bm25 import Bm25System
from visir.evaluation.systems.vectors import VectorSystem
from visir.products.encoding import CatalogueVectors, ProductVectors, encode_catalogue
from visir.products.task import SETTINGS, CategoryTask, Mask, Setting, Split, seen_categories
from visir.records import Embeddings, Gallery, Items, Task, Ties
from visir.records.catalogue import Catalogue
from visir.retrieval.bm25 import Bm25
from visir.retrieval.exact import SearchResult, search

if TYPE_CHECKING:
    from visir.products.model import CategoriesModel


class CategorySystem(System):
    """A system that ranks products for categories, and says what it was trained with."""

    @property
    def card(self) -> Mapping[str, Any]:
        """Everything that changes its numbers, as plain values."""
        return {}

    def covers(self, task: CategoryTask) -> bool:
        """Whether the system takes part; a model trained for one setting does not answer the others."""
        return True

    def seen(self, task: CategoryTask) -> Mask | None:
        """(c,) which categories it was trained with; None: those of the pairs of the training part."""
        return None

    @abstractmethod
    def search_products(self, task: CategoryTask, depth: int, ties: Ties) -> SearchResult:
        """The run over `task.gallery` and the ranks of all relevant products."""

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """See `System.search`. Relevant products that are not in a ranking are counted in the notes."""
        results = []
        for task in tasks:
            if not isinstance(task, CategoryTask):
                raise ConfigurationError(
                    f"{self.name} answers categories with products; {task.name} is another task.",
                    hint="make the task with visir.products.task.category_task",
                    code="answers-categories-products",
                )
            result = self.search_products(task, depth, ties)
            assert result.ranks is not None, "judgements were given"
            missing = int((result.ranks.ranks == 0).sum())
            if missing:
                self.notes.append(
                    f"{missing:,} of {len(result.ranks.ranks):,} relevant products are not in the ranking"
                )
            results.append(result)
        return results


class CategoryVectorSystem(CategorySystem, VectorSystem):
    """Vectors of categories and of products in one space, compared by cosine."""

    def __init__(
        self,
        name: str,
        categories: Embeddings,
        products: Embeddings,
        *,
        trained_on: Mask | None = None,
        model: CategoriesModel | None = None,
    ) -> None:
        super().__init__({"query": categories, "document": products}, "cosine", name)
        self.categories = categories
        self.products = products
        self.trained_on = trained_on
        self._model = model

    def query(self, text: str, *, device: str | None = None) -> Embeddings:
        """The vector of any words, in the space of the products; the id is the text."""
        card = self.categories.encoder
        if self._model is not None:
            vectors = self._model.embed_texts([text])
        else:
            vectors = one_each(
                load_recorded(card.name, self.name, device=device).encode_texts([text], "query"), card.name
            )
        return Embeddings("text", pa.array([text]), vectors, card)

    @property
    def card(self) -> Mapping[str, Any]:
        """The encoders."""
        return {"categories": self.categories.encoder.name, "products": self.products.encoder.name}

    def seen(self, task: CategoryTask) -> Mask | None:
        """Of trained vectors, the categories they were trained with."""
        return self.trained_on

    def search_products(self, task: CategoryTask, depth: int, ties: Ties) -> SearchResult:
        """Exact search; equal scores stand in order of product id."""
        qrels, gallery = task.judgements(), task.gallery
        rows = self.categories.rows([task.tree.ids[row] for row in task.rows])
        queries = Embeddings("text", qrels.queries, np.asarray(self.categories.vectors)[rows], self.categories.encoder)
        assert gallery.ids is not None, "the products of a task are listed"
        with_vector = gallery.ids.filter(pc.is_in(gallery.ids, self.products.ids))
        if len(with_vector) == 0:
            raise ConfigurationError(
                f"{self.name}: none of the {gallery.size:,} test products has a vector.",
                hint="is it the same catalogue, and does it have pictures (or titles)?",
                code="none-test-products-vector",
            )
        candidates = Gallery.of(gallery.modality, with_vector, gallery.description, title=gallery.title)
        result = search(
            queries,
            self.products,
            task.name,
            gallery=candidates,
            depth=depth,
            ties=ties,
            qrels=qrels,
            name=self.name,
        )
        assert result.ranks is not None, "judgements were given"
        return SearchResult(replace(result.run, gallery=gallery), replace(result.ranks, gallery_size=gallery.size))


class TrainedSystem(CategorySystem):
    """One model per split and setting under one name: what "CLIP-ITA, five folds" is."""

    def __init__(
        self,
        name: str,
        members: Mapping[tuple[str, str], CategoryVectorSystem],
        card: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name)
        self.members = dict(members)
        self._card = dict(card or {})

    @property
    def card(self) -> Mapping[str, Any]:
        """What the models read, and their encoders."""
        return self._card

    def covers(self, task: CategoryTask) -> bool:
        """Whether there is a model for this split and setting."""
        return (task.fold.name, task.setting) in self.members

    def seen(self, task: CategoryTask) -> Mask | None:
        """What the model of this split and setting was trained with."""
        return self._member(task).seen(task)

    def search_products(self, task: CategoryTask, depth: int, ties: Ties) -> SearchResult:
        """By the model of this split and setting."""
        result = self._member(task).search_products(task, depth, ties)
        return SearchResult(replace(result.run, name=self.name), result.ranks)

    def fields(self) -> dict[str, Any]:
        """The similarity, which all members share."""
        return {"similarity": "cosine"}

    def _member(self, task: CategoryTask) -> CategoryVectorSystem:
        key = (task.fold.name, task.setting)
        if key not in self.members:
            pairs = [", ".join(pair) for pair in self.members]
            raise ConfigurationError(f"{self.name}: no model for {', '.join(key)}", hint=nearest(", ".join(key), pairs))
        return self.members[key]


PLAIN = Bm25(stemming="none")
"""BM25 as the thesis names it, with no stemmer: a plural in the category's name finds no singular in a title."""


class TitleBm25(CategorySystem, Bm25System):
    """BM25 of the names of categories against the titles of products (thesis section 7.4.2)."""

    # How rare a word is, is counted over the titles of the test products.
    # Two readings, both worth a row beside a trained model. The default ("bm25") removes plural endings: categories are
    # plurals and titles singular ("Skirts", "a red skirt"). The thesis names BM25 without a stemmer, and its released
    # code has no BM25: `PLAIN` ("bm25:plain") leaves words as they are. On fashion, most specific categories, plain
    # BM25 has R-precision 52.8, without plurals 78.5; CLIP-ITA, 75.9, lies between.

    def __init__(self, bm25: Bm25 | None = None, name: str = "BM25") -> None:
        super().__init__(bm25, name)

    @property
    def card(self) -> Mapping[str, Any]:
        """What is searched, and how words are made."""
        words = {"stop words": self.bm25.stop_words, "stemming": self.bm25.stemming}
        return {"products": "titles", **words, "scored by": self.bm25.similarity}

    def texts(self, items: Items) -> list[str]:
        """The text of each item; a product without a title has no words, and is never found."""
        return [""] * len(items) if items.texts is None else super().texts(items)

    def search_products(self, task: CategoryTask, depth: int, ties: Ties) -> SearchResult:
        """The run and the ranks; equal scores stand in order of product id."""
        (result,) = Bm25System.search(self, [task], depth=depth, ties=ties)
        return result


# Encoders as they come, without training: a category's name against titles or against pictures.

FORMS = ("bm25", "bm25:plain", "text:NAME", "clip:NAME")
"""How a baseline is named; NAME is whatever `visir.encoders.load` takes."""


def baseline(
    name: str,
    catalogue: Catalogue,
    *,
    device: str | None = None,
    store: Store | None = None,
    others: tuple[str, ...] = (),
) -> CategorySystem:
    """A baseline by its name, or a trained model by its folder."""
    # name: "bm25", "bm25:plain" (see `TitleBm25`), "text:NAME" (titles; MPNet in the thesis) or "clip:NAME" (pictures).
    if Path(name).is_dir():
        from visir.products.model import load_categories_model

        trained = load_categories_model(name)
        vectors = vectors_for(trained, catalogue, device=device, store=store)
        return CategoryVectorSystem(trained.name, *trained.embed(vectors), model=trained)
    kind, _, model = name.partition(":")
    if name == "bm25":
        return TitleBm25()
    if name == "bm25:plain":
        return TitleBm25(PLAIN, "BM25, plain")
    if kind not in ("text", "clip") or not model:
        what = f"{name}: no such folder, and no baseline." if "/" in name else f"unknown baseline {name!r}"
        raise ConfigurationError(what, hint=nearest(name, (*others, *FORMS)))
    from visir.encoders import load

    make = text_zero_shot if kind == "text" else image_zero_shot
    return make(load(model, device=device), catalogue, store=store)


def text_zero_shot(encoder: Encoder, catalogue: Catalogue, *, store: Store | None = None) -> CategoryVectorSystem:
    """A text encoder on titles (thesis: MPNet): the cosine of a category's name and a product's title."""
    # A product without a title is a candidate that is never found.
    vectors = encode_catalogue(catalogue, text=encoder, attributes=False, store=store)
    if vectors.titles is None or not vectors.titles.present.any():
        raise ConfigurationError(
            f"{catalogue.name}: no product has a title to encode.",
            hint="leave the text baselines out",
            code="no-product-title-encode",
        )
    return _system(f"{encoder.card.name}, titles", vectors, vectors.titles, "titles")


def image_zero_shot(encoder: Encoder, catalogue: Catalogue, *, store: Store | None = None) -> CategoryVectorSystem:
    """An image–text encoder on pictures (thesis: CLIP): the cosine of a category's name and a product's picture."""
    # A product whose picture is missing, or cannot be read, is a candidate that is never found.
    for modality in ("image", "text"):
        if modality not in encoder.modalities:
            raise encoder.cannot(modality)
    vectors = encode_catalogue(
        catalogue, image=encoder, text=encoder, titles=False, attributes=False, store=store, skip_broken=True
    )
    assert vectors.images is not None
    return _system(f"{encoder.card.name}, pictures", vectors, vectors.images, "images")


def _system(name: str, vectors: CatalogueVectors, products: ProductVectors, part: str) -> CategoryVectorSystem:
    rows = np.flatnonzero(products.present)
    catalogue = vectors.catalogue
    return CategoryVectorSystem(
        name,
        Embeddings(
            "text", catalogue.categories["id"].combine_chunks(), vectors.categories, vectors.cards["categories"]
        ),
        Embeddings(
            "image" if part == "images" else "text",
            catalogue.products["id"].combine_chunks().take(pa.array(rows)),
            np.asarray(products.vectors[products.rows[rows]]),
            vectors.cards[part],
        ),
    )


# Saved category models as systems: each is tested on the split whose training products it learnt from.


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
    from visir.products.model import load_categories_model

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

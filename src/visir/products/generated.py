"""A generated catalogue with planted structure: what pictures, titles and attributes tell is known.

Nothing is downloaded. The pictures are generated scenes, drawn when they are read. There are three levels of
categories:

1. a kind of subject (Animals, Vehicles, Home and leisure): the picture tells, and a title that names the subject
2. a subject (Dogs, Buses, …): the same
3. a subject in a material (Wooden dogs, Tin buses, …): *only* the attribute `material` tells

Subject and material are drawn independently, so attributes say nothing about levels 1 and 2, and pictures and titles
nothing about which child of a subject it is. So a model that reads attributes must do better than one that does not on
most specific categories, and no better on most general ones (the thesis's CLIP-IA against CLIP-I, section 7.5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from visir.collections.scenes import SCHEME
from visir.collections.scenes.facts import ANIMALS, SUBJECTS, VEHICLES
from visir.collections.scenes.render import LARGEST, SMALLEST
from visir.collections.sources import Format, Option
from visir.errors import CollectionError, raise_faults
from visir.records.catalogue import Catalogue
from visir.records.category_tree import path_id
from visir.splitmix import seed_of, splitmix64

MATERIALS = {"wood": "Wooden", "plush": "Plush", "porcelain": "Porcelain", "tin": "Tin"}
"""The value of the attribute to the word in the name of the category."""
MAKERS = ("Alder & Sons", "Brightwater", "Corvin", "Dovetail", "Elmhurst", "Fairlight", "Gannet", "Hollis")
NUISANCE = {
    "warranty": ("none", "6 months", "1 year", "2 years", "5 years"),
    "delivery": ("1 day", "2 days", "1 week", "2 weeks"),
    "packaging": ("box", "bag", "sleeve"),
    "sold by": MAKERS,
}
"""Attributes that say nothing about the category. A product has each with probability one half."""
_PLURALS = {"sheep": "sheep", "bus": "buses"}
_SUBJECT, _MATERIAL, _TITLE, _MAKER, _UNSEEN, _NUISANCE = range(6)


@dataclass(frozen=True)
class GeneratedCatalogue:
    """A generated catalogue and its planted structure."""

    catalogue: Catalogue  # the products
    # Ids of most specific categories that are meant to be kept out of training. Each combines a subject and a material
    # that both occur in other categories, so a model that has learnt the parts can answer them.
    unseen: tuple[str, ...]


def generate_catalogue(
    n: int, *, seed: int = 0, size: int = 128, noise: float = 0.2, unseen: int = 8
) -> GeneratedCatalogue:
    """Make products of known structure; no picture is drawn before it is read."""
    # Product `i` of a seed is the same whatever `n`, and the tree is always whole (3 roots, 22 subjects, 88 leaves).
    _check_arguments(n, seed, size, noise, unseen)
    subjects = _drawn(seed, _SUBJECT, n) % np.uint64(len(SUBJECTS))
    materials = _drawn(seed, _MATERIAL, n) % np.uint64(len(MATERIALS))
    makers = _drawn(seed, _MAKER, n) % np.uint64(len(MAKERS))
    silent = _drawn(seed, _TITLE, n) / 2.0**64 < noise
    nuisance = [_drawn(seed, _NUISANCE + k, n) for k in range(len(NUISANCE))]
    titles, attributes = [], []
    for row in range(n):
        model = f"{MAKERS[int(makers[row])]} {100 + row % 900}"
        titles.append(model if silent[row] else f"{model} {SUBJECTS[int(subjects[row])]}")
        own = [("material", list(MATERIALS)[int(materials[row])])]
        for (name, values), numbers in zip(NUISANCE.items(), nuisance, strict=True):
            present, value = divmod(int(numbers[row]) >> 8, len(values))
            if present % 2:
                own.append((name, values[value]))
        attributes.append(own)
    catalogue = Catalogue.of(
        "generated",
        ids=[f"product-{seed}-{row:06d}" for row in range(n)],
        paths=[_path(int(subject), int(material)) for subject, material in zip(subjects, materials, strict=True)],
        titles=titles,
        attributes=attributes,
        image_paths=[f"{SCHEME}{seed}:{row}:{size}:subject={SUBJECTS[int(subjects[row])]}" for row in range(n)],
        extra_paths=[
            _path(subject, material) for subject in range(len(SUBJECTS)) for material in range(len(MATERIALS))
        ],
        source=f"generated products, seed {seed}, {size} px, {noise:g} of the titles silent",
    )
    return GeneratedCatalogue(catalogue, _unseen(seed, unseen))


def read(path: Path, *, seed: int = 0, size: int = 128, noise: float = 0.2) -> Catalogue:
    """Make as many products as the "path" names; see `generate_catalogue`."""
    if not re.fullmatch(r"\d+|\d{1,3}([,_]\d{3})+", str(path)):
        raise CollectionError(
            f"generated:{path}: not a number of products.",
            hint="for example generated:2000",
            code="not-number-products",
        )
    return generate_catalogue(int(re.sub("[,_]", "", str(path))), seed=seed, size=size, noise=noise).catalogue


def _path(subject: int, material: int) -> list[str]:
    name = SUBJECTS[subject]
    plural = _PLURALS.get(name, f"{name}s")
    kind = "Animals" if name in ANIMALS else "Vehicles" if name in VEHICLES else "Home and leisure"
    return [kind, plural.capitalize(), f"{list(MATERIALS.values())[material]} {plural}"]


def _unseen(seed: int, count: int) -> tuple[str, ...]:
    """One material of `count` subjects, both by chance."""
    numbers = _drawn(seed, _UNSEEN, len(SUBJECTS))
    chosen = np.sort(np.argsort(numbers, kind="stable")[:count])
    # The high bits decided which subjects; the low ones say which material.
    materials = numbers % np.uint64(len(MATERIALS))
    return tuple(path_id(_path(int(subject), int(materials[subject]))) for subject in chosen)


def _drawn(seed: int, stream: int, n: int) -> npt.NDArray[np.uint64]:
    return splitmix64(seed_of(seed, stream), np.arange(n))


def _check_arguments(n: int, seed: int, size: int, noise: float, unseen: int) -> None:
    faults = [
        fault
        for wrong, fault in (
            (n < 1, f"n must be at least 1, not {n}"),
            (seed < 0, f"seed must not be negative, found {seed}"),
            (not SMALLEST <= size <= LARGEST, f"size must be {SMALLEST} to {LARGEST}, not {size}"),
            (not 0 <= noise <= 1, f"noise must be 0 to 1, not {noise}"),
            (not 0 <= unseen <= len(SUBJECTS), f"unseen must be 0 to {len(SUBJECTS)}, not {unseen}"),
        )
        if wrong
    ]
    raise_faults(CollectionError, "generated products", faults)


FORMAT = Format(
    name="generated",
    title="generated products with planted structure",
    layout="generated:NUMBER; nothing on disk: pictures are drawn when they are read",
    reference="visir.products.generated",
    sniff=lambda path: False,
    options=(
        Option("seed", "a whole number; product i of a seed is always the same", 0, int),
        Option("size", "pixels of a side, 64 to 224", 128, int),
        Option("noise", "share of titles that do not name the subject, 0 to 1", 0.2, float),
    ),
    read=read,
)

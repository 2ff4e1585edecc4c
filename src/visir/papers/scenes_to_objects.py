"""Orders on collections of scenes beside orders on collections of single objects (thesis 2.5.3, RQ1.2 and RQ1.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from visir.papers.comparison import StudyComparison
from visir.papers.pairs import PairOrder, are_compared
from visir.studies.draws import Draws, difference_interval


@dataclass(frozen=True, eq=False)
class _Values:
    """The values of all systems on one collection under one label: printed ones, ours, and draws of ours."""

    is_object_centric: bool
    collection: str
    label: str
    groups: Sequence[Sequence[str]]
    published: Mapping[str, float]
    ours: Mapping[str, float]
    draws: Mapping[str, Draws]


def replicated_pairs(comparisons: Sequence[StudyComparison]) -> list[PairOrder]:
    """Pairs with an order printed for scenes, with our difference on single objects."""
    pairs: list[PairOrder] = []
    printed: set[tuple[str, str, int]] = set()
    for scenes, objects in _both_kinds(comparisons):
        key = (scenes.collection, scenes.label, id(objects))
        if key in printed:  # of another scale
            continue
        printed.add(key)
        for first, second in _compared(scenes, scenes.published, objects.ours):
            gap = scenes.published[first] - scenes.published[second]
            if gap:
                pairs.append(_pair(objects, scenes.label, *((first, second) if gap > 0 else (second, first))))
    return pairs


def generalised_pairs(comparisons: Sequence[StudyComparison]) -> list[PairOrder]:
    """Pairs that stand in a certain order on scenes here, with our difference on single objects."""
    pairs: list[PairOrder] = []
    for scenes, objects in _both_kinds(comparisons):
        for first, second in _compared(scenes, scenes.ours, objects.ours):
            order = _pair(scenes, scenes.label, first, second).agrees
            if order is not None:
                pairs.append(_pair(objects, scenes.label, *((first, second) if order else (second, first))))
    return pairs


def _pair(values: _Values, label: str, higher: str, lower: str) -> PairOrder:
    interval = difference_interval(values.draws.get(higher), values.draws.get(lower))
    difference = values.ours[higher] - values.ours[lower]
    return PairOrder(values.collection, label, higher, lower, difference, interval)


def _compared(scenes: _Values, first: Mapping[str, float], second: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """The pairs of systems that are in both, and are compared in the study of scenes."""
    common = [system for system in first if system in second]
    return (pair for pair in combinations(common, 2) if are_compared(scenes.groups, *pair))


def _both_kinds(comparisons: Sequence[StudyComparison]) -> Iterator[tuple[_Values, _Values]]:
    """Every collection of scenes beside every collection of single objects, under each label that both have."""
    values = [of_label for part in comparisons for of_label in _values_of(part)]
    scenes = [of_label for of_label in values if not of_label.is_object_centric]
    objects = [of_label for of_label in values if of_label.is_object_centric and of_label.ours]
    return ((left, right) for left, right in product(scenes, objects) if left.label == right.label)


def _values_of(part: StudyComparison) -> Iterator[_Values]:
    if part.study.pairs != "systems" or not part.study.of_images:
        return
    by_label: dict[tuple[str, str], tuple[dict[str, float], dict[str, float], dict[str, Draws]]] = {}
    for value in part.values:
        published, ours, draws = by_label.setdefault((value.collection, value.label), ({}, {}, {}))
        if value.published is not None:
            published[value.system] = value.published
        if value.ours is not None:
            ours[value.system] = value.ours
        if value.draws is not None:
            draws[value.system] = value.draws
    for (collection, label), (published, ours, draws) in by_label.items():
        is_object_centric = collection in part.study.object_centric
        yield _Values(is_object_centric, collection, label, part.study.groups, published, ours, draws)

"""Choice tasks of generated scenes: which of a few captions is true of a picture, or of which picture a caption is.

- `choice_scenes`: one picture, one right caption and one wrong one (as in SugarCrepe, ARO, VALSE).
- `winoground_scenes`: two pictures and two captions of the same words; both directions (as in Winoground).
- `paraphrase_scenes`: one picture, two right captions in different words, and a wrong one that is worded like the first
  (as in SugarCrepe++); by picture, and by text alone.

What is right and wrong follows from the facts, see `contrasts`. Equal scores count against the system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from visir.collections.scenes.contrasts import Contrast, contrasts, paraphrase
from visir.collections.scenes.draws import Draws
from visir.collections.scenes.facts import Scene, sample_scene
from visir.collections.scenes.generate import SPLITS, check_arguments, location, split_names
from visir.collections.scenes.languages import GRAMMARS
from visir.records import Items, TaskFile, TaskSet
from visir.records.items import PLACES

_ORDER = 40
"""The purpose of draws that put candidates in order."""


@dataclass
class _Choices:
    """Rows of one task while it is made."""

    queries: dict[str, str] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)
    pools: list[tuple[str, str, str]] = field(default_factory=list)
    right: list[tuple[str, str, str]] = field(default_factory=list)
    labels: list[dict[str, str]] = field(default_factory=list)
    measures: tuple[str, ...] = ("all_first",)

    def add(self, split: str, query: tuple[str, str], right: Mapping[str, str], wrong: Mapping[str, str],
            labels: Mapping[str, str]) -> None:  # fmt: skip
        """One query with its right and wrong candidates, all as ids and texts or places."""
        name, content = query
        self.queries[name] = content
        self.documents |= {**right, **wrong}
        self.pools += [(split, name, document) for document in (*right, *wrong)]
        self.right += [(split, name, document) for document in right]
        self.labels.append({"query_id": name, **labels})

    def task(self, name: str, of_images: str, source: str) -> TaskFile:
        """The task. `of_images` says which sides are pictures: "queries", "documents" or ""."""
        return TaskFile(
            name,
            _items(self.queries, "queries", of_images == "queries"),
            _items(self.documents, "images" if of_images == "documents" else "captions", of_images == "documents"),
            _rows(self.right).append_column("grade", pa.array([1.0] * len(self.right), pa.float32())),
            candidates=_rows(self.pools),
            source=source,
            labels=pa.Table.from_pylist(self.labels),
            ties="pessimistic",
            measures=self.measures,
        )


def choice_scenes(
    n: int,
    *,
    seed: int = 0,
    size: int = 128,
    language: str = "en",
    splits: Mapping[str, float] = SPLITS,
) -> TaskFile:
    """Make n choices between a right and a wrong caption, one for each of n pictures.

    Labels: "category" (`contrasts` lists them; all are about equally frequent), "fact" (what the captions differ in),
    "image", and "language". With several languages, a picture has one choice in each.

    Args:
        n: How many pictures, from 1.
        seed: A whole number from 0.
        size: The pictures are `size` × `size` pixels, 64 to 224.
        language: "en", "de", "fr", "es", "zh"; or several ("en+de").
        splits: The share of each split. A scene is in the same split as in `scenes`.

    Raises:
        CollectionError: Listing everything that is wrong with the arguments.

    Example:
        >>> task = choice_scenes(9, size=64)
        >>> len(task.queries), len(task.documents), task.labels["category"][1].as_py()
        (9, 18, 'swap_attribute')
        >>> task.documents.texts.to_pylist()[2:4]  # doctest: +NORMALIZE_WHITESPACE
        ['A green hat is sitting on top of a blue car in the desert.',
         'A blue hat is sitting on top of a green car in the desert.']
    """
    languages = language.split("+")
    check_arguments(n, seed, size, 0.0, splits, languages)
    choices = _Choices()
    split_of = split_names([False] * n, splits)
    for code in languages:
        counts: dict[str, int] = {}
        for index in range(n):
            scene = sample_scene(seed, index)
            made = _rarest(contrasts(scene, GRAMMARS[code]), counts)
            image = f"scene-{seed}-{index:06d}"
            query = f"{image}.{code}"
            first, second = Draws(scene, _ORDER).shuffled((f"{query}#0", f"{query}#1"))
            choices.add(
                split_of[index],
                (query, location(seed, index, size)),
                {first: made.right.text},
                {second: made.wrong.text},
                {"category": made.category, "fact": made.fact, "language": code, "image": image},
            )
    return choices.task("scenes, choice", "queries", _source(seed, size, languages))


def winoground_scenes(
    n: int,
    *,
    seed: int = 0,
    size: int = 128,
    language: str = "en",
    splits: Mapping[str, float] = SPLITS,
) -> TaskSet:
    """Make n groups of two pictures and two captions: each caption is true of one picture and wrong of the other.

    In English both captions have the same words in another order; in languages with agreement the endings differ. The
    label "group" joins the queries of a group, "category" says what is exchanged. Arguments as in `choice_scenes`.

    Example:
        >>> tasks = winoground_scenes(4, size=64)
        >>> tasks.tasks, len(tasks.parts["i2t"].queries)
        (('i2t', 't2i'), 8)
        >>> tasks.parts["t2i"].queries.texts.to_pylist()[:2]  # doctest: +NORMALIZE_WHITESPACE
        ['A green hat is sitting on top of a blue car in the desert.',
         'A blue hat is sitting on top of a green car in the desert.']
    """
    languages = language.split("+")
    check_arguments(n, seed, size, 0.0, splits, languages)
    measures = ("all_first", "item_score", "group_score")
    of_images, of_texts = _Choices(measures=measures), _Choices(measures=measures)
    for code in languages:
        groups = list(_groups(n, seed, code))
        split_of = split_names([False] * (groups[-1][0] + 1), splits)
        for index, scene, made in groups:
            image = f"scene-{seed}-{index:06d}"
            group = f"{image}.{code}"
            changes = {name: getattr(made.other, name) for name in scene.differences(made.other)}
            images = {
                f"{group}/0": location(seed, index, size),
                f"{group}/1": location(seed, index, size, changes),
            }
            texts = {f"{group}#0": made.right.text, f"{group}#1": made.wrong.text}
            labels = {"category": made.category, "language": code, "group": group, "image": image}
            for choices, queries, documents in ((of_images, images, texts), (of_texts, texts, images)):
                for query, right in zip(queries.items(), documents, strict=True):
                    wrong = {name: content for name, content in documents.items() if name != right}
                    choices.add(split_of[index], query, {right: documents[right]}, wrong, labels)
    source, name = _source(seed, size, languages), "scenes, winoground"
    parts = {"i2t": of_images.task(name, "queries", source), "t2i": of_texts.task(name, "documents", source)}
    return TaskSet(name, parts, source)


def paraphrase_scenes(
    n: int,
    *,
    seed: int = 0,
    size: int = 128,
    language: str = "en",
    splits: Mapping[str, float] = SPLITS,
) -> TaskSet:
    """Make n pictures with two right captions in different words, and a wrong one that is worded like the first.

    The task "i2t" asks for both right captions before the wrong one; "t2t" asks, for each right caption, for the other
    one before the wrong one, and no picture is seen. Labels and arguments as in `choice_scenes`.

    Example:
        >>> tasks = paraphrase_scenes(3, size=64)
        >>> tasks.parts["i2t"].documents.texts.to_pylist()[:3]  # doctest: +NORMALIZE_WHITESPACE
        ['In a meadow, three birds fly over a white armchair.',
         'A white armchair stands in a grassy meadow under three birds.',
         'In a meadow, three balloons float over a white armchair.']
    """
    languages = language.split("+")
    check_arguments(n, seed, size, 0.0, splits, languages)
    of_images, of_texts = _Choices(), _Choices(measures=("all_first", "item_score"))
    split_of = split_names([False] * n, splits)
    for code in languages:
        counts: dict[str, int] = {}
        for index in range(n):
            scene, image = sample_scene(seed, index), f"scene-{seed}-{index:06d}"
            made = _rarest([pair for pair in contrasts(scene, GRAMMARS[code]) if pair.caption is not None], counts)
            assert made.caption is not None
            item = f"{image}.{code}"
            first, second, wrong = Draws(scene, _ORDER).shuffled([f"{item}#{number}" for number in range(3)])
            right = {first: made.right.text, second: paraphrase(scene, made.caption, GRAMMARS[code])}
            labels = {"category": made.category, "fact": made.fact, "language": code, "image": image}
            against = {wrong: made.wrong.text}
            of_images.add(split_of[index], (item, location(seed, index, size)), right, against, labels)
            for query, answer in ((first, second), (second, first)):
                of_texts.add(
                    split_of[index], (query, right[query]), {answer: right[answer]}, against, {**labels, "group": item}
                )
    source, name = _source(seed, size, languages), "scenes, paraphrase"
    return TaskSet(
        name, {"i2t": of_images.task(name, "queries", source), "t2t": of_texts.task(name, "", source)}, source
    )


def _rarest(made: Sequence[Contrast], counts: dict[str, int]) -> Contrast:
    """The contrast whose category was chosen least often so far."""
    chosen = min(made, key=lambda pair: counts.get(pair.category, 0))
    counts[chosen.category] = counts.get(chosen.category, 0) + 1
    return chosen


def _groups(n: int, seed: int, code: str) -> Iterator[tuple[int, Scene, Contrast]]:
    """The first n scenes that have a pair of captions of the same words, with the pair."""
    counts: dict[str, int] = {}
    index = made_so_far = 0
    while made_so_far < n:
        scene = sample_scene(seed, index)
        made = [pair for pair in contrasts(scene, GRAMMARS[code]) if pair.has_same_words]
        if made:
            yield index, scene, _rarest(made, counts)
            made_so_far += 1
        index += 1


def _items(contents: Mapping[str, str], title: str, are_images: bool) -> Items:
    ids, values = pa.array(list(contents), pa.string()), pa.array(list(contents.values()), pa.string())
    if not are_images:
        return Items(ids, values, title=title, name="scenes")
    places = pa.table({"path": values, "archive": pa.nulls(len(values), pa.string())}, schema=PLACES)
    return Items(ids, None, places, title=title, name="scenes")


def _rows(rows: Sequence[tuple[str, str, str]]) -> pa.Table:
    names = ("split", "query_id", "document_id")
    return pa.table({name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(names)})


def _source(seed: int, size: int, languages: Sequence[str]) -> str:
    return f"generated scenes, seed {seed}, {size} px, {', '.join(GRAMMARS[code].title for code in languages)}"

"""From a source and options to the tasks that are searched: one per fold, with galleries and judgements."""

from __future__ import annotations

import hashlib
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import counted
from visir.errors import CollectionError, ConfigurationError, nearest, raise_faults
from visir.evaluation.folds import cut
from visir.evaluation.scoring import candidates_line, faults_of_measures, queries_line
from visir.records import (
    GROUP,
    LINKS,
    PLAIN,
    SIDES,
    TASKS,
    Collection,
    Gallery,
    Items,
    Protocol,
    Qrels,
    Task,
    caption_labels,
    label_kinds,
)
from visir.records.result import PROTOCOL, option_faults
from visir.retrieval.answers import depth_fault

# Which captions of each image take part: all, the first, the first N, or one at random. Papers differ in this choice
# and rarely report it: COCO's "25,000 captions" are the first five of each image (ten images of the test split have a
# sixth), product collections have one, and some studies draw one of five at random. A caption that takes part is both a
# query of text-to-image search and a candidate of image-to-text search.


@dataclass(frozen=True)
class CaptionChoice:
    """A choice of captions."""

    kind: str  # "all", "first" (the first `count` of each image) or "random" (one of each image)
    count: int = 1  # how many of each image, for "first"
    seed: int = 0  # the seed, for "random"

    @classmethod
    def parse(cls, text: str) -> CaptionChoice:
        """Read a choice from its written form."""
        if fault := PROTOCOL["captions"].fault("captions", text):
            raise ConfigurationError(f"{fault}.", hint='captions="first 5"')
        number = re.search(r"\d+", text)
        if text.startswith("random"):
            return cls("random", seed=int(number[0]) if number else 0)
        return cls(text.partition(" ")[0], count=int(number[0]) if number else 1)

    def __str__(self) -> str:
        if self.kind == "first":
            return "first" if self.count == 1 else f"first {self.count}"
        return f"random(seed={self.seed})" if self.kind == "random" else "all"

    def keep(self, ids: pa.Array, images: pa.Array) -> NDArray[np.bool_]:
        """Choose among captions."""
        # The random caption of an image is the one with the lowest hash of (seed, caption id). So the choice does not
        # depend on the order of the captions, and more images in a collection do not change it for the others.
        # ids: (n,) the ids of the captions, in the source's order.
        # images: (n,) the image of each.
        # Returns: (n,) which captions take part.
        if self.kind == "all":
            return np.ones(len(ids), bool)
        group = images.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        if self.kind == "first":
            order = np.argsort(group, kind="stable")
        else:
            order = np.lexsort((_hashes(ids, self.seed), group))
        grouped = group[order]
        starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
        place = np.arange(len(order)) - np.repeat(starts, np.diff(np.concatenate([starts, [len(order)]])))
        keep = np.zeros(len(ids), bool)
        keep[order[place < self.count]] = True
        return keep


def choose(collection: Collection, captions: str) -> Collection:
    """Reduce a collection to the chosen captions and their judgements."""
    choice = CaptionChoice.parse(captions)
    if choice.kind == "all" or collection.captions.num_rows == 0:
        return collection
    columns = collection.captions
    keep = choice.keep(columns["id"].combine_chunks(), columns["image_id"].combine_chunks())
    return keep_captions(collection, pa.array(keep))


def keep_captions(collection: Collection, keep: pa.Array) -> Collection:
    """Reduce a collection to some of its captions and their judgements."""
    # keep: (n,) a mask over its captions.
    captions = collection.captions.filter(keep)
    left = captions["id"]
    judged = collection.judgements.filter(pc.is_in(collection.judgements["caption_id"], left))
    facts = collection.caption_facts
    if facts is not None:
        facts = facts.filter(pc.is_in(facts["caption_id"], left))
    return replace(collection, captions=captions, judgements=judged, caption_facts=facts)


def _hashes(ids: pa.Array, seed: int) -> NDArray[np.uint64]:
    key = f"visir captions {seed}".encode()
    digests = b"".join(
        hashlib.blake2b(identifier.encode(), key=key, digest_size=8).digest() for identifier in ids.to_pylist()
    )
    return np.frombuffer(digests, dtype="<u8")


# What could not be encoded is left out of a task, with the items that cannot be measured without it.


def without_items(task: Task, queries: pa.StringArray, documents: pa.StringArray) -> tuple[Task, list[str]]:
    """Leave out of a task what could not be encoded."""
    notes = []
    for title, ids in ((task.queries.title, queries), (task.documents.title, documents)):
        if len(ids):
            examples = ", ".join(ids[:5].to_pylist()) + (", …" if len(ids) > 5 else "")
            notes.append(f"{counted(len(ids), title)} could not be encoded; set aside: {examples}")
    if not notes:
        return task, []
    if "all_first" in task.measures or (task.labels is not None and GROUP in task.labels.column_names):
        queries, lost = _with_their_items(task, queries, documents)
        notes += lost
    qrels = task.judgements()
    left = qrels.select(qrels.queries.filter(pc.invert(pc.is_in(qrels.queries, queries))))
    gallery = task.gallery
    assert gallery.ids is not None
    if task.pools is not None:
        task = replace(task, pools=task.pools.without(queries, documents))
    if task.excluded is not None:
        task = replace(task, excluded=task.excluded.without(queries, documents))
    remaining = gallery.restrict(gallery.ids.filter(pc.invert(pc.is_in(gallery.ids, documents))), gallery.description)
    return replace(task, qrels={qrels.name: left}, candidates=remaining), notes


def _with_their_items(
    task: Task, queries: pa.StringArray, documents: pa.StringArray
) -> tuple[pa.StringArray, list[str]]:
    """The broken queries with all queries of their items, and of items that lost a candidate; and a note."""
    # A choice with a candidate less is an easier one, and an item with a query less too.
    names = items = task.queries.ids
    if task.labels is not None and GROUP in task.labels.column_names:
        names, items = task.labels["query_id"].combine_chunks(), task.labels[GROUP].combine_chunks()
    touched = pc.is_in(names, queries)
    if task.pools is not None:
        of_candidates = task.pools.queries.take(pa.array(task.pools.query_rows))
        short = of_candidates.filter(pc.is_in(task.pools.documents, documents))
        touched = pc.or_(touched, pc.is_in(names, short))
    broken_items = items.filter(touched).drop_null().unique()
    everything = names.filter(pc.or_(touched, pc.is_in(items, broken_items)))
    note = (
        f"{counted(len(broken_items), 'items', 'are')} not measured: one of their queries or candidates was set aside"
    )
    return everything, [note] if len(broken_items) else []


Pool = Literal["split", "collection"]
"""The source of the candidates: the evaluated split, or the whole collection."""


class TaskSource(typing.Protocol):
    """Anything that has tasks: a folder of tasks, a catalogue, a class of your own."""

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of its tasks."""
        ...

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        ...

    def task(self, name: str) -> Task:
        """One task, over everything in the source."""
        ...

    def split(self, name: str | None) -> TaskSource:
        """The part in one split; None is everything."""
        ...


Source: TypeAlias = Collection | TaskSource | Task | Sequence[Task]
"""The input of an evaluation: a collection of images and captions, another source of tasks, one task, or several."""


def check_options(
    source: Source,
    *,
    captions: str = "all",
    recall: str | None = None,
    ties: str | None = None,
    gallery: object = "split",
    tasks: Sequence[str] | None = None,
    folds: int = 1,
    depth: int = 1,
    conditions: Mapping[str, Any] | None = None,
    split: str | None = None,
    similarity: str | None = None,
    measures: Sequence[str] | None = None,
) -> None:
    """Check the options of `visir.evaluation.evaluate.evaluate`, which explains them, before anything is computed."""
    faults = faults_of_measures(measures)
    faults += option_faults(
        recall=recall, ties=ties, similarity=similarity, captions=captions, folds=folds,
        gallery=gallery if isinstance(gallery, str) else None,
    )  # fmt: skip
    if tasks is not None and not tasks:
        faults.append("no task is asked for")
    if isinstance(folds, int) and folds > 1 and gallery != "split":
        faults.append("folds cut the split into galleries of their own: they go with gallery='split' only")
    if fault := depth_fault(depth, "depth"):
        faults.append(fault)
    known = [name for name, about in PROTOCOL.items() if about.is_condition]
    faults += [f"unknown condition {name!r} ({nearest(name, known)})" for name in conditions or {} if name not in known]
    if split is not None and not isinstance(split, str):
        faults.append(f"split must be a text, not {split!r}; several are written 'test+val'")
        split = None
    if isinstance(source, Collection):
        faults += [f"unknown task {name!r} ({nearest(str(name), TASKS)})" for name in tasks or () if name not in TASKS]
        for name in (split or "all").split("+"):
            if name != "all" and name not in source.splits:
                missing = "it has none; ?split_by=random(0.8,0.1,0.1,seed=0) behind its path makes train, val and test"
                suggestion = nearest(name, source.splits) if any(source.splits) else missing
                faults.append(f"unknown split {name!r} ({suggestion})")
    else:
        of_captions = {"captions": captions != "all", "folds": folds != 1, "gallery": gallery != "split"}
        faults += [
            f"{name} goes with collections of images and captions only" for name, on in of_captions.items() if on
        ]
    name = getattr(source, "name", "the tasks")
    raise_faults(ConfigurationError, f"evaluate {name}", faults, hint="mend the options above")


@dataclass(frozen=True, eq=False)
class Assembly:
    """The tasks of an evaluation, and the facts for its protocol."""

    source: str  # the name of the source
    fingerprint: str  # the fingerprint of the source
    split: str  # the split, or "all"
    choice: str  # the choice of captions
    tasks: Mapping[str, Task]  # by name: the whole task. Tasks and folds have exactly one set of judgements.
    folds: Mapping[str, Sequence[Task]]  # by name: one task per fold
    # A function that gives the same assembly without the broken items of a system.
    rebuild: Callable[[Callable[[Items], pa.StringArray]], Assembly]
    captions: pa.Table | None = None  # id and image_id of the captions that take part, for a collection; and `ALIKE`
    collection: Collection | None = None  # the collection that holds the candidates
    notes: tuple[str, ...] = ()  # notes for the reader
    # Conditions of the collection: injected shortcuts, corruptions.
    carried: Mapping[str, Any] = field(default_factory=dict)

    @property
    def qrels(self) -> dict[str, Qrels]:
        """By name: the judgements over all folds."""
        return {name: task.judgements() for name, task in self.tasks.items()}

    def protocol(self, **fields: Any) -> Protocol:
        """The protocol of these tasks; `fields` are what else the numbers depend on."""
        return Protocol(
            collection=self.source,
            collection_fingerprint=self.fingerprint,
            split=self.split,
            relevance=" / ".join(dict.fromkeys(name for task in self.tasks.values() for name in task.relevances)),
            galleries={name: candidates_line(parts) for name, parts in self.folds.items()},
            queries={name: queries_line(parts) for name, parts in self.folds.items()},
            captions=self.choice,
            **fields,
        )

    def keep(self, names: Sequence[str]) -> Assembly:
        """Reduce the assembly to some tasks."""

        return replace(
            self,
            tasks={name: task for name, task in self.tasks.items() if name in names},
            folds={name: parts for name, parts in self.folds.items() if name in names},
            rebuild=lambda broken: self.rebuild(broken).keep(names),
        )


def assemble(
    source: Source,
    *,
    split: str | None = None,
    relevance: str | None = None,
    captions: str = "all",
    gallery: Pool | Mapping[str, Gallery] = "split",
    tasks: Sequence[str] | None = None,
    folds: int = 1,
) -> Assembly:
    """Assemble the tasks of a source under the options of `visir.evaluation.evaluate.evaluate`, which explains them."""
    if not isinstance(source, Collection):
        return _of_tasks(source, split, relevance, tasks)
    part = source.split(split)
    whole = source if gallery == "collection" else part
    return _of_collection(
        part,
        whole,
        {side: whole.items(side) for side in ("image", "text")},
        source.fingerprint,
        [name for name in TASKS if tasks is None or name in tasks],
        split or "all",
        relevance or LINKS,
        captions,
        gallery,
        folds,
    )


def _of_collection(
    part: Collection,
    whole: Collection,
    items: Mapping[str, Items],
    fingerprint: str,
    names: Sequence[str],
    split: str,
    relevance: str,
    captions: str,
    gallery: Pool | Mapping[str, Gallery],
    folds: int,
) -> Assembly:
    """The assembly of a collection; `items` are those of the whole collection, so vectors serve every fold."""
    given = dict(locals())
    choice = CaptionChoice.parse(captions)
    chosen, pool = choose(part, captions), choose(whole, captions)
    check_not_empty(chosen, split)
    from_all = gallery == "collection"
    of = "of the collection" if from_all or split == "all" else f"of the {split} split"
    which = "all captions" if captions == "all" else f"captions ({choice} of each image)"

    def task(name: str, fold: Collection) -> Task:
        """The task of a fold, over the declared candidates: of the fold, of the collection, or the caller's."""
        queries, documents = SIDES[name]
        searched = pool if from_all else fold
        candidates = None if isinstance(gallery, str) else gallery.get(name)
        if candidates is None and documents == "text":
            candidates = searched.caption_gallery(f"{which} {of}")
        elif candidates is None:
            candidates = searched.image_gallery(f"all images {of}")
        return Task(
            name,
            items[queries],
            items[documents],
            {relevance: fold.qrels(name, relevance)},
            source=part.name,
            source_fingerprint=fingerprint,
            split=split,
            candidates=candidates,
            labels=caption_labels(fold.captions) if queries == "text" else None,
        )

    def rebuild(broken: Callable[[Items], pa.StringArray]) -> Assembly:
        ids = broken(items["image"])
        if not len(ids):
            return assembly
        left, note = _without_images(part, ids)
        rebuilt = _of_collection(**{**given, "part": left, "whole": _without_images(whole, ids)[0]})
        return replace(rebuilt, notes=(*note, *rebuilt.notes))

    parts = [chosen] if folds == 1 else cut(chosen, folds)
    folded = {name: [task(name, fold) for fold in parts] for name in names}
    notes = []
    without = chosen.images.num_rows - pc.count_distinct(chosen.captions["image_id"]).as_py()
    if without and "i2t" in names and relevance == LINKS:
        notes.append(f"{counted(without, 'images', 'have')} no caption; among the candidates, but no query")
    if len(chosen.languages) > 1 and "i2t" in names:
        notes.append(f"i2t: captions in {len(chosen.languages)} languages are searched together; language= keeps one")
    assembly = Assembly(
        part.name,
        fingerprint,
        split,
        str(choice),
        {name: folded[name][0] if folds == 1 else task(name, chosen) for name in names},
        folded,
        rebuild,
        _listed(chosen.captions),
        chosen if gallery == "split" else pool,
        tuple(notes),
        _carried([whole]),
    )
    return assembly


ALIKE = "same_text_as"
"""The column of a result's captions that names the first caption of the same text; absent where all texts differ."""


def _listed(captions: pa.Table) -> pa.Table:
    """The captions that take part as a result keeps them: without their texts, but with those that are alike."""
    listed, number = captions.select(["id", "image_id"]), captions["text"].combine_chunks().dictionary_encode().indices
    if pc.count_distinct(number).as_py() == len(number):
        return listed
    _, first, text = np.unique(number.to_numpy(zero_copy_only=False), return_index=True, return_inverse=True)
    return listed.append_column(ALIKE, captions["id"].take(pa.array(first[text])))


def _without_images(collection: Collection, ids: pa.StringArray) -> tuple[Collection, list[str]]:
    """The collection without these images and their captions, and a note."""
    left = pc.invert(pc.is_in(collection.images["id"], ids))
    missing = collection.images["id"].filter(pc.invert(left)).to_pylist()
    if not missing:
        return collection, []
    examples = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
    note = f"{counted(len(missing), 'images')} could not be encoded; set aside, with the captions: {examples}"
    return collection.keep_images(left), [note]


def _of_tasks(
    source: TaskSource | Task | Sequence[Task], split: str | None, relevance: str | None, names: Sequence[str] | None
) -> Assembly:
    source_tasks = _tasks(source, split, names)
    tasks = {
        task.name: replace(
            task,
            qrels={relevance or task.relevances[0]: task.judgements(relevance)},
            labels=label_kinds(task.queries, task.labels),
        )
        for task in source_tasks
    }
    _check_judged(tasks.values())

    def rebuild(broken: Callable[[Items], pa.StringArray]) -> Assembly:
        rebuilt, notes = {}, []
        for name, task in tasks.items():
            rebuilt[name], lost = without_items(task, broken(task.queries), broken(task.documents))
            notes += [f"{name}: {line}" for line in lost]
        folds = {name: [task] for name, task in rebuilt.items()}
        return replace(assembly, tasks=rebuilt, folds=folds, notes=(*notes, *assembly.notes)) if notes else assembly

    assembly = Assembly(
        source=_joined(task.source for task in source_tasks),
        fingerprint=_joined(task.source_fingerprint for task in source_tasks),
        split=split or _joined(task.split for task in source_tasks),
        choice="",
        tasks=tasks,
        folds={name: [task] for name, task in tasks.items()},
        rebuild=rebuild,
        notes=tuple(dict.fromkeys(note for task in source_tasks for note in task.notes)),
        carried=_carried(
            [side for task in source_tasks for side in (task.queries, task.documents)],
            [f"{task.name}: {task.condition}" for task in source_tasks if task.condition != PLAIN],
        ),
    )
    return assembly


def _check_judged(tasks: Iterable[Task]) -> None:
    for task in tasks:
        if len(task.judgements()) == 0 and len(task.queries):
            raise CollectionError(
                f"{task.source}, split {task.split}: there are no judgements of the task {task.name}; nothing can be "
                "measured.",
                hint="where the makers of a benchmark keep them, hand the answers in: visir submit (visir.submit)",
                code="no-judgements-task-nothing",
            )


def _joined(values: Iterable[str]) -> str:
    """Different values as one line."""
    return " + ".join(dict.fromkeys(values))


def _carried(holders: Sequence[Collection | Items], changed: Sequence[str] = ()) -> dict[str, Any]:
    """What was done to a collection, or to the items of tasks, as conditions of the protocol."""
    changed = [*changed, *(str(held.corrupted) for held in holders if held.corrupted is not None)]
    injected = [str(held.injected) for held in holders if held.injected is not None]
    conditions: dict[str, Any] = {}
    if changed:
        conditions["perturbation"] = "; ".join(dict.fromkeys(changed))
    if injected:
        conditions["extra"] = {"shortcuts": "; ".join(dict.fromkeys(injected))}
    return conditions


def _tasks(source: TaskSource | Task | Sequence[Task], split: str | None, names: Sequence[str] | None) -> list[Task]:
    """The tasks of a source by name, in its order."""
    if isinstance(source, (Task, Sequence)):
        tasks = [source] if isinstance(source, Task) else list(source)
        if split is not None:
            raise ConfigurationError(
                f"a task is one split already ({tasks[0].split}); {split!r} was asked for.", hint="leave split out"
            )
        known = [task.name for task in tasks]
        repeated = [name for name in known if known.count(name) > 1]
        if repeated:
            raise ConfigurationError(f"two tasks are called {repeated[0]!r}.", hint="give each a name of its own")
    else:
        part = source.split(split)
        known = list(part.tasks)
        tasks = []
    for name in names or ():
        if name not in known:
            raise ConfigurationError(f"unknown task {name!r}", hint=nearest(name, known), code="unknown-task")
    chosen = [name for name in known if names is None or name in names]
    if not chosen:
        raise CollectionError("there is no task to evaluate.", hint=f"known: {', '.join(known) or 'none'}")
    if tasks:
        return [task for task in tasks if task.name in chosen]
    return [part.task(name) for name in chosen]


def check_not_empty(part: Collection, split: str) -> None:
    """Check that there is something to search and to measure."""
    where = part.name if split == "all" else f"{part.name}, split {split!r}"
    if part.images.num_rows == 0:
        raise CollectionError(f"{where}: there are no images.", hint="is it the right split?")
    if part.captions.num_rows == 0:
        raise CollectionError(
            f"{where}: {counted(part.images.num_rows, 'images')} but no captions; there is nothing to measure by.",
            hint="to search images without captions, use: visir search",
            code="no-captions-to-measure",
        )

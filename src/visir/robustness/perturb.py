"""Perturbing texts and whole collections, and counting what could be perturbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.collections import open_collection
from visir.errors import CollectionError, ConfigurationError, VisirError, nearest
from visir.records import Collection, TaskFile, strings
from visir.records.items import GROUP, IMAGE, Items
from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation, Profile, find, names_in
from visir.robustness.random_stream import RandomStream

ORIGINAL = "original_text"
CHANGED = "text_changed"
COLUMNS = (ORIGINAL, CHANGED)
"""What a perturbed collection keeps in `caption_facts`: the text as it was, and whether it is another one now."""


@dataclass(frozen=True, eq=False)
class Perturbed:
    """Perturbed texts, in the order of the originals."""

    texts: pa.StringArray  # (n,) the perturbed texts
    changed: NDArray[np.bool_]  # (n,) whether each text differs from its original
    description: str  # what was done: "nearby_char", "char_swap (severity 2, seed 1)"

    @property
    def coverage(self) -> float:
        """The share that changed, from 0 to 1; NaN where there are no texts."""
        return float(np.mean(self.changed)) if len(self.changed) else float("nan")


def perturb_texts(
    texts: Sequence[str] | pa.StringArray,
    ids: Sequence[str] | pa.StringArray,
    name: str,
    *,
    severity: int = 1,
    seed: int = 0,
    profile: Profile = "sound",
) -> Perturbed:
    """Perturb each text in one way."""
    # What is drawn depends on (seed, name, id) alone: a text comes out the same in any order, in any company and in any
    # process. A text that cannot be perturbed (no adjective, one word) comes back unchanged, and `changed` says so.
    # texts: (n,) the texts.
    # ids: (n,) the id of each text.
    before = strings(texts)
    keys = strings(ids).to_pylist()
    if len(before) != len(keys):
        raise VisirError(
            f"{len(before):,} texts, but {len(keys):,} ids.", hint="give every text an id", code="texts-ids"
        )
    if severity < 1:
        raise VisirError(
            f"severity {severity}: there is nothing to do.", hint="give 1 or more", code="there-is-nothing-to"
        )
    if profile not in ("sound", "paper"):
        raise VisirError(
            f"unknown profile {profile!r}", hint=nearest(str(profile), ("sound", "paper")), code="unknown-profile"
        )
    steps = [find(step) for step in name.split("+")]
    after = before
    for step in steps:
        change = _change(step, profile)
        after = pa.array(
            [
                change(caption, RandomStream(seed, step.name, key), severity)
                for caption, key in zip(_captions(after, step), keys, strict=True)
            ],
            pa.string(),
        )
    changed = pc.not_equal(before, after).to_numpy(zero_copy_only=False)
    return Perturbed(after, changed, _describe(name, steps, severity, seed, profile))


def perturb(
    source: Any,
    name: str,
    *,
    images: Any = None,
    split: str | None = None,
    severity: int = 1,
    seed: int = 0,
    profile: Profile = "sound",
) -> Collection:
    """Perturb the captions of a collection; ids, links, splits, judgements and pictures stay as they are.

    `caption_facts` gets the columns "original_text" and "text_changed" beside those that are there, so that what
    changed is known wherever the collection goes. The name says what was done: "flickr30k, nearby_char".

    Args:
        source: The collection, or what `visir.open` takes.
        name: As in `perturb_texts`, as are `severity`, `seed` and `profile`.
        images: Where the pictures of the source are.
        split: Keep one split, or several ("train+val").

    Raises:
        ConfigurationError: Where captions are perturbed already, or end in the digits of injected shortcuts.

    Example:
        >>> import visir
        >>> perturbed = visir.perturb("scenes:12?size=64", "shuffle_all_words")
        >>> perturbed.name, coverage(perturbed)
        ('scenes, shuffle_all_words', 1.0)
        >>> perturbed.caption_facts["original_text"][0].as_py()
        'A mid-sized stripy white armchair is standing out in a meadow.'
        >>> perturbed.captions["text"][0].as_py()
        'meadow stripy mid-sized standing A in armchair white is a out.'
    """
    if not isinstance(name, str):
        raise ConfigurationError(
            f"the name of a perturbation must be a text, not {name!r}.",
            hint="visir.perturb(source, 'char_swap'); several in one: 'char_swap+synonym_noun'",
        )
    for step in name.split("+"):
        find(step)  # before anything is read
    collection = open_collection(source, images=images, split=split)
    if collection.injected is not None:
        raise ConfigurationError(
            f"{collection.name} carries shortcuts ({collection.injected}), whose digits would be perturbed as well.",
            hint="perturb first and inject afterwards: inject(perturb(visir.shortcuts.plain(collection), …), …)",
            code="carries-shortcuts-whose-digits",
        )
    facts = collection.caption_facts
    if facts is not None and (columns := [column for column in COLUMNS if column in facts.column_names]):
        raise ConfigurationError(
            f"{collection.name} is perturbed already: caption_facts has the column {columns[0]!r}.",
            hint=f"begin from the original; several perturbations go in one step: perturb(collection, '{name}+…')",
            code="caption-facts-column",
        )
    ids = collection.captions["id"]
    perturbed = perturb_texts(collection.captions["text"], ids, name, severity=severity, seed=seed, profile=profile)
    about = pa.table(
        {"caption_id": ids, ORIGINAL: collection.captions["text"], CHANGED: pa.array(perturbed.changed, pa.bool_())}
    )
    captions = collection.captions
    return replace(
        collection,
        name=f"{collection.name}, {perturbed.description}",
        captions=captions.set_column(captions.schema.get_field_index("text"), "text", perturbed.texts),
        caption_facts=_merged(facts, about, collection.name),
    )


def coverage(collection: Collection) -> float:
    """The share of a perturbed collection's captions that changed, from 0 to 1; NaN where there are none."""
    facts = collection.caption_facts
    if facts is None or CHANGED not in facts.column_names:
        raise CollectionError(
            f"{collection.name} is not perturbed.", hint="perturb(collection, name) first", code="not-perturbed"
        )
    return float(pc.mean(facts[CHANGED]).as_py() or 0.0) if facts.num_rows else float("nan")


def _change(step: Perturbation, profile: Profile) -> Callable[[TaggedCaption, RandomStream, int], str]:
    if profile == "sound":
        return step.change
    if step.paper is None:
        raise VisirError(
            f"{step.name} has no paper profile: the released code does not have it.",
            hint=f"profile='sound'; the released code has {', '.join(names_in('paper'))}",
            code="released-code-not",
        )
    return step.paper


def _captions(texts: pa.StringArray, step: Perturbation) -> list[TaggedCaption]:
    if step.needs_words:
        from visir.robustness.language.tagging import cut

        return cut(texts).sentences()
    return [TaggedCaption(text, (), (), (), ()) for text in texts.to_pylist()]


def _describe(name: str, steps: Sequence[Perturbation], severity: int, seed: int, profile: Profile) -> str:
    """The name, and behind it whatever is not the default and matters."""
    more = []
    if severity != 1 and any(step.severity for step in steps):
        more.append(f"severity {severity}")
    if seed != 0:
        more.append(f"seed {seed}")
    if profile != "sound":
        more.append(profile)
    return f"{name} ({', '.join(more)})" if more else name


def _merged(facts: pa.Table | None, about: pa.Table, where: str) -> pa.Table:
    """The columns of both, by caption id, in the order of the captions; null where the old ones knew nothing."""
    if facts is None:
        return about
    row = pc.index_in(about["caption_id"], strings(facts["caption_id"]))
    older = facts.drop_columns(["caption_id"]).take(row)
    merged = about
    for name in older.column_names:
        merged = merged.append_column(name, older[name])
    return merged.select(["caption_id", *older.column_names, *COLUMNS])


# Choices of word order, made of any collection: each picture chooses its caption among the same words in other orders.

ORDERS = ("shuffle_nouns_and_adj", "shuffle_allbut_nouns_and_adj", "shuffle_within_trigrams", "shuffle_trigrams")
"""ARO's four wrong captions."""


def order_choices(
    source: Any,
    *,
    images: Any = None,
    split: str | None = None,
    orders: Sequence[str] = ORDERS,
    seed: int = 0,
) -> TaskFile:
    """Make a choice task of a collection: a picture, its caption, and the caption's words in other orders."""
    collection = open_collection(source, images=images, split=split)
    captions = collection.captions
    ids, texts = captions["id"].combine_chunks(), captions["text"].combine_chunks()
    wrong = {order: perturb_texts(texts, ids, order, seed=seed).texts.to_pylist() for order in orders}
    rows: list[int] = []
    judged: list[str] = []
    pools: list[tuple[str, str]] = []
    documents: dict[str, str] = {}
    for row, (key, text) in enumerate(zip(ids.to_pylist(), texts.to_pylist(), strict=True)):
        others = {values[row]: order for order, values in reversed(wrong.items()) if values[row] != text}
        if not others:
            continue
        rows.append(row)
        candidates = {f"{key}/caption": text} | {f"{key}/{order}": other for other, order in others.items()}
        documents |= candidates
        judged.append(f"{key}/caption")
        pools += [(key, candidate) for candidate in candidates]
    chosen = pa.array(np.array(rows, np.int64))
    queries, owners = ids.take(chosen), captions["image_id"].combine_chunks().take(chosen)
    pictures = collection.items("image")
    assert pictures.places is not None
    places = pictures.places.take(pc.index_in(owners, pictures.ids))
    nothing = [""] * len(rows)
    judgements = {"split": nothing, "query_id": queries, "document_id": judged, "grade": [1.0] * len(rows)}
    pooled = [[""] * len(pools), *map(list, zip(*pools, strict=True))]
    return TaskFile(
        f"{collection.name}, order of words",
        Items(queries, None, places, pictures.root, "images", collection.name),
        Items.of_texts(documents, title="captions", name=collection.name),
        pa.table(judgements),
        pa.table(pooled, names=["split", "query_id", "document_id"]),
        "i2t",
        f"{collection.source}; orders: {', '.join(orders)}, seed {seed}",
        labels=pa.table({"query_id": queries, GROUP: queries, IMAGE: owners}),
        ties="pessimistic",
        measures=("all_first",),
    )

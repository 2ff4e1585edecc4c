"""Collections, items, tasks, judgements, runs and vectors in a notebook."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.records import (
    IMAGES,
    Catalogue,
    Collection,
    Embeddings,
    EncoderCard,
    Items,
    MultiVectorEmbeddings,
    Qrels,
    Run,
    Task,
    Vectors,
)
from visir.reports.page import Block, Fold, GalleryEntry, Paragraph, QueryGallery, Strip, Tile, inline
from visir.reports.shown import BUDGET, PICTURES, ShownItems, first_captions
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts, some_rows
from visir.reports.words import task_words

SHOWN = 12
"""Pictures of a collection: enough to see what it is of."""


def collection_blocks(collection: Collection) -> list[Block]:
    """The counts, and pictures from all over the collection."""
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(collection.images["split"]).to_pylist()}
    splits = [f"{split} {counts[split]:,}" for split in collection.splits if split]
    heading = facts(
        collection.name,
        (collection.images.num_rows, "images"),
        (collection.captions.num_rows, "captions"),
        f"splits: {', '.join(splits)}" if splits else "",
        f"judgements: {', '.join(collection.relevances)}" if collection.judgements.num_rows else "",
    )
    items = collection.items("image").take(some_rows(collection.images.num_rows, SHOWN))
    ids = items.ids.to_pylist()
    captions = first_captions(collection, ids)
    shown = ShownItems([(items, ids)], budget=BUDGET, alternatives=captions)
    tiles = [
        Tile(captions.get(name, ""), shown.picture(items, name), captions.get(name, name), hint=name) for name in ids
    ]
    where = [Paragraph(inline("from {}", collection.source), "soft")] if collection.source else []
    return [heading, *([Strip(tiles, is_ranked=False, is_large=True)] if tiles else []), *where]


def collection_arrow(collection: Collection) -> pa.Table:
    """One row per caption: `image_id`, `path`, `archive`, `split`, `caption_id`, `text`."""
    # An image without a caption has one row, where `caption_id` and `text` are null.
    captions = collection.captions.rename_columns(["caption_id", "text", "image_id"])
    rows = pc.index_in(captions["image_id"], collection.images["id"].combine_chunks())
    bare = pc.invert(pc.is_in(collection.images["id"], pc.unique(captions["image_id"])))
    table = pa.concat_tables([collection.images.take(rows), collection.images.filter(bare)])
    table = table.rename_columns(["image_id", *IMAGES.names[1:]])
    nulls = pa.nulls(table.num_rows - captions.num_rows, pa.string())
    for name in ("caption_id", "text"):
        table = table.append_column(name, pa.chunked_array([*captions[name].chunks, nulls]))
    return table


# Items: some of their pictures or texts.


def items_blocks(items: Items) -> list[Block]:
    """The count, and items from all over the list."""
    part = items.take(some_rows(len(items), SHOWN))
    names = part.ids.to_pylist()
    shown = ShownItems([(part, names)], budget=BUDGET)
    tiles = [shown.tile(part, name) for name in names]
    heading = facts(items.name or "Items", (len(items), items.title), items.holding)
    return [heading, *([Strip(tiles, is_ranked=False, is_large=True)] if tiles else [])]


# A catalogue: counts, and some products with their titles.


def catalogue_blocks(catalogue: Catalogue) -> list[Block]:
    """The counts, and products from all over the catalogue."""
    heading = facts(
        catalogue.name,
        (catalogue.products.num_rows, "products"),
        (catalogue.categories.num_rows, "categories"),
        (catalogue.attributes.num_rows, "attributes"),
    )
    return [heading, *items_blocks(catalogue.items)[1:]]


# A task: what searches what, and a few queries with their right answers.


TASK_QUERIES, TASK_ANSWERS = 3, 5
"""How many queries are shown, and how many right answers of each."""


def task_blocks(task: Task) -> list[Block]:
    """The counts, and queries from all over the task."""
    heading = facts(
        task_words(task.name),
        f"of {task.source}" if task.source else "",
        f"split {task.split}" if task.split != "all" else "",
        f"{counted(len(task.queries), task.queries.title)} search {counted(len(task.documents), task.documents.title)}",
        *(f"{items.title}: {items.holding}" for items in (task.queries, task.documents) if items.is_mixed),
        f"judgements: {', '.join(task.relevances)}",
        "" if task.pools is None else str(task.pools),
    )
    qrels = task.judgements()
    queries = qrels.queries.filter(pc.is_in(qrels.queries, task.queries.ids))
    names = queries.take(pa.array(some_rows(len(queries), TASK_QUERIES))).to_pylist()
    right = {
        query: [document for document, grade in of_query.items() if grade > 0]
        for query, of_query in qrels.select(names).to_dict().items()
    }
    present = set(task.documents.ids.to_pylist()) if names else set()
    right = {query: [name for name in documents if name in present] for query, documents in right.items()}
    lists = [
        (task.queries, names),
        (task.documents, [name for documents in right.values() for name in documents[:TASK_ANSWERS]]),
    ]
    shown = ShownItems(lists, budget=BUDGET)
    entries = []
    for name in names:
        query = shown.tile(task.queries, name)
        tiles = [shown.tile(task.documents, document, right=True) for document in right.get(name, [])[:TASK_ANSWERS]]
        more = max(0, len(right.get(name, [])) - TASK_ANSWERS)
        entries.append(
            GalleryEntry(
                f"“{query.text}”" if query.text else "",
                counted(len(right.get(name, [])), "right answers"),
                [Strip(tiles, more=more, is_ranked=False)],
                [] if query.picture is None else [query],
            )
        )
    return [heading, QueryGallery(entries)]


# Judgements: the counts, and those of the first queries.


QRELS_QUERIES = 5
"""Of how many queries the judgements are shown."""


def qrels_blocks(qrels: Qrels) -> list[Block]:
    """The counts, and the first queries."""
    positives = int((qrels.grades > 0).sum())
    heading = facts(
        f"Judgements “{qrels.name}”",
        (len(qrels), "queries"),
        (len(qrels.documents), "pairs"),
        counted(positives, "positives"),
    )
    part = qrels.rows(np.arange(min(QRELS_QUERIES, len(qrels)))).to_dict()
    rows = [
        [query, ", ".join(f"{name} ({grade:g})" for name, grade in list(of_query.items())[:6])]
        for query, of_query in part.items()
    ]
    note = f"the first {len(rows)} of {len(qrels):,} queries" if len(qrels) > len(rows) else ""
    table = Table.of([Column("query"), Column("documents (grade)")], rows, notes=[note] if note else [])
    return [heading, *([table] if rows else [])]


# A run: the first queries with their answers, as pictures or texts where the run knows them.


RUN_QUERIES = 4
"""How many queries are shown."""
RUN_TEXTS = 10
"""How many answers are shown of each query where they are texts."""
RUN_DEPTH = 3
"""The same where only their ids are known."""


def run_blocks(run: Run) -> list[Block]:
    """The first queries, each with its best answers."""
    heading = facts(run.name, run.task, (len(run), "queries"), f"among {run.gallery.counted}")
    names = run.queries[:RUN_QUERIES].to_pylist()
    documents = run.document_items
    if documents is None:
        return [heading, _ids(run, names)]
    has_pictures = documents.places is not None
    each = max(1, PICTURES // len(names)) if has_pictures else RUN_TEXTS
    answers = {name: run.answer(name, each) for name in names}
    lists = [(documents, [document for answer in answers.values() for document, _ in answer])]
    if run.query_items is not None:
        lists.append((run.query_items, names))
    shown = ShownItems(lists, budget=BUDGET)
    entries = [_entry(run, name, answers[name], documents, shown) for name in names]
    more: list[Block] = []
    if len(run) > len(names):
        more.append(Paragraph(f"and {counted(len(run) - len(names), 'more queries')}", "soft"))
    return [*([heading] if len(run) > 1 else []), QueryGallery(entries), *more]


def _entry(run: Run, name: str, answer: list[tuple[str, float]], documents: Items, shown: ShownItems) -> GalleryEntry:
    text, pictures = "", []
    if run.query_items is not None:
        tile = shown.tile(run.query_items, name)
        text = tile.text if run.query_items.texts is not None else ""
        pictures = [] if tile.picture is None else [Tile(picture=tile.picture, alt=tile.alt, hint=name)]
    tiles = []
    for rank, (document, score) in enumerate(answer, 1):
        tile = shown.tile(documents, document, f"{rank} · {score:.3f}")
        lines = () if tile.text else (document.rpartition("/")[2],)
        tiles.append(Tile(tile.text, tile.picture, tile.alt, tile.note, None, document, lines))
    title = f"“{text}”" if text else ("" if pictures else name)
    verdict = inline("{} best of {}", len(tiles), run.gallery.counted)
    return GalleryEntry(title, verdict, [Strip(tiles)], pictures)


def _ids(run: Run, names: list[str]) -> Table:
    """The ids of the best answers, where the run knows no more of them."""
    rows: list[list[Cell]] = [
        [name, rank, *answer] for name in names for rank, answer in enumerate(run.answer(name, RUN_DEPTH), 1)
    ]
    note = f"the first {len(names)} of {len(run):,} queries" if len(run) > len(names) else ""
    columns = [Column("query"), Column("rank", 0), Column("document"), Column("score", 4)]
    return Table.of(columns, rows, notes=[note] if note else [])


# Embeddings: their shape, where they come from, and the card of their encoder.


EMBEDDINGS_ROWS, EMBEDDINGS_WORDS = 5, 8
"""Of how many sparse vectors how many words are shown."""


def embeddings_blocks(shown: Vectors | EncoderCard) -> list[Block]:
    """Shape, origin and card; of sparse vectors the heaviest words."""
    if isinstance(shown, EncoderCard):
        return [_card(shown)]
    count = counted(len(shown), f"{shown.modality} vectors")
    parts: list[Block]
    if isinstance(shown, Embeddings):
        length = "of length 1" if shown.normalised else ""
        parts = [facts(count, f"{shown.dimension:,} dimensions", str(shown.vectors.dtype), length)]
    elif isinstance(shown, MultiVectorEmbeddings):
        count = counted(len(shown), f"{shown.modality} multi-vectors")
        vectors_each = f"{len(shown.vectors) / max(len(shown), 1):,.1f} vectors each"
        parts = [facts(count, vectors_each, f"{shown.dimension:,} dimensions", str(shown.vectors.dtype))]
    else:
        each = len(shown.terms) / len(shown) if len(shown) else 0.0
        rows = [
            [name, ", ".join(f"{word} {weight:.2f}" for word, weight in shown.words(name, EMBEDDINGS_WORDS))]
            for name in shown.ids[:EMBEDDINGS_ROWS].to_pylist()
        ]
        parts = [
            facts(count, f"{each:.1f} words each", f"of {shown.vocabulary.name} ({shown.dimension:,} terms)"),
            Table.of([Column("id"), Column("heaviest words")], rows),
        ]
    parts.append(Paragraph(", ".join(filter(None, [f"by {shown.encoder.name}", shown.origin])), "soft"))
    return [*parts, Fold("Card of the encoder", [_card(shown.encoder)])]


def _card(card: EncoderCard) -> Table:
    rows: list[tuple[str, str]] = []
    for name, value in card.to_dict().items():
        if isinstance(value, dict):
            rows += [(f"{name.split('_')[0]}: {key}", str(entry)) for key, entry in value.items()]
        elif value is not None:
            rows.append((name, str(value)))
    return Table.pairs(rows)

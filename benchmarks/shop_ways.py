"""Libraries of products, searched by words, by vectors and by both, on queries made from three real catalogues.

    python benchmarks/shop_ways.py --data FOLDER [--model st:all-MiniLM-L6-v2] [--queries 150] [--seed 0]

Each catalogue becomes a table, and the table a library (`visir.index`), once with the attributes and once without them.
The model encodes titles; there are no pictures. The queries, their four forms and the judgements are those of
`product_queries.py`. Prints nDCG@10 of each form, and over all forms nDCG@10 and recall@10 with 95 % intervals (the
forms of one query are one unit). The weight of the vectors in visir was chosen with --seed 1 --catalogues flipkart.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import visir
from product_queries import FORMS, PLACES, Queries, make_queries, opened
from visir.evaluation.measures import measure
from visir.library import Library, Query
from visir.records import Catalogue, Gallery, Run
from visir.records.catalogue import ATTRIBUTES
from visir.records.category_tree import CategoryTree
from visir.retrieval.ranks import ranks_of
from visir.stats import estimate

MEASURES = ("ndcg@10", "recall@10")
WAYS: dict[str, dict[str, Any]] = {
    "words": {"by": "words"},
    "vectors": {"by": "vectors"},
    "both (default)": {"by": "both"},
    "both, rrf": {"by": "both", "fusion": "rrf"},
    **{f"both, weighted, {weight}": {"by": "both", "fusion": "weighted", "weight": weight} for weight in (0.1, 0.5)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with products_flipkart_1050 and the like")
    parser.add_argument("--catalogues", default=",".join(PLACES))
    parser.add_argument("--model", default="st:all-MiniLM-L6-v2")
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    for name in wanted.catalogues.split(","):
        catalogue = opened(name, wanted.data)
        queries = make_queries(name, catalogue, seed=wanted.seed, most=wanted.queries)
        for attributes in (True, False):
            with tempfile.TemporaryDirectory() as temporary:
                table = write(Path(temporary, "shop.csv"), catalogue, attributes=attributes)
                with visir.index(table, wanted.model, out=Path(temporary, "shop.visir"), images="none") as library:
                    report(f"{name}, attributes {'shown' if attributes else 'hidden'}", library, catalogue, queries)


def write(path: Path, catalogue: Catalogue, *, attributes: bool) -> Path:
    """The table of a catalogue: id, title, category path, and the attributes as JSON."""
    tree = CategoryTree.of(catalogue)
    paths = {
        category: json.dumps([tree.names[above] for above in [*tree.ancestors(row).tolist(), row]])
        for row, category in enumerate(tree.ids)
    }
    values: dict[str, dict[str, str]] = {}
    for owner, name, value in zip(*(catalogue.attributes[one].to_pylist() for one in ATTRIBUTES.names), strict=True):
        values.setdefault(owner, {})[name] = value
    products = catalogue.products
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "title", "category_path", *(["attributes"] if attributes else [])])
        for product, title, category in zip(*(products[name].to_pylist() for name in ("id", "title", "category_id")),
                                            strict=True):  # fmt: skip
            own = [json.dumps(values.get(product, {}))] if attributes else []
            writer.writerow([product, title or "", paths[category], *own])
    return path


def report(name: str, library: Library, catalogue: Catalogue, queries: Queries) -> None:
    print(f"\n### {name}: {len(library):,} products\n")
    print(f"| by | {' | '.join(FORMS)} | nDCG@10, all | recall@10, all |")
    print(f"|---|{'---|' * (len(FORMS) + 2)}")
    gallery = Gallery.of("text", catalogue.products["id"].combine_chunks(), "all products")
    for way, options in WAYS.items():
        tables = {}
        for form in FORMS:
            texts = queries.of(form)
            run = answers(library, texts, options, gallery)
            tables[form] = measure(ranks_of(run, queries.qrels.select(list(texts))), MEASURES)
        cells = [f"{100 * tables[form]['ndcg@10'].to_numpy().mean():.1f}" for form in FORMS]
        units = [query for form in FORMS for query in tables[form]["query_id"].to_pylist()]
        for measured in MEASURES:
            values = np.concatenate([tables[form][measured].to_numpy() for form in FORMS])
            low, high = estimate(values, units).ends
            cells.append(f"{100 * values.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]")
        print(f"| {way} | {' | '.join(cells)} |", flush=True)


def answers(library: Library, texts: dict[str, str], options: dict[str, Any], gallery: Gallery) -> Run:
    """The answers of a library as a run over the ids of the table."""
    rows: list[tuple[str, str, float]] = []
    for query, text in texts.items():
        hits = library.search(Query(text=text, k=100, read_prices=False, **options))
        rows += [(query, hit.item.product or "", hit.score) for hit in hits]
    names, products, scores = zip(*rows, strict=True)
    return Run.ranked("library", "t2t", names, products, np.array(scores), gallery)


if __name__ == "__main__":
    main()

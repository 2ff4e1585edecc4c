"""The text index of products at scale: making, saving, opening, updating and searching it, measured.

    python benchmarks/product_text_scale.py --data FOLDER [--products 200000]

A product joins the title and category of one product of two real catalogues (fashion with titles, Flipkart) with the
attributes of another, drawn with a seed, and has a word of its own, so that the vocabulary grows with the catalogue.
Opening and the first query are measured in a process of their own. Prints seconds, of processor and wall.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

QUERIES = ("black cotton shirt for men", "navy blue casual tshirts", "blakc coton shrit", "ceramic mug", "m77")
SOURCES = ("products_fashion_1601/styles_4998_with_titles.csv.xz", "products_flipkart_1050/products.jsonl.xz")
REPEATS = 20


@contextmanager
def measured(label: str, times: int = 1) -> Iterator[None]:
    processor, wall = time.process_time(), time.perf_counter()
    yield
    spent = [1000 * (end - start) / times for end, start in
             ((time.process_time(), processor), (time.perf_counter(), wall))]  # fmt: skip
    print(f"{label:44} {spent[0]:10.1f} ms processor {spent[1]:10.1f} ms wall", flush=True)


def search(folder: str) -> None:
    with measured("import"):
        from visir.retrieval.text.index import TextIndex
    with measured("open"):
        index = TextIndex.open(folder)
    with measured("first query"):
        index.search("black shirt")
    with measured("first misspelt query"):
        index.search("blakc shirt")
    for query in QUERIES:
        with measured(f"query: {query}", REPEATS):
            for _ in range(REPEATS):
                index.search(query)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with products_flipkart_1050 and the like")
    parser.add_argument("--products", type=int, default=200_000)
    parser.add_argument("--open", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open:
        search(arguments.open)
        return
    import numpy as np

    from visir.products import open_catalogue
    from visir.products.text_search import catalogue_texts
    from visir.retrieval.text.index import TextIndex

    parts: dict[str, list[str]] = {"title": [], "category": [], "attributes": []}
    for source in SOURCES:
        for field, texts in catalogue_texts(open_catalogue(arguments.data / source, images="none"))[1].items():
            parts[field] += texts
    n = arguments.products
    first, second = np.random.default_rng(0).integers(0, len(parts["title"]), (2, n)).tolist()
    texts = {
        "title": [f"{parts['title'][row]} m{number}" for number, row in enumerate(first)],
        "category": [parts["category"][row] for row in first],
        "attributes": [parts["attributes"][row] for row in second],
    }
    ids = [f"p{number:07}" for number in range(n)]
    with tempfile.TemporaryDirectory() as scratch:
        with measured(f"build {n:,}"):
            index = TextIndex.build(ids, texts)
        print(f"{len(index.terms):,} words, {len(index.postings.documents):,} postings")
        with measured("save"):
            folder = index.save(Path(scratch, "index"))
        print(f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:.1f} MB")
        changed = {**texts, "title": [f"{title} new" if row % (n // 100) == 0 else title
                                      for row, title in enumerate(texts["title"])]}  # fmt: skip
        with measured("update, 100 products changed"):
            index.updated(ids, changed)
        with measured("update, nothing changed"):
            index.updated(ids, texts)
        subprocess.run([sys.executable, __file__, "--open", str(folder)], check=True)


if __name__ == "__main__":
    main()

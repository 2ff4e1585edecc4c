"""A shop of many products: reading its table, indexing, an update of 1 %, searches with filters, facets, and memory.

python benchmarks/shop.py [--products 20000] [--vectors | --words] [--folder FOLDER] [--queries 200] [--judged 200]

Products are drawn: titles, three levels of categories, brands, prices, attributes. With pictures (the default) each
product but one in twenty has a picture of 48 pixels, and the model counts colours and words, so that the times are the
library's own work. `--vectors` gives vectors of 128 dimensions instead, under the ids of the products, and no picture.
`--words` takes no model.

With words and vectors, `--judged N` also asks N queries such as "red cotton dress under 40", half of them misspelt, by
words, by vectors and by both. Relevant is a product of this kind, colour and material below the price. Titles say all
of that, so the level is high: it shows that what should be found is found, not how well people find things.
"""

from __future__ import annotations

import argparse
import csv
import resource
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import visir
from visir.evaluation.measures import measure as take
from visir.library import Library
from visir.library.query import By
from visir.records import Gallery, Qrels, Run
from visir.retrieval.ranks import ranks_of
from visir.stats import estimate

COLOURS = {"red": (200, 30, 30), "green": (30, 160, 60), "blue": (30, 60, 200), "black": (20, 20, 20),
           "white": (240, 240, 240), "yellow": (230, 210, 40)}  # fmt: skip
KINDS = {
    "Clothes": {"Women": ["dress", "skirt", "blouse", "coat"], "Men": ["shirt", "trousers", "jacket", "tie"]},
    "Home": {"Kitchen": ["kettle", "pan", "knife", "mug"], "Garden": ["chair", "lantern", "hose", "pot"]},
    "Toys": {"Wooden": ["train", "horse", "puzzle", "blocks"], "Outdoor": ["ball", "kite", "scooter", "swing"]},
}
BRANDS = [f"{first}{second}" for first in ("Nor", "Ald", "Vel", "Mira") for second in ("ano", "une", "ex", "is", "ora")]
MATERIALS = ("cotton", "steel", "oak", "plastic", "wool", "glass")
DIMENSION = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=20_000)
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--vectors", action="store_true", help="Give vectors, and no pictures.")
    model.add_argument("--words", action="store_true", help="Take no model: words alone.")
    parser.add_argument("--judged", type=int, default=0, metavar="N", help="Measure the ways on N queries.")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="Where to make the shop; a temporary folder otherwise.")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measure(wanted.folder or Path(temporary), wanted)


def measure(folder: Path, wanted: argparse.Namespace) -> None:
    products, vectors = wanted.products, wanted.vectors
    folder.mkdir(parents=True, exist_ok=True)
    rows = draw_rows(products, pictures=not vectors)
    table = folder / "shop.csv"
    write(table, rows)
    if vectors:
        given(folder / "vectors.npz", rows)
    else:
        draw_pictures(folder / "pictures", rows)
    timed("the table alone", lambda: visir.open(f"products:{table}?images=none"))
    model = "none" if wanted.words else f"npz:{folder / 'vectors.npz'}" if vectors else encoder()
    library = timed("first index", lambda: visir.index(table, model, out=folder / "shop.visir"))
    assert len(library) == products, (len(library), products)
    timed("nothing new", library.update)
    changed = np.random.default_rng(1).choice(products, max(1, products // 100), replace=False)
    for row in changed:
        rows[row]["price"] = f"{float(rows[row]['price']) + 1:.2f}"
    write(table, rows)
    report = timed("1 % other prices", library.update)
    assert report is not None and (report.encoded, report.rewritten) == (0, len(changed)), report
    for number, row in enumerate(changed):
        if number % 3 == 0:
            rows[row]["title"] += " new"
    gone = {rows[row]["id"] for row in changed[1::3]}
    rows = [row for row in rows if row["id"] not in gone]
    write(table, rows)
    report = timed("1 % with other titles, or gone", library.update)
    assert report is not None and report.deleted == len(gone), report
    print(f"peak memory of all that: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")
    search(library, rows, wanted.queries, texts=not vectors)
    if wanted.judged:
        judge(library, rows, wanted.judged)


def search(library: Library, rows: Sequence[dict[str, str]], queries: int, *, texts: bool) -> None:
    """Time searches: plain, with a filter that was seen before, with a new one, facets, and over HTTP."""
    draws = np.random.default_rng(2)

    def ask(number: int) -> dict[str, str]:
        row = rows[int(draws.integers(len(rows)))]
        return {"text": " ".join(row["title"].split()[:2])} if texts else {"like": row["id"]}

    library.search(**ask(0), where="price < 10")  # columns are read when a field is first compared
    _ = library.facets()
    spread("search", queries, lambda n: library.search(**ask(n), k=36))
    for by in ways(library) if texts else ():
        spread(f"search by {by}", queries, lambda n, by=by: library.search(**ask(n), by=by, k=36))
        spread(
            f"search by {by}, misspelt", queries, lambda n, by=by: library.search(misspelt(ask(n)["text"]), by=by, k=36)
        )
    spread("search, price < 50", queries, lambda n: library.search(**ask(n), k=36, where="price < 50"))
    spread("search, another price, brand and category each time", queries, lambda n: library.search(
        **ask(n), k=36, where=[f"price < {5 + n}", f"brand = {BRANDS[n % len(BRANDS)]}"], category="Home"))  # fmt: skip
    if texts:
        spread("search, 'under N' in the words", queries, lambda n: library.search(f"red dress under {n + 5}", k=36))
    spread("facets, another price each time", min(queries, 100), lambda n: library.facets(where=f"price < {5 + n}"))
    with library.serve(port=0, background=True, open_browser=False) as service:
        address = f"{service.url.rstrip('/')}/v1/libraries/{library.name}"

        def get(path: str) -> bytes:
            with urllib.request.urlopen(f"{address}/{path}") as answer:
                return bytes(answer.read())

        spread("HTTP: a page of 36 by name, with a filter", min(queries, 100), lambda n: get(
            f"items?k=36&where=%5B%7B%22field%22%3A%22price%22%2C%22op%22%3A%22%3C%22%2C%22value%22%3A{n + 20}%7D%5D"
        ))  # fmt: skip
        spread("HTTP: facets", min(queries, 100), lambda n: get(
            f"facets?where=%5B%7B%22field%22%3A%22price%22%2C%22op%22%3A%22%3C%22%2C%22value%22%3A{n + 20}%7D%5D"
        ))  # fmt: skip
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def ways(library: Library) -> list[By]:
    """What the texts of a library can be searched by."""
    return ["words", "vectors", "both"] if library.systems else ["words"]


def misspelt(text: str) -> str:
    """The text with two letters of its last word exchanged."""
    return f"{text[:-2]}{text[-1]}{text[-2]}"


def judge(library: Library, rows: Sequence[dict[str, str]], count: int) -> None:
    """nDCG@10 and recall@10 of each way, with 95 % intervals."""
    draws = np.random.default_rng(5)
    queries: dict[str, str] = {}
    relevant: list[tuple[str, str]] = []
    while len(queries) < count:
        colour, kind, material, *_ = rows[int(draws.integers(len(rows)))]["title"].split()
        most = int(draws.integers(5, 60))
        fitting = [row["id"] for row in rows
                   if row["title"].split()[:3] == [colour, kind, material] and float(row["price"]) < most]  # fmt: skip
        query = f"q{len(queries)}"
        if 0 < len(fitting) <= 20:
            words = f"{colour} {material} {misspelt(kind) if len(queries) % 2 else kind}"
            queries[query] = f"{words} under {most}"
            relevant += [(query, product) for product in fitting]
    qrels = Qrels.of(*zip(*relevant, strict=True))
    gallery = Gallery.of("text", [row["id"] for row in rows], "all products")
    for by in ways(library):
        found = [(query, hit.item.product or "", hit.score)
                 for query, text in queries.items() for hit in library.search(text, by=by, k=100)]  # fmt: skip
        names, products, scores = zip(*found, strict=True)
        run = Run.ranked(by, "t2t", names, products, np.array(scores), gallery)
        table = take(ranks_of(run, qrels), ("ndcg@10", "recall@10"))
        cells = []
        for name in ("ndcg@10", "recall@10"):
            values = table[name].to_numpy()
            low, high = estimate(values, table["query_id"].to_pylist()).ends
            cells.append(f"{name} {100 * values.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]")
        print(f"by {by}: {', '.join(cells)}, {count} queries", flush=True)


def draw_rows(products: int, *, pictures: bool) -> list[dict[str, str]]:
    draws = np.random.default_rng(0)
    paths = [(top, middle, kind) for top, below in KINDS.items() for middle, kinds in below.items() for kind in kinds]
    rows = []
    for number in range(products):
        colour = list(COLOURS)[draws.integers(len(COLOURS))]
        top, middle, kind = paths[draws.integers(len(paths))]
        category = f"{top} > {middle} > {kind.title()}" + (" | Sale" if draws.random() < 0.1 else "")
        rows.append(
            {
                "id": f"P{number:06}",
                "title": f"{colour} {kind} {MATERIALS[draws.integers(6)]} {number}",
                "category": "" if draws.random() < 0.02 else category,
                "price": f"{draws.lognormal(3, 0.8):.2f}",
                "brand": BRANDS[draws.integers(len(BRANDS))],
                "material": MATERIALS[draws.integers(6)],
                "stock": str(draws.integers(0, 100)),
                "image": f"pictures/{number:06}.png" if pictures and draws.random() > 0.05 else "",
            }
        )
    return rows


def write(path: Path, rows: Sequence[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def draw_pictures(folder: Path, rows: Sequence[dict[str, str]]) -> None:
    """A picture of 48 pixels for each product that has one: its colour, with noise of its own."""
    folder.mkdir(exist_ok=True)
    draws = np.random.default_rng(3)
    for row in rows:
        if row["image"]:
            pixels = np.full((48, 48, 3), COLOURS[row["title"].split()[0]], np.int16) + draws.integers(
                -15, 15, (48, 48, 1)
            )
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder.parent / row["image"])


def given(path: Path, rows: Sequence[dict[str, str]]) -> None:
    """A unit vector for each product, near that of its kind."""
    draws = np.random.default_rng(4)
    kinds = draws.normal(size=(64, DIMENSION)).astype(np.float32)
    near = [zlib.crc32(row["title"].split()[1].encode()) % 64 for row in rows]
    vectors = kinds[near] + draws.normal(size=(len(rows), DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.savez(path, image=vectors, image_ids=np.array([row["id"] for row in rows]))


def encoder() -> visir.Encoder:
    """Colours of a picture, hashed words of a text: what is measured is the library's work, not a model's."""
    names = list(COLOURS)

    def texts(values: list[str]) -> np.ndarray:
        vectors = np.zeros((len(values), 6 + 64), np.float32)
        for row, value in enumerate(values):
            for word in value.lower().split():
                vectors[row, names.index(word) if word in names else 6 + zlib.crc32(word.encode()) % 64] += 1
        return vectors

    def images(values: list[Image.Image]) -> np.ndarray:
        means = np.array([np.asarray(image, np.float32).reshape(-1, 3).mean(axis=0) for image in values])
        away = np.abs(means[:, None] - np.array(list(COLOURS.values()))[None]).sum(axis=2)
        return np.hstack([np.exp(-away / 60), np.full((len(values), 64), 1e-3)]).astype(np.float32)

    return visir.Encoder.wrap("colours and words", image=images, text=texts, version="1", batch_size=256)


def timed(name: str, work: Callable[[], object]) -> object:
    started, processor = time.perf_counter(), time.process_time()
    result = work()
    took = time.perf_counter() - started
    print(f"{name}: {took:,.1f} s ({time.process_time() - processor:,.1f} s of processor time)", flush=True)
    return result


def spread(name: str, queries: int, work: Callable[[int], object]) -> None:
    times = []
    for number in range(queries):
        started = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - started)
    half, most = np.percentile(times, [50, 95]) * 1000
    print(f"{name}: p50 {half:,.1f} ms, p95 {most:,.1f} ms", flush=True)


if __name__ == "__main__":
    main()

"""Search products by free text: what each part of the search adds, on queries made from three real catalogues.

    python benchmarks/product_text.py --data FOLDER [--tune] [--dense st:all-MiniLM-L6-v2] [--catalogues flipkart]

The queries are those of `product_queries.py`. `--tune` tries field weights, k1 and b on queries of the flipkart
catalogue that are drawn with another seed, and prints the best; the defaults of visir come from there. Fusion weights
are chosen there in every call. Prints a table for each catalogue: nDCG@10 of each form of the queries, and over all
forms nDCG@10 and recall@10 with 95 % intervals (the forms of one query are one unit), and milliseconds of processor
time a query.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from product_queries import FORMS, PLACES, SYNONYMS, Queries, make_queries, opened
from visir.evaluation.measures import measure
from visir.evaluation.text_weight import choose_fusion_weights
from visir.products.text_search import DEFAULTS, catalogue_texts
from visir.records import Catalogue, Embeddings, Items, Qrels, Run
from visir.retrieval.bm25 import Bm25
from visir.retrieval.fusion import fuse
from visir.retrieval.ranks import ranks_of
from visir.retrieval.text.index import Bm25F, TextIndex
from visir.retrieval.text.words import NearWords, Synonyms
from visir.stats import estimate

MEASURES = ("ndcg@10", "recall@10")
DEPTH = 100
TUNED, TUNING_SEED = "flipkart", 1
WORDS, HIDDEN = "BM25F + plurals + spelling", ", attributes hidden"
chosen: dict[str, dict[str, float]] = {}
"""The weights of the fusions, by what is hidden."""
Answer = Callable[[Mapping[str, str]], Run]


def rules() -> Synonyms:
    """A file with the words that the queries replace: what a shop would write, and complete by construction."""
    return Synonyms.of(f"{word}, {other}" for word, other in SYNONYMS.items())


def library(texts: list[str], bm25: Bm25, index: TextIndex, name: str) -> Answer:
    """The package bm25s over one text for each product, with an index that is made once."""
    import bm25s

    corpus = bm25.words(texts)
    engine = bm25s.BM25(k1=bm25.k1, b=bm25.b, method="lucene")
    engine.index(corpus, show_progress=False)

    def answer(queries: Mapping[str, str]) -> Run:
        lists = []
        for text in queries.values():
            words = [word for word in bm25.words([text])[0] if word in engine.vocab_dict]
            scores = engine.get_scores(words) if words else np.zeros(len(texts), np.float32)
            rows = np.argsort(-scores, kind="stable")[:DEPTH]
            lists.append((rows[scores[rows] > 0], scores[rows][scores[rows] > 0]))
        return run_of(name, queries, lists, index)

    return answer


def run_of(name: str, queries: Mapping[str, str], lists: list[tuple[Any, Any]], index: TextIndex) -> Run:
    return Run(
        name,
        "t2t",
        pa.array(list(queries)),
        np.concatenate([[0], np.cumsum([len(rows) for rows, _ in lists])]).astype(np.int64),
        index.ids,
        np.concatenate([rows for rows, _ in lists]).astype(np.int32),
        np.concatenate([scores for _, scores in lists]),
        index.gallery,
        DEPTH,
    )


def dense(encoder: Any, ids: list[str], texts: list[str], index: TextIndex) -> Answer:
    """Cosines of an encoder's vectors of the texts and of the query, every pair."""
    from visir.encoders.encoding import encode_items

    embeddings = encode_items(encoder, Items.of_texts(dict(zip(ids, texts, strict=True)), title="products"))
    assert isinstance(embeddings, Embeddings)
    vectors = np.asarray(embeddings.vectors)[embeddings.rows(index.ids.to_pylist())]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def answer(queries: Mapping[str, str]) -> Run:
        matrix = encoder.encode_texts(list(queries.values()), "query")
        matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        lists = []
        for scores in matrix @ vectors.T:
            rows = np.argsort(-scores, kind="stable")[:DEPTH]
            lists.append((rows, scores[rows]))
        return run_of("dense", queries, lists, index)

    return answer


def systems(catalogue: Catalogue, encoder: Any, has_snowball: bool) -> dict[str, Answer]:
    """The rows of the table by name, in order."""
    ids, fields = catalogue_texts(catalogue)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    everything = [" ".join(fields[field][row] for field in fields) for row in order]
    titles = [fields["title"][row] for row in order]
    built = {language: TextIndex.build(ids, fields, language=language, bm25f=DEFAULTS)
             for language in ("none", "plural", *(["english"] if has_snowball else []))}  # fmt: skip
    index = built["plural"]
    plain = TextIndex.build(
        [ids[row] for row in order], {"text": everything}, language="none", bm25f=Bm25F(k1=1.5, b=0.75)
    )
    equal = built["none"].with_settings(Bm25F())
    hidden = replace(index, bm25f=replace(DEFAULTS, weights={**DEFAULTS.weights, "attributes": 0}))
    rows: dict[str, Answer] = {
        "bm25s, titles, plurals removed (`bm25`)": library(titles, Bm25(), index, "bm25s"),
        "bm25s, one text": library(everything, Bm25(stemming="none", stop_words="none"), index, "bm25s"),
        "BM25 plain, one text": lambda queries: plain.run(queries, DEPTH, spelling=False),
        "BM25F, equal weights": lambda queries: equal.run(queries, DEPTH, spelling=False),
        "BM25F": lambda queries: built["none"].run(queries, DEPTH, spelling=False),
        "BM25F + plurals": lambda queries: index.run(queries, DEPTH, spelling=False),
    }
    if has_snowball:
        rows["BM25F + Snowball English"] = lambda queries: built["english"].run(queries, DEPTH, spelling=False)
    rows[WORDS] = lambda queries: index.run(queries, DEPTH)
    rows[WORDS + HIDDEN] = lambda queries: hidden.run(queries, DEPTH)
    synonyms = rules()
    rows["+ spelling + synonyms (file)"] = lambda queries: index.run(queries, DEPTH, synonyms=synonyms)
    if encoder is not None:
        near = NearWords.of(encoder, index.postings.words)
        rows["+ spelling + synonyms (vectors)"] = lambda queries: index.run(queries, DEPTH, near_words=near)
        short = [f"{title}, {category}" for title, category in zip(fields["title"], fields["category"], strict=True)]
        texts = {"": [everything[place] for place in np.argsort(order)], HIDDEN: short}
        for suffix, own in texts.items():
            add_dense(rows, suffix, rows[WORDS + suffix], dense(encoder, ids, own, index), index)
    return rows


def add_dense(rows: dict[str, Answer], suffix: str, words: Answer, vectors: Answer, index: TextIndex) -> None:
    """Dense search, and its fusion with words, where the encoder reads the query with the spelling corrected."""

    def runs(queries: Mapping[str, str]) -> dict[str, Run]:
        corrected = {query: index.plan(text).corrected for query, text in queries.items()}
        return {"words": words(queries), "dense": vectors(corrected)}

    rows["dense" + suffix] = vectors
    rows["dense, spelling corrected" + suffix] = lambda queries: runs(queries)["dense"]
    rows["fusion, rrf" + suffix] = lambda queries: fuse(runs(queries), depth=DEPTH)
    rows["fusion, weighted" + suffix] = lambda queries: fuse(
        runs(queries), fusion="weighted", weights=chosen[suffix], depth=DEPTH
    )


def values_of(answer: Answer, queries: Queries) -> tuple[dict[str, dict[str, tuple[list[str], Any]]], float]:
    """(measure → form → (ids of queries, values), milliseconds a query)."""
    values: dict[str, dict[str, tuple[list[str], Any]]] = {name: {} for name in MEASURES}
    spent, count = 0.0, 0
    for form in FORMS:
        texts = queries.of(form)
        began = time.process_time()
        run = answer(texts)
        spent, count = spent + time.process_time() - began, count + len(texts)
        table = measure(ranks_of(run, queries.qrels.select(list(texts))), MEASURES)
        for name in MEASURES:
            values[name][form] = (table["query_id"].to_pylist(), table[name].to_numpy())
    return values, 1000 * spent / count


def report(name: str, rows: dict[str, Answer], queries: Queries) -> None:
    counts = {form: len(queries.of(form)) for form in FORMS}
    print(f"\n### {name}: {', '.join(f'{count} {form}' for form, count in counts.items())}\n")
    print(f"| system | {' | '.join(FORMS)} | nDCG@10, all | recall@10, all | ms |")
    print(f"|---|{'---|' * (len(FORMS) + 3)}")
    for system, answer in rows.items():
        answer(dict(itertools.islice(queries.of("as drawn").items(), 2)))  # compiled, loaded
        values, cost = values_of(answer, queries)
        cells = [f"{100 * values['ndcg@10'][form][1].mean():.1f}" for form in FORMS]
        for measured in values.values():
            array = np.concatenate([part for _, part in measured.values()])
            units = [query for names, _ in measured.values() for query in names]
            low, high = estimate(array, units).ends
            cells.append(f"{100 * array.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]")
        print(f"| {system} | {' | '.join(cells)} | {cost:.1f} |", flush=True)


def tune(catalogue: Catalogue, queries: Queries) -> None:
    """Try settings one group after another, each from the best so far."""
    ids, fields = catalogue_texts(catalogue)

    def mean(index: TextIndex) -> float:
        values, _ = values_of(lambda texts: index.run(texts, 10, spelling=True), queries)
        return float(np.concatenate([part for _, part in values["ndcg@10"].values()]).mean())

    def show(index: TextIndex, value: float) -> None:
        print(f"{100 * value:.2f}  {index.language.name}  {index.bm25f.to_dict()}", flush=True)

    best = TextIndex.build(ids, fields)
    best_value = mean(best)
    show(best, best_value)
    choices: list[list[dict[str, Any]]] = [
        [{"weights": {"title": a, "category": b, "attributes": c}}
         for a in (1, 2, 4) for b in (1, 2, 4) for c in (0.5, 1)],
        [{"b": {"title": a, "category": b, "attributes": c}}
         for a in (0.0, 0.4, 0.75) for b in (0.0, 0.4, 0.75) for c in (0.4, 0.75)],
        [{"k1": k1} for k1 in (0.2, 0.5, 0.9, 1.2, 2.0)],
    ]  # fmt: skip
    for group in choices:
        for change in group:
            index = best.with_settings(replace(best.bm25f, **change))
            value = mean(index)
            if value > best_value + 1e-9:
                best, best_value = index, value
        show(best, best_value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with products_flipkart_1050 and the like")
    parser.add_argument("--catalogues", default=",".join(PLACES))
    parser.add_argument("--dense", default="", help="a text encoder, as visir.load takes it; none: no dense rows")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--queries", type=int, default=150)
    arguments = parser.parse_args()
    try:
        import snowballstemmer  # noqa: F401

        has_snowball = True
    except ImportError:
        has_snowball = False
    if arguments.tune:
        catalogue = opened(TUNED, arguments.data)
        tune(catalogue, make_queries(TUNED, catalogue, seed=TUNING_SEED, most=arguments.queries))
        return
    encoder = None
    if arguments.dense:
        import visir

        encoder = visir.load(arguments.dense)
        catalogue = opened(TUNED, arguments.data)
        queries = make_queries(TUNED, catalogue, seed=TUNING_SEED, most=arguments.queries)
        rows = systems(catalogue, encoder, False)
        texts = {f"{form}: {query}": text for (form, query), text in queries.texts.items()}
        pairs = [
            (f"{form}: {query}", document) for form, query in queries.texts for document in queries.relevant(query)
        ]
        judged = Qrels.of(*zip(*pairs, strict=True))
        for suffix in ("", HIDDEN):
            runs = {"words": rows[WORDS + suffix](texts), "dense": rows["dense, spelling corrected" + suffix](texts)}
            chosen[suffix] = choose_fusion_weights(runs, judged).weights
        print(f"weights of the fusion, chosen on {TUNED}, seed {TUNING_SEED}: {chosen}", flush=True)
    for name in arguments.catalogues.split(","):
        catalogue = opened(name, arguments.data)
        queries = make_queries(name, catalogue, seed=arguments.seed, most=arguments.queries)
        report(name, systems(catalogue, encoder, has_snowball), queries)


if __name__ == "__main__":
    main()

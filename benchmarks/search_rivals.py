"""visir's indexes beside today's libraries: SINDI, Seismic and kANNolo; SVS, FAISS and hnswlib. One run, one thread.

    python benchmarks/search_rivals.py sparse --vectors VECTORS [--queries splade-queries] [--without kannolo]
    python benchmarks/search_rivals.py dense --vectors VECTORS
    python benchmarks/search_rivals.py dense --documents 100000 --dimension 384         # generated

VECTORS is a folder of `caption_vectors.py`. The rivals are no dependencies of visir: `pip install pyvsag kannolo
pyseismic-lsr scalable-vs hnswlib` into an environment of its own; one that cannot be imported is passed over, and said.

Each system takes the cheapest of its efforts that finds the wanted share of the exact best ten (by ids); then all
systems take turns, five rounds, and the median of the processor time counts: beside other work that is steadier than
the clock. "Alone" is one call for each question. The table goes to `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import numpy as np
import pyarrow as pa

from visir.records import Embeddings, EncoderCard, SparseEmbeddings, Vocabulary
from visir.retrieval import build_index, open_index

K, ALONE, ROUNDS = 10, 300, 5
CARD = EncoderCard("given", "imported")
Batch = Callable[[Any], Any]


@dataclass
class System:
    """Something that searches; efforts are in order of their cost."""

    name: str
    seconds: float  # of processor time, to build
    bytes: float  # a document; 0 where it is not known
    efforts: Sequence[Any]
    together: Batch  # effort → (n, K) numbers of documents
    alone: Batch  # effort → nothing: the first `ALONE` questions, one by one


def measured(systems: list[System], truth: Any, targets: Sequence[float]) -> list[str]:
    """The lines of the table."""
    lines = ["| | recall wanted | found | effort | together q/s | alone q/s | build s | bytes a document |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    chosen: list[tuple[System, float, Any, float]] = []
    for system in systems:
        shares = []
        for effort in system.efforts:
            answers = np.asarray(system.together(effort))
            shares.append(float(np.mean([len({*a} & {*b}) / K for a, b in zip(answers, truth, strict=True)])))
            if shares[-1] >= max(targets):
                break
        for target in [1.0] if len(system.efforts) == 1 else targets:
            at = next((number for number, share in enumerate(shares) if share >= target), None)
            if at is None and len(system.efforts) > 1:
                print(f"{system.name}: {target} is not reached ({max(shares):.4f})")
                continue
            chosen.append((system, target, system.efforts[at or 0], shares[at or 0]))
    times = np.zeros((len(chosen), 2, ROUNDS))
    for turn in range(ROUNDS):
        for number, (system, _, effort, _) in enumerate(chosen):
            for column, ask in enumerate((system.together, system.alone)):
                start = time.process_time()
                ask(effort)
                times[number, column, turn] = time.process_time() - start
    for (system, target, effort, share), (together, alone) in zip(chosen, np.median(times, axis=2), strict=True):
        wanted, held = "exact" if target == 1 else target, f"{system.bytes:,.0f}" if system.bytes else ""
        lines.append(
            f"| {system.name} | {wanted} | {share:.4f} | {effort} | {len(truth) / together:,.0f} | "
            f"{ALONE / alone:,.0f} | {system.seconds:.1f} | {held} |"
        )
        print(lines[-1], flush=True)
    return lines


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    """What is made, and its processor time."""
    start = time.process_time()
    made = make()
    return made, time.process_time() - start


def by_visir(
    kind: str, index: Any, seconds: float, queries: Any, efforts: Sequence[dict[str, int]], size: float
) -> System:
    """An index of visir; alone as a service asks: lists of (id, score)."""
    queries_alone = [queries.select([name]) for name in queries.ids[:ALONE].to_pylist()]

    def together(effort: dict[str, int]) -> Any:
        run = index.search(queries, K, **effort)
        if len(run.indices) == len(queries) * K:
            return run.indices.reshape(-1, K)
        return [run.indices[a:b] for a, b in zip(run.offsets[:-1], run.offsets[1:], strict=True)]

    def alone(effort: dict[str, int]) -> None:
        ready = index.settings
        index.settings = type(ready)(**{**vars(ready), **effort})  # as an index that was built with this effort
        for query in queries_alone:
            index.lists(query, K)
        index.settings = ready

    return System(f"visir `{kind}`", seconds, size, efforts, together, alone)


def folder_bytes(folder: Path) -> int:
    """The size of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# Sparse vectors.


def read_sparse(path: Path, letter: str, side: Any) -> SparseEmbeddings:
    """Vectors of `caption_vectors.py`."""
    parts = np.load(path, allow_pickle=False)
    words = Vocabulary("wordpieces", pa.array(parts["words"].tolist()), np.queries_alone(len(parts["words"]), np.bool_))
    ids = pa.array([f"{letter}{i:07}" for i in range(len(parts["offsets"]) - 1)])
    return SparseEmbeddings(side, ids, parts["offsets"], parts["terms"], parts["values"], words, CARD)


def sindi(documents: SparseEmbeddings, queries: SparseEmbeddings) -> System:
    """SINDI of pyvsag, without pruning of documents, and with exact scores of what it finds."""
    import pyvsag

    counts = int(np.diff(documents.offsets).max())
    parameters = {
        "dtype": "sparse", "metric_type": "ip", "dim": counts,
        "index_param": {"term_id_limit": documents.dimension, "window_size": 50_000, "doc_prune_ratio": 0.0,
                        "use_quantization": True, "use_reorder": True},
    }  # fmt: skip
    index = pyvsag.Index("sindi", json.dumps(parameters))
    arrays = [documents.offsets.astype(np.uint32), documents.terms.astype(np.uint32), documents.values]
    _, seconds = timed(lambda: index.build(*arrays, np.arange(len(documents), dtype=np.int64)))
    asked = queries.offsets.astype(np.uint32), queries.terms.astype(np.uint32), queries.values
    queries_alone = [
        (np.array([0, b - a], np.uint32), asked[1][a:b], asked[2][a:b])
        for a, b in zip(queries.offsets[:ALONE].tolist(), queries.offsets[1 : ALONE + 1].tolist(), strict=True)
    ]
    efforts = [(candidates, pruned) for candidates in (20, 50, 100) for pruned in (0.6, 0.4, 0.2, 0.1)] + [(100, 0.0)]

    def parameters_of(effort: tuple[int, float]) -> str:
        return json.dumps(
            {"sindi": {"n_candidate": effort[0], "query_prune_ratio": effort[1], "term_prune_ratio": 0.0}}
        )

    def together(effort: tuple[int, float]) -> Any:
        found = index.knn_search(*asked, K, parameters_of(effort))[0]
        return np.asarray(found).reshape(-1, K)

    def alone(effort: tuple[int, float]) -> None:
        text = parameters_of(effort)
        for query in queries_alone:
            index.knn_search(*query, K, text)

    with tempfile.TemporaryDirectory() as folder:
        index.save(f"{folder}/sindi")
        size = folder_bytes(Path(folder)) / len(documents)
    return System("SINDI (pyvsag)", seconds, size, efforts, together, alone)


def kannolo(documents: SparseEmbeddings, queries: SparseEmbeddings) -> System:
    """A graph of sparse vectors."""
    import kannolo

    make = kannolo.SparsePlainHNSW.build_from_arrays
    index, seconds = timed(
        lambda: make(
            documents.terms, documents.values, documents.offsets.astype(np.int64), m=32, ef_construction=200
        )
    )  # fmt: skip
    offsets = queries.offsets.astype(np.int64)
    queries_alone = [queries.row(i) for i in range(ALONE)]

    def together(effort: int) -> Any:
        found = index.batch_search(queries.terms, queries.values, offsets, K, ef_search=effort, num_threads=1)
        return np.asarray(found[1]).reshape(-1, K)

    def alone(effort: int) -> None:
        for terms, values in queries_alone:
            index.search(terms, values, K, ef_search=effort)

    size = index.space_usage_bytes() / len(documents)
    return System("kANNolo", seconds, size, [10, 20, 30, 40, 60, 90, 140, 200, 300, 500, 1000], together, alone)


def seismic(documents: SparseEmbeddings, queries: SparseEmbeddings) -> System:
    """Seismic, with 400 postings a list."""
    import seismic

    text, ids = seismic.get_seismic_string(), [str(i) for i in range(len(documents))]
    dataset = seismic.SeismicDataset(dim=documents.dimension)
    dataset.add_documents_by_id(ids, documents.terms.astype(np.int64), documents.values, documents.offsets)
    index, seconds = timed(
        lambda: seismic.SeismicIndex.build_from_dataset(
            dataset, n_postings=400, centroid_fraction=0.1, min_cluster_size=2, summary_energy=0.4, num_threads=1
        )
    )
    parts = [queries.row(i) for i in range(len(queries))]
    names = np.array([str(i) for i in range(len(queries))], dtype=text)
    terms, values = [part[0].astype(text) for part in parts], [np.asarray(part[1], np.float32) for part in parts]
    efforts = [(cut, factor) for cut in (4, 8, 12, 20) for factor in (1.0, 0.9, 0.8, 0.7)]

    def together(effort: tuple[int, float]) -> Any:
        found = index.batch_search(names, terms, values, k=K, query_cut=effort[0], heap_factor=effort[1], num_threads=1)
        answers: dict[int, list[int]] = {int(one[0][0]): [int(entry[2]) for entry in one] for one in found if one}
        return [answers.get(i, []) for i in range(len(queries))]

    def alone(effort: tuple[int, float]) -> None:
        for i in range(ALONE):
            index.search(
                query_id=str(i), query_components=terms[i], query_values=values[i], k=K, query_cut=effort[0],
                heap_factor=effort[1],
            )  # fmt: skip

    return System("Seismic", seconds, 0.0, efforts, together, alone)


def sparse(given: Any) -> tuple[list[System], Any, str]:
    """The systems, what is right, and words about the data."""
    documents = read_sparse(given.vectors / "splade-documents.npz", "d", "image")
    queries = read_sparse(given.vectors / f"{given.queries}.npz", "q", "text")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        built, seconds = timed(lambda: build_index(documents, "inverted", folder))
        size = folder_bytes(folder) / len(documents)
        del built
    index = build_index(documents, "inverted")
    run = index.search(queries, K)
    truth = [run.indices[a:b] for a, b in zip(run.offsets[:-1], run.offsets[1:], strict=True)]
    budgets = [{"budget": int(1000 * 2 ** (step / 2))} for step in range(16)]
    systems = [
        by_visir("inverted", index, seconds, queries, [{"budget": 0}], size),
        by_visir("inverted", index, seconds, queries, budgets, size),
    ]
    about = (
        f"{len(documents):,} documents of {len(documents.terms) / len(documents):.0f} terms, {len(queries):,} "
        f"questions of {len(queries.terms) / len(queries):.0f} ({given.queries})"
    )
    return systems + rivals([sindi, kannolo, seismic], given, documents, queries), truth, about


# Dense vectors.


def generated(documents: int, dimension: int, questions: int) -> tuple[Any, Any]:
    """Vectors around 400 topics, and questions beside documents."""
    rng = np.random.default_rng(1)
    topics = rng.standard_normal((400, dimension), np.float32)
    made = topics[rng.integers(0, 400, documents)] + 1.2 * rng.standard_normal((documents, dimension), np.float32)
    near = made[rng.integers(0, documents, questions)] + 0.9 * rng.standard_normal((questions, dimension), np.float32)
    return made, near


def unit(vectors: Any) -> Any:
    """Vectors of length 1."""
    return np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def svs(documents: Any, queries: Any) -> System:
    """Vamana of SVS over float16: its LVQ codes end the process on processors that are not Intel's."""
    import svs

    build = svs.VamanaBuildParameters(alpha=0.95, graph_max_degree=64, window_size=200)
    half = documents.astype(np.float16)
    index, seconds = timed(lambda: svs.Vamana.build(build, half, svs.DistanceType.MIP, num_threads=1))
    with tempfile.TemporaryDirectory() as folder:
        index.save(f"{folder}/c", f"{folder}/g", f"{folder}/d")
        size = sum(folder_bytes(Path(folder) / part) for part in "cgd") / len(documents)
    queries_alone = [queries[i : i + 1] for i in range(ALONE)]

    def together(effort: int) -> Any:
        index.search_window_size = effort
        return index.search(queries, K)[0]

    def alone(effort: int) -> None:
        index.search_window_size = effort
        for query in queries_alone:
            index.search(query, K)

    return System(
        "SVS Vamana, float16", seconds, size, [10, 14, 20, 28, 40, 56, 80, 112, 160, 240, 400], together, alone
    )


def hnswlib(documents: Any, queries: Any) -> System:
    """A graph by its first authors."""
    import hnswlib

    index = hnswlib.Index("ip", documents.shape[1])
    index.init_index(len(documents), ef_construction=200, M=32)
    index.set_num_threads(1)
    _, seconds = timed(lambda: index.add_items(documents, num_threads=1))
    with tempfile.TemporaryDirectory() as folder:
        index.save_index(f"{folder}/graph")
        size = folder_bytes(Path(folder)) / len(documents)
    queries_alone = [queries[i : i + 1] for i in range(ALONE)]

    def together(effort: int) -> Any:
        index.set_ef(effort)
        return index.knn_query(queries, K, num_threads=1)[0]

    def alone(effort: int) -> None:
        index.set_ef(effort)
        for query in queries_alone:
            index.knn_query(query, K, num_threads=1)

    return System("hnswlib, M 32", seconds, size, [10, 14, 20, 28, 40, 56, 80, 112, 160, 240, 400], together, alone)


def fastscan(documents: Any, queries: Any) -> System:
    """Lists of 4-bit codes of FAISS, the best of which are scored by whole vectors."""
    import faiss

    dimension, lists = documents.shape[1], 512 if len(documents) < 60_000 else 1024
    name = f"IVF{lists},PQ{dimension // 2}x4fsr,RFlat"
    index = faiss.index_factory(dimension, name, faiss.METRIC_INNER_PRODUCT)

    def build() -> None:
        index.train(documents[: 60 * lists])
        index.add(documents)

    _, seconds = timed(build)
    queries_alone = [queries[i : i + 1] for i in range(ALONE)]
    efforts = [(4, 8), (4, 16), (6, 16), (6, 24), (8, 24), (8, 32), (8, 48), (12, 64), (16, 96), (16, 128), (20, 256)]

    def search_parameters(effort: tuple[int, int]) -> Any:
        inner = faiss.SearchParametersIVF(nprobe=effort[1])
        return faiss.IndexRefineSearchParameters(k_factor=effort[0], base_index_params=inner)

    def together(effort: tuple[int, int]) -> Any:
        return index.search(queries, K, params=search_parameters(effort))[1]

    def alone(effort: tuple[int, int]) -> None:
        parameters = search_parameters(effort)
        for query in queries_alone:
            index.search(query, K, params=parameters)

    return System(f"FAISS {name}", seconds, dimension / 4 + 8 + 4 * dimension, efforts, together, alone)


def dense(given: Any) -> tuple[list[System], Any, str]:
    """The systems, what is right, and words about the data."""
    import faiss

    faiss.omp_set_num_threads(1)
    if given.documents:
        documents, queries = generated(given.documents, given.dimension, 2000)
        about = "generated"
    else:
        documents, queries = (np.load(given.vectors / f"minilm-{side}.npy") for side in ("documents", "queries"))
        about = "captions by all-MiniLM-L6-v2"
    documents, queries = unit(documents), unit(queries)
    held = Embeddings("image", [f"d{i:07}" for i in range(len(documents))], documents, CARD)
    questions = Embeddings("text", [f"q{i:07}" for i in range(len(queries))], queries, CARD)
    exact = build_index(held, "exact")
    truth = exact.search(questions, K).indices.reshape(-1, K)
    systems = [by_visir("exact", exact, 0.0, questions, [{}], 4 * documents.shape[1])]
    steps = [10, 14, 20, 28, 40, 56, 80, 112, 160, 240, 400]
    efforts = {
        "hnsw": [{"ef_search": step} for step in steps],
        "ivf": [{"probes": probes, "rescore": rescore} for probes, rescore in
                ((8, 50), (12, 60), (16, 60), (24, 80), (32, 100), (48, 100), (64, 150), (128, 200))],
    }  # fmt: skip
    given.keep.mkdir(parents=True, exist_ok=True)
    for kind, some in efforts.items():
        folder = given.keep / f"{kind}-{about.split()[0]}-{len(held)}-{held.dimension}"
        build_time = folder.with_suffix(".txt")
        if not build_time.exists():
            _, seconds = timed(lambda: build_index(held, kind, folder))  # noqa: B023
            build_time.write_text(str(seconds))
        index: Any = open_index(folder)
        size = folder_bytes(folder) / len(held) + (4 * held.dimension if kind == "hnsw" else 0)
        systems.append(by_visir(kind, index, float(build_time.read_text()), questions, some, size))
        if kind == "hnsw":
            systems.append(same_graph(index._state.built.index, queries, steps))
    words = f"{len(held):,} vectors of {held.dimension} numbers ({about}), {len(questions):,} questions"
    return systems + rivals([svs, hnswlib, fastscan], given, documents, queries), truth, words


def same_graph(graph: Any, queries: Any, steps: list[int]) -> System:
    """The graph of visir's index, asked by FAISS alone: no ids, no exact scores."""
    import faiss

    queries_alone = [queries[i : i + 1] for i in range(ALONE)]

    def together(effort: int) -> Any:
        return graph.search(queries, K, params=faiss.SearchParametersHNSW(efSearch=effort))[1]

    def alone(effort: int) -> None:
        parameters = faiss.SearchParametersHNSW(efSearch=effort)
        for query in queries_alone:
            graph.search(query, K, params=parameters)

    return System("FAISS HNSW, the same graph", 0.0, 0.0, steps, together, alone)


def rivals(made: list[Any], given: Any, *data: Any) -> list[System]:
    """Those of the rivals that are wanted and installed."""
    systems = []
    for make in made:
        if make.__name__ in given.without:
            continue
        try:
            importlib.import_module({"sindi": "pyvsag", "fastscan": "faiss"}.get(make.__name__, make.__name__))
        except ImportError as fault:
            print(f"{make.__name__} is not installed: {fault}")
            continue
        systems.append(make(*data))
        print(f"built {systems[-1].name}: {systems[-1].seconds:.1f} s", flush=True)
    return systems


def main() -> None:
    """Measure one form of vectors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=("sparse", "dense"))
    parser.add_argument("--vectors", type=Path, default=Path("vectors"))
    parser.add_argument("--queries", default="splade-queries")
    parser.add_argument("--documents", type=int, default=0, help="so many generated queries_alone instead")
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "search-rivals")
    parser.add_argument("--name", default="", help="of the file in benchmarks/results")
    given = parser.parse_args()
    systems, truth, about = (sparse if given.form == "sparse" else dense)(given)
    lines = measured(systems, truth, (0.95, 0.99))
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    head = (
        f"{about}. One thread of {platform.processor() or platform.machine()}, load {load}, median of {ROUNDS} rounds."
    )
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / f"search_rivals_{given.name or given.form}.md").write_text("\n".join([head, "", *lines]) + "\n")


if __name__ == "__main__":
    main()

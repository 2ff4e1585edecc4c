"""What a search over very many images takes: memory, disk, machines, hours, queries per second, recall and money.

    python benchmarks/scale_plan.py --images 1e7
    python benchmarks/scale_plan.py --images 1e9 --memory 256 --replicas 2 --node-hour 2.0

Arithmetic only: every figure is a measured one (`MEASURED`, from the tables of docs/background/indexes.md,
docs/background/speed.md and docs/background/scale.md), an assumption that is an option here, or follows from these. GB
are 10⁹ bytes.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, fields

MEASURED = {
    # docs/background/indexes.md, "How fast" and "How cost grows"; docs/background/speed.md, "A million images"
    "sparse bytes a document": 5_393e6 / 1e6,
    "sparse build, core seconds a million": 25.5,
    "sparse expanded q/s, a million, one core": 1_177.0,
    "sparse plain q/s, a million, one core": 2_115.0,
    "hnsw q/s, 123,000 documents, one core": 3_842.0,
    "hnsw documents there": 123_000.0,
    "hnsw recall there": 0.992,
    "exact scores a second, one core": 137e6 / 2,
    "encoding, MobileNetV2, two cores": 98.9,
    # docs/background/scale.md, "What was measured for this page"
    "hnsw build, core seconds, 100,000 vectors of 256": 117.0,
    "thumbnail bytes": 10_277.0,
}


@dataclass(frozen=True)
class Plan:
    """What is asked for, and what is assumed."""

    images: float = 1e7  # how many
    dimension: int = 512  # of a vector
    m: int = 32  # neighbours of a vector in HNSW
    pq: int = 64  # bytes of a product-quantised vector
    memory: float = 64.0  # GB of a node
    cores: int = 16  # of a node
    usable: float = 0.75  # of the memory, for the index: the rest is the system, the page cache, growth
    queries: float = 100.0  # per second, to be answered
    load: float = 0.5  # of a node's throughput at which it is run: docs/background/scale.md, "Fan-out"
    graph_slower: float = 3.0  # HNSW over what was measured, when its vectors are far out of the cache (assumed)
    replicas: int = 2  # copies of each shard
    gpus: int = 8  # that encode
    gpu_rate: float = 1_500.0  # images a second and GPU, read and decoded (assumed)
    photo: float = 150e3  # bytes of a photo where it is read (assumed)
    changed: float = 0.01  # of the images, new or changed a day (assumed)
    node_hour: float = 1.0  # price of a node
    gpu_hour: float = 2.0  # price of a GPU
    gb_month: float = 0.1  # price of a GB of disk and month

    # -- bytes

    def vector_bytes(self) -> dict[str, float]:
        """Bytes of one vector in each form."""
        return {"float32": 4.0 * self.dimension, "float16": 2.0 * self.dimension, "int8": float(self.dimension),
                f"PQ, {self.pq} bytes": float(self.pq)}  # fmt: skip

    def graph_bytes(self) -> float:
        """Of one vector's neighbours in HNSW: 2 m in the lowest layer of 4 bytes each."""
        return 8.0 * self.m

    def kinds(self) -> dict[str, float]:
        """Bytes of memory an image, for each way to search."""
        form = self.vector_bytes()
        names = list(form)
        return {
            "exact, float16": form["float16"],
            "HNSW, float32": form["float32"] + self.graph_bytes(),
            "HNSW, int8": form["int8"] + self.graph_bytes(),
            f"HNSW, {names[3]}": form[names[3]] + self.graph_bytes(),
            "sparse, inverted": MEASURED["sparse bytes a document"],
        }

    # -- machines

    def shards(self, bytes_each: float) -> int:
        """So many that each fits the usable memory of one node."""
        return max(1, math.ceil(self.images * bytes_each / (self.memory * 1e9 * self.usable)))

    def node_rate(self, kind: str, documents: float) -> float:
        """Queries a second of one node with a shard of so many documents.

        Exact and sparse search: in proportion to the documents. HNSW: from the measured rate by the ratio of the
        logarithms of the numbers of documents, of the lengths of the vectors, and by `graph_slower`.
        """
        if kind.startswith("exact"):
            one = MEASURED["exact scores a second, one core"] * 512 / self.dimension / documents
        elif kind.startswith("sparse"):
            one = MEASURED["sparse expanded q/s, a million, one core"] * 1e6 / documents
        else:
            slower = max(1.0, math.log(max(documents, 2)) / math.log(MEASURED["hnsw documents there"]))
            one = MEASURED["hnsw q/s, 123,000 documents, one core"] / slower / self.graph_slower * 256 / self.dimension
        return one * self.cores

    def nodes(self, kind: str, bytes_each: float) -> tuple[int, int, float]:
        """(shards, copies of each, queries a second of all).

        Every query goes to every shard, so shards do not add queries a second: copies do. There are `replicas` at
        least, and as many as the queries take at `load`.
        """
        shards = self.shards(bytes_each)
        rate = self.node_rate(kind, self.images / shards)
        copies = max(self.replicas, math.ceil(self.queries / (self.load * rate)))
        return shards, copies, copies * rate

    # -- recall

    def late_ones(self, shards: int, asked: int, k: int = 10) -> float:
        """The share of the best k that is lost when each shard answers with its best `asked` ≤ k alone.

        Documents lie in shards at random: of the best k a shard has a binomial number B (k, 1/N). Lost are those above
        `asked`: N · E[max(B − asked, 0)] / k.
        """
        p = 1 / shards
        over = sum((b - asked) * math.comb(k, b) * p**b * (1 - p) ** (k - b) for b in range(asked + 1, k + 1))
        return shards * over / k

    # -- time and money

    def encoding_hours(self) -> float:
        """Hours for all images on all GPUs."""
        return self.images / (self.gpu_rate * self.gpus) / 3600

    def build_hours(self, kind: str, shards: int) -> float:
        """Hours until every shard's index is built, each on its own node.

        HNSW on all cores, at 70 % of their sum (assumed); the inverted index on one.
        """
        if kind.startswith("exact"):
            return 0.0
        documents = self.images / shards
        if kind.startswith("sparse"):  # by one core
            return MEASURED["sparse build, core seconds a million"] * documents / 1e6 / 3600
        one = MEASURED["hnsw build, core seconds, 100,000 vectors of 256"] / 1e5 * self.dimension / 256
        deeper = max(1.0, math.log(documents) / math.log(1e5))
        return one * deeper * documents / (0.7 * self.cores) / 3600

    def disk(self) -> dict[str, float]:
        """GB on disk, of one copy."""
        return {
            "vectors as made, float32 (the store)": self.images * 4 * self.dimension / 1e9,
            "thumbnails": self.images * MEASURED["thumbnail bytes"] / 1e9,
            "items, files, fields (SQLite, 500 bytes each assumed)": self.images * 500 / 1e9,
            "sparse index, if there is one": self.images * MEASURED["sparse bytes a document"] / 1e9,
        }

    def month(self, shards: int, copies: int) -> tuple[float, float]:
        """(nodes, disks) a month of 730 hours; disks hold the store and thumbnails twice, a backup among them."""
        kept = self.disk()
        stored = sum(gb for name, gb in kept.items() if not name.startswith("sparse"))
        return shards * copies * self.node_hour * 730, 2 * stored * self.gb_month


def table(head: list[str], rows: list[list[object]]) -> str:
    """A Markdown table; numbers of one kind look alike."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 1 else f"{value:.2g}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    lines = [head, ["---", *["---:"] * (len(head) - 1)], *[[cell(one) for one in row] for row in rows]]
    return "\n".join("| " + " | ".join(str(one) for one in line) + " |" for line in lines)


def report(plan: Plan) -> str:
    """Every table of docs/background/scale.md for one plan."""
    parts = [f"### {plan.images:,.0f} images, {plan.dimension} dimensions"]
    forms: list[list[object]] = [[name, one, plan.images * one / 1e9] for name, one in plan.vector_bytes().items()]
    parts.append(table(["vectors", "bytes each", "GB"], forms))
    rows: list[list[object]] = []
    money: list[list[object]] = []
    for kind, each in plan.kinds().items():
        shards, copies, rate = plan.nodes(kind, each)
        rows.append([kind, each, plan.images * each / 1e9, shards, copies, rate, plan.build_hours(kind, shards)])
        money.append([kind, shards * copies, *plan.month(shards, copies)])
    parts.append(table(["search", "bytes", "GB", "shards", "copies", "q/s of all", "build, h"], rows))
    parts.append(table(["price a month", "nodes", "of nodes", "of disks"], money))
    parts.append(table(["on disk", "GB"], [[name, gb] for name, gb in plan.disk().items()]))
    hours = plan.encoding_hours()
    read = plan.images * plan.photo / hours / 3600 / 1e9
    cpu = plan.images / MEASURED["encoding, MobileNetV2, two cores"] / 86_400
    parts.append(table(["encoding", ""], [
        [f"hours on {plan.gpus} GPUs at {plan.gpu_rate:,.0f} images/s each", hours],
        ["GPU hours", hours * plan.gpus],
        ["price", hours * plan.gpus * plan.gpu_hour],
        ["photos read meanwhile, GB/s", read],
        ["days on two cores with MobileNetV2 as measured here", cpu],
        [f"GPU hours a day for {plan.changed:.1%} changed", hours * plan.gpus * plan.changed],
    ]))  # fmt: skip
    counts = sorted({plan.shards(each) for each in plan.kinds().values()} | {2, 16})
    parts.append(table(["share of the best 10 lost by asking each shard for", "1", "2", "3", "5", "10"], [
        [f"{count:,} shards", *[f"{100 * plan.late_ones(count, asked):.3g} %" for asked in (1, 2, 3, 5, 10)]]
        for count in counts if count > 1
    ]))  # fmt: skip
    return "\n\n".join(parts)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for one in fields(Plan):
        kind = type(one.default)
        asked.add_argument(f"--{one.name.replace('_', '-')}", type=kind, default=one.default)
    print(report(Plan(**vars(asked.parse_args()))))


if __name__ == "__main__":
    main()

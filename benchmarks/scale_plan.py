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
    # docs/background/indexes.md, "Beside the fastest dense index"; docs/background/speed.md, "A million images"
    "sparse bytes a document": 2_592.0,
    "sparse build, core seconds a million": 46.0,
    "sparse expanded q/s, a million, one core": 1_314.0,
    "hnsw q/s, 123,000 documents, one core": 3_842.0,
    "hnsw documents there": 123_000.0,
    "hnsw recall there": 0.992,
    "exact scores a second, one core": 137e6 / 2,
    "encoding, MobileNetV2, two cores": 98.9,
    # docs/background/scale.md, "What was measured for this page"
    "hnsw build, core seconds, 100,000 vectors of 256": 117.0,
    "thumbnail bytes": 10_277.0,
    # docs/background/scale.md, "Codes in memory, vectors on disk": vectors of 512 dimensions
    "ivf bytes of a code": 139.0,
    "ivf q/s, a million, one core": 756.0,
    "ivf q/s, ten million, one core": 267.0,
    "ivf build, core seconds, a million": 512.0,
    "ivf build, core seconds, ten million": 4120.0,
    # docs/background/scale.md, "What was measured for this page"
    "id bytes, ivf": 108.0,
}
LOG_TEN = math.log(10.0)


@dataclass(frozen=True)
class Kind:
    """A way to search.

    Attributes:
        memory: Bytes of an image in memory, without its id.
        disk: Bytes of an image on a fast disk, from which the best are put in order.
        reads: Vectors that a query reads from there.
        recall: Of the best ten, beside exact search over the same vectors.
    """

    memory: float
    disk: float = 0.0
    reads: int = 0
    recall: str = ".99"


@dataclass(frozen=True)
class Plan:
    """What is asked for, and what is assumed."""

    images: float = 1e7  # how many
    dimension: int = 512  # of a vector
    m: int = 32  # neighbours of a vector in HNSW
    pq: int = 64  # bytes of a product-quantised vector
    memory: float = 64.0  # GB of a node
    cores: int = 16  # of a node
    id_bytes: float = 108.0  # of an image's id in memory: text, order, hash tables
    usable: float = 0.75  # of the memory, for the index: the rest is the system, the page cache, growth
    queries: float = 100.0  # per second, to be answered
    load: float = 0.5  # of a node's throughput at which it is run: docs/background/scale.md, "Fan-out"
    rescored: int = 100  # vectors that are read from disk for a query, where memory holds codes
    read_us: float = 100.0  # of one random read from a fast disk, in microseconds (assumed)
    reads_at_once: int = 32  # that such a disk answers in that time (assumed)
    disk_reads: float = 500e3  # that a node's disks answer in a second (assumed)
    bandwidth: float = 100.0  # GB/s that all cores of a node read from memory (assumed)
    upload: float = 2_000.0  # vectors a second that one process sends to an engine
    uploads: int = 8  # such processes (assumed)
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

    def kinds(self) -> dict[str, Kind]:
        """The ways to search that are compared. All find .985 of the best ten or more."""
        form = self.vector_bytes()
        product = f"PQ, {self.pq} bytes"
        graph, whole, many = self.graph_bytes(), form["float16"], self.rescored
        return {
            "exact, float16": Kind(whole, recall="1"),
            "HNSW, float32": Kind(form["float32"] + graph),
            "HNSW, int8, re-scored": Kind(form["int8"] + graph, whole, many),
            f"HNSW, {product}, re-scored": Kind(form[product] + graph, whole, many),
            "ivf, re-scored": Kind(MEASURED["ivf bytes of a code"] * self.dimension / 512, whole, many, ".985"),
            "sparse, inverted": Kind(MEASURED["sparse bytes a document"], recall=".987"),
        }

    # -- machines

    def shards(self, kind: Kind) -> int:
        """So many that each fits the usable memory of one node."""
        return max(1, math.ceil(self.images * (kind.memory + self.id_bytes) / (self.memory * 1e9 * self.usable)))

    def core_rate(self, name: str, documents: float) -> float:
        """Queries a second of one core over so many documents.

        Exact and sparse search: in proportion to the documents. HNSW: from the measured rate by the ratio of the
        logarithms of the numbers of documents, of the lengths of the vectors, and by `graph_slower`; over codes as over
        float32 (assumed). "ivf": by the power of the number of documents that leads through both measured rates.
        """
        if name.startswith("exact"):
            return MEASURED["exact scores a second, one core"] * 512 / self.dimension / documents
        if name.startswith("sparse"):
            return MEASURED["sparse expanded q/s, a million, one core"] * 1e6 / documents
        if name.startswith("ivf"):
            million, ten = (
                MEASURED["ivf q/s, a million, one core"],
                MEASURED["ivf q/s, ten million, one core"],
            )
            power = math.log(ten / million) / LOG_TEN
            return million * (documents / 1e6) ** power * 512 / self.dimension
        slower = max(1.0, math.log(max(documents, 2)) / math.log(MEASURED["hnsw documents there"]))
        return MEASURED["hnsw q/s, 123,000 documents, one core"] / slower / self.graph_slower * 256 / self.dimension

    def node_rate(self, name: str, kind: Kind, documents: float) -> float:
        """Queries a second of one node with a shard of so many documents: what its cores do, and its disks allow."""
        rate = self.core_rate(name, documents) * self.cores
        return min(rate, self.disk_reads / kind.reads) if kind.reads else rate

    def milliseconds(self, name: str, kind: Kind, documents: float) -> float:
        """Of one query alone over such a shard, on an idle node.

        Exact search: all cores, and all vectors come from memory once. The others: one core, and then the reads from
        disk, `reads_at_once` together.
        """
        if name.startswith("exact"):
            passing = kind.memory * documents / (self.bandwidth * 1e9)
            return 1000 * max(passing, 1 / (self.core_rate(name, documents) * self.cores))
        return 1000 / self.core_rate(name, documents) + kind.reads / self.reads_at_once * self.read_us / 1000

    def nodes(self, name: str, kind: Kind) -> tuple[int, int, float]:
        """(shards, copies of each, queries a second of all).

        Every query goes to every shard, so shards do not add queries a second: copies do. There are `replicas` at
        least, and as many as the queries take at `load`.
        """
        shards = self.shards(kind)
        rate = self.node_rate(name, kind, self.images / shards)
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

    def upload_hours(self) -> float:
        """Hours until all vectors are in an engine, one copy."""
        return self.images / (self.upload * self.uploads) / 3600

    def build_hours(self, name: str, shards: int) -> float:
        """Hours until every shard's index is built, each on its own node.

        HNSW and "ivf" on all cores, at 70 % of their sum (assumed); the inverted index on one.
        """
        if name.startswith("exact"):
            return 0.0
        documents = self.images / shards
        if name.startswith("ivf"):
            million, ten = (
                MEASURED["ivf build, core seconds, a million"],
                MEASURED["ivf build, core seconds, ten million"],
            )
            power = math.log(ten / million) / LOG_TEN
            seconds = million * (documents / 1e6) ** power * self.dimension / 512
            return seconds / (0.7 * self.cores) / 3600
        if name.startswith("sparse"):  # by one core
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

    def month(self, kind: Kind, shards: int, copies: int) -> tuple[float, float]:
        """(nodes, disks) a month of 730 hours.

        Disks hold the store and thumbnails twice, a backup among them, and each copy the vectors that it reads.
        """
        stored = sum(gb for name, gb in self.disk().items() if not name.startswith("sparse"))
        near = copies * self.images * kind.disk / 1e9
        return shards * copies * self.node_hour * 730, (2 * stored + near) * self.gb_month


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
    speed: list[list[object]] = []
    money: list[list[object]] = []
    for name, kind in plan.kinds().items():
        shards, copies, rate = plan.nodes(name, kind)
        documents = plan.images / shards
        each = kind.memory + plan.id_bytes
        rows.append([name, kind.recall, each, plan.images * each / 1e9, plan.images * kind.disk / 1e9, shards, copies])
        reads = min(rate, plan.queries) * kind.reads * shards
        alone = plan.milliseconds(name, kind, documents)
        speed.append([name, rate, alone, reads, plan.build_hours(name, shards)])
        money.append([name, shards * copies, *plan.month(kind, shards, copies)])
    head = ["search", "recall@10", "bytes in memory", "GB in memory", "GB of vectors on disk", "shards", "copies"]
    parts.append(table(head, rows))
    head = ["search", "q/s of all", "ms, one query alone", f"disk reads/s at {plan.queries:,.0f} q/s", "build, h"]
    parts.append(table(head, speed))
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
        [f"hours to an engine, {plan.uploads} processes, {plan.upload:,.0f} vectors/s each", plan.upload_hours()],
    ]))  # fmt: skip
    counts = sorted({plan.shards(kind) for kind in plan.kinds().values()} | {2, 16})
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

"""What a GPU gives: the same vectors as the CPU, and how fast it encodes, trains and searches. One command: `make gpu`.

    python benchmarks/gpu.py [--device cuda] [--quick] [--only parity encoding training sparse search] [--out FILE.json]

About ten minutes on one GPU, nothing is downloaded: models are real architectures with random weights
(`benchmarks/random_models.py`), pictures and captions are generated. `--device cpu --quick` runs the same code in its
smallest scale on a machine without a GPU.

- parity: vectors of the CPU in float32 beside those of the device. float32 has to agree: unit vectors differ by at most
  1e-4 (TF32, which visir turns off, differs by about 1e-3). bfloat16 is reported: the cosine with the vector of the
  CPU, and the share of items that have another nearest neighbour
- encoding: photos a second from JPEG files (640 × 480), decoding included, and the share of that time in which the
  device has no forward pass to compute
- training: steps a second of the second epoch, and the peak memory of the device (of the process on a CPU), for a CLIP
  that is tuned, and for a ResNet and a GRU from nothing
- sparse: the same for a sparse head over that CLIP
- search: exact search over single vectors (an index, whose vectors stay on the device after the first search), ranks of
  all positives in both directions, and MaxSim over all documents; scores, order and ranks have to be those of the CPU

A check that fails, or a part that cannot be run, is named in the table; then the command ends with status 1. The JSON
file has every figure, the versions, the device and the protocol.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import logging
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

import random_models
import visir
from visir.errors import EncoderError
from visir.records import Embeddings, EncoderCard, MultiVectorEmbeddings, Qrels, strings
from visir.retrieval.exact import search, search_both
from visir.retrieval.kinds import build_index
from visir.threads import usable_cores
from visir.training.processes import peak_memory

TOLERANCE = 1e-4
"""How far unit vectors of float32 on two devices may lie apart: rounding gives about 1e-6, TF32 about 1e-3."""
SECTIONS = ("parity", "encoding", "training", "sparse", "search")
PACKAGES = ("visir", "torch", "transformers", "open_clip_torch", "sentence-transformers", "numpy", "pillow")
DUAL = "clip-vit-base-patch32"


@dataclass(frozen=True)
class Scale:
    """How much is done.

    Attributes:
        small: Whether models have two layers and few pixels.
        items: Pictures and texts whose vectors are compared.
        photos: JPEG files that are encoded.
        scenes: Pictures that are trained on, of `side` pixels, with five captions each.
        batch: Pairs per step.
        documents, queries: Of the search with several vectors for each.
        vectors: Documents of the search with single ones.
        pictures: Of the ranks in both directions, with five texts each.
    """

    small: bool
    items: int
    photos: int
    scenes: int
    side: int
    batch: int
    documents: int
    queries: int
    vectors: int
    pictures: int


FULL = Scale(False, 128, 4096, 1000, 224, 128, 20_000, 500, 500_000, 5000)
QUICK = Scale(True, 8, 16, 40, 64, 16, 60, 5, 3000, 40)


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        section, subject: What was done, with what.
        figures: By name.
        fault: Why it does not count; empty where all is well.
    """

    section: str
    subject: str
    figures: dict[str, Any]
    fault: str = ""


@dataclass(frozen=True)
class Bench:
    """Where it runs, in which scale, and a folder for what is made."""

    device: str
    scale: Scale
    folder: Path

    def model(self, name: str) -> str:
        """The folder of one of the random models."""
        return str(random_models.make(name, self.folder / name, small=self.scale.small))

    def recipe(self, name: str) -> str:
        """A folder for a training that is not there yet."""
        return str(self.folder / f"{name}-{time.monotonic_ns()}")

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a GPU of NVIDIA or AMD."""
        return self.device.startswith("cuda")

    @property
    def scenes(self) -> str:
        """Generated pictures and captions."""
        return f"scenes:{self.scale.scenes}?size={self.scale.side}"

    def wait(self) -> None:
        """Until the device has done all its work."""
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def clear_peak(self) -> None:
        """Begin to count the peak memory anew, as far as the device can."""
        gc.collect()
        if self.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> dict[str, float]:
        """GiB that were held at most: of the device, or of the whole process on a CPU."""
        peaks = peak_memory()
        return {"peak GiB": round(peaks.get("cuda" if self.is_cuda else "process", 0) / 2**30, 2)}


def parity(bench: Bench) -> Iterator[Row]:
    """Vectors of the CPU beside those of the device."""
    pictures = [photo(number) for number in range(bench.scale.items)]
    texts = [caption(number) for number in range(bench.scale.items)]
    own = visir.train("from-scratch", bench.scenes, out=bench.recipe("own"), epochs=1, batch=32, device=bench.device)
    models = {name: bench.model(name) for name in random_models.MODELS} | {"own towers": str(own.path)}
    for name, place in models.items():
        reference = vectors_of(place, pictures, texts, "cpu", "float32")
        exact = vectors_of(place, pictures, texts, bench.device, "float32")
        for modality, expected in reference.items():
            distance = float(np.linalg.norm(expected - exact[modality], axis=1).max())
            fault = "" if distance <= TOLERANCE else f"differs by {distance:.1e}, allowed are {TOLERANCE:.0e}"
            yield Row("parity", f"{name}, {modality}s, float32", {"largest distance": distance}, fault)
        try:
            half = vectors_of(place, pictures, texts, bench.device, "bfloat16")
        except EncoderError as refused:
            yield Row("parity", f"{name}, bfloat16", {"refused": refused.message})
            continue
        for modality, expected in reference.items():
            cosines = (expected * half[modality]).sum(1)
            changed = float((nearest(expected) != nearest(half[modality])).mean())
            yield Row(
                "parity",
                f"{name}, {modality}s, bfloat16",
                {
                    "mean cosine": float(cosines.mean()),
                    "least cosine": float(cosines.min()),
                    "other nearest %": round(100 * changed, 1),
                },
            )


def encoding(bench: Bench) -> Iterator[Row]:
    """Photos a second, from files to vectors."""
    folder = bench.folder / "photos"
    write_photos(folder, bench.scale.photos)
    for name in ("clip-vit-base-patch32", "siglip-base-patch16-224", "openclip-rn50"):
        for dtype in ("float32", "bfloat16"):
            encoder = visir.load(bench.model(name), device=bench.device, dtype=dtype)
            busy = BusyTime(bench, encoder.pretrained_tower("image").network)
            best: dict[str, Any] = {}
            for _ in range(1 if bench.scale.small else 3):  # the first one warms up
                busy.clear()
                began = time.perf_counter()
                with tempfile.TemporaryDirectory() as empty:
                    visir.encode(encoder, str(folder), store=empty)
                bench.wait()
                seconds = time.perf_counter() - began
                figures = {
                    "photos/s": round(bench.scale.photos / seconds, 1),
                    "device waits %": round(100 * max(0.0, 1 - busy.seconds() / seconds), 1),
                }
                best = max(best, figures, key=lambda row: row.get("photos/s", 0.0))
            yield Row("encoding", f"{name}, {dtype}", best)
            del encoder, busy
            bench.clear_peak()


def training(bench: Bench) -> Iterator[Row]:
    """Steps a second and peak memory of two trainings."""
    precisions = ("float32", "bfloat16", "float16") if bench.is_cuda else ("float32",)
    resnet = {"tower": "resnet", "depth": 18 if bench.scale.small else 50, "weights": "random"}
    resnet |= {"size": 32 if bench.scale.small else 224, "augment": {"crop": 0.6, "flip": True}}
    recipes: dict[str, dict[str, Any]] = {
        "tune CLIP": {"recipe": "clip-finetune", "model": bench.model(DUAL)},
        "ResNet and GRU from nothing": {"recipe": "from-scratch", "image": resnet},
    }
    for subject, options in recipes.items():
        for precision in precisions:
            bench.clear_peak()
            run = visir.train(
                data=bench.scenes,
                out=bench.recipe("training"),
                epochs=2,
                batch=bench.scale.batch,
                device=bench.device,
                precision=precision,
                **options,
            )
            yield Row("training", f"{subject}, {precision}", {**speed(run, bench.scale.batch), **bench.peak()})


def sparse(bench: Bench) -> Iterator[Row]:
    """Steps a second and peak memory of a sparse head."""
    changes: list[dict[str, Any]] = [{}]
    if bench.is_cuda:
        changes += [{"precision": "bfloat16"}, {"compile": True}, {"precision": "bfloat16", "compile": True}]
    batch = 4 * bench.scale.batch
    for change in changes:
        bench.clear_peak()
        run = visir.sparsify(
            bench.scenes,
            bench.model(DUAL),
            out=bench.recipe("sparse"),
            epochs=3,
            batch=batch,
            device=bench.device,
            **change,
        )
        subject = ", ".join(["sparse head", *(f"{name} = {value}" for name, value in change.items())])
        yield Row("sparse", subject, {**speed(run, batch), **bench.peak()})


def searching(bench: Bench) -> Iterator[Row]:
    """Exact search on the cores and on the device: several vectors for each, single vectors, ranks."""
    rng = np.random.default_rng(0)
    queries = tokens(rng, "text", bench.scale.queries, 32)
    documents = tokens(rng, "image", bench.scale.documents, 64)
    answers: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for place, device in (("cores", None), ("device", bench.device)):
        search(tokens(rng, "text", 2, 32), documents, depth=10, device=device)  # warms up
        began = time.perf_counter()
        answers[place] = search(queries, documents, depth=10, device=device).run
        seconds[place] = time.perf_counter() - began
    same = answers["cores"].to_arrow().equals(answers["device"].to_arrow())
    figures = {f"queries/s, {place}": round(bench.scale.queries / spent, 1) for place, spent in seconds.items()}
    yield Row("search", f"MaxSim, {bench.scale.documents:,} documents", figures, "" if same else "other answers")
    yield _single_vectors(bench, rng)
    yield _ranks(bench, rng)


def _single_vectors(bench: Bench, rng: np.random.Generator) -> Row:
    """An index on the cores and on the device, where the second search finds the vectors already."""
    index = build_index(vectors(rng, "image", bench.scale.vectors), "exact")
    queries = vectors(rng, "text", bench.scale.queries)
    few = queries.take(np.arange(2))
    index.search(few, 10)  # warms up
    runs, figures = {}, {}
    for place, device in (("cores", ""), ("device, first", bench.device), ("device", bench.device)):
        began = time.perf_counter()
        runs[place] = index.search(queries, 10, device=device)
        figures[f"queries/s, {place}"] = round(bench.scale.queries / (time.perf_counter() - began), 1)
        began = time.perf_counter()
        index.search(few.take(np.arange(1)), 10, device=device)
        figures[f"ms for one, {place}"] = round(1000 * (time.perf_counter() - began), 2)
    del figures["ms for one, device, first"]
    same = all(run.to_arrow().equals(runs["cores"].to_arrow()) for run in runs.values())
    return Row("search", f"exact, {bench.scale.vectors:,} vectors", figures, "" if same else "other answers")


def _ranks(bench: Bench, rng: np.random.Generator) -> Row:
    """The exact ranks of all positives, five texts for each picture, as an evaluation takes them."""
    pictures, texts = vectors(rng, "image", bench.scale.pictures), vectors(rng, "text", 5 * bench.scale.pictures)
    owners = np.repeat(pictures.ids.to_pylist(), 5)
    qrels = {"t2i": Qrels.of(texts.ids, owners), "i2t": Qrels.of(owners, texts.ids)}
    found: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for place, device in (("cores", None), ("device", bench.device)):
        began = time.perf_counter()
        found[place] = search_both(pictures, texts, qrels=qrels, device=device)
        seconds[f"seconds, {place}"] = round(time.perf_counter() - began, 3)
    same = all(
        np.array_equal(one.ranks.ranks, found["device"][task].ranks.ranks)
        and one.run.to_arrow().equals(found["device"][task].run.to_arrow())
        for task, one in found["cores"].items()
    )
    subject = f"ranks, {bench.scale.pictures:,} pictures, {5 * bench.scale.pictures:,} texts"
    return Row("search", subject, seconds, "" if same else "other ranks")


class BusyTime:
    """How long a network computes: between events on a GPU's own clock, by the wall on a CPU."""

    def __init__(self, bench: Bench, network: torch.nn.Module) -> None:
        self._bench = bench
        self._spans: list[list[Any]] = []
        network.register_forward_pre_hook(lambda *_: self._spans.append([self._now()]))
        network.register_forward_hook(lambda *_: self._spans[-1].append(self._now()))

    def clear(self) -> None:
        """Begin to count anew."""
        self._spans.clear()

    def seconds(self) -> float:
        """The sum over all forward passes, which have ended."""
        if self._bench.is_cuda:
            return sum(begin.elapsed_time(end) for begin, end in self._spans) / 1000
        return sum(end - begin for begin, end in self._spans)

    def _now(self) -> Any:
        if not self._bench.is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def speed(run: Any, batch: int) -> dict[str, float]:
    """Steps and pairs a second of the last epoch."""
    rate = run.curve[-1].rate
    return {"steps/s": round(rate / batch, 2), "pairs/s": round(rate, 1)}


def vectors_of(
    place: str, pictures: list[Image.Image], texts: list[str], device: str, dtype: str
) -> dict[str, NDArray[np.float64]]:
    """(n, d) unit vectors of the pictures and the texts, of those that the model reads."""
    encoder = visir.load(place, device=device, dtype=dtype)
    made: dict[str, Any] = {}
    for modality, inputs, work in (
        ("image", pictures, encoder.encode_images),
        ("text", texts, encoder.encode_texts),
    ):
        if modality in encoder.modalities:
            parts = [work(inputs[start : start + 32]) for start in range(0, len(inputs), 32)]
            vectors = np.concatenate(parts).astype(np.float64)
            made[modality] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


def nearest(vectors: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n,) the nearest other row of each row."""
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    return scores.argmax(axis=1)


def photo(number: int) -> Image.Image:
    """A smooth picture with noise, 640 × 480, always the same for its number."""
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(
        (640, 480), Image.Resampling.BICUBIC
    )
    noise = rng.integers(0, 24, (480, 640, 3), dtype=np.uint8)
    return Image.fromarray(np.asarray(coarse) // 4 * 3 + noise)


def write_photos(folder: Path, count: int) -> None:
    """JPEG files; after the first 64 they repeat, each with other bytes behind its end, so that no two are one."""
    folder.mkdir()
    encoded = []
    for number in range(min(count, 64)):
        file = io.BytesIO()
        photo(number).save(file, "JPEG", quality=90)
        encoded.append(file.getvalue())
    for number in range(count):
        (folder / f"{number:06d}.jpg").write_bytes(encoded[number % len(encoded)] + number.to_bytes(4, "big"))


def caption(number: int) -> str:
    """A caption of two to eight known words."""
    rng = np.random.default_rng(number)
    return " ".join(rng.choice(random_models.WORDS, 2 + number % 7))


def vectors(rng: np.random.Generator, modality: Any, count: int) -> Embeddings:
    """Random unit vectors of 512 numbers."""
    matrix = rng.standard_normal((count, 512), np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    ids = strings([f"{modality}{number:06d}" for number in range(count)])
    return Embeddings(modality, ids, matrix, EncoderCard("random", "test"))


def tokens(rng: np.random.Generator, modality: Any, count: int, length: int) -> MultiVectorEmbeddings:
    """Random unit vectors in half precision, `length` for each item."""
    vectors = rng.standard_normal((count * length, 128), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    offsets = np.arange(count + 1, dtype=np.int64) * length
    ids = strings([f"{number:06d}" for number in range(count)])
    return MultiVectorEmbeddings(modality, ids, offsets, vectors.astype(np.float16), EncoderCard("random", "test"))


WORK: dict[str, Callable[[Bench], Iterator[Row]]] = dict(
    zip(SECTIONS, (parity, encoding, training, sparse, searching), strict=True)
)


def measured(bench: Bench, sections: list[str]) -> Iterator[Row]:
    """The rows of the sections, one after another; what stops one of them does not stop the next."""
    for section in sections:
        began = time.perf_counter()
        try:
            yield from WORK[section](bench)
        except Exception as fault:
            logging.getLogger(__name__).exception(section)
            yield Row(
                section, "stopped", {}, f"{type(fault).__name__}: {str(fault).splitlines()[0] if str(fault) else ''}"
            )
        print(f"{section}: {time.perf_counter() - began:.0f} s", flush=True)
        bench.clear_peak()


def table(rows: list[Row]) -> str:
    """The rows as lines of text."""
    wide = max(len(row.subject) for row in rows)
    lines = []
    for row in rows:
        figures = ", ".join(f"{name} {_shown(value)}" for name, value in row.figures.items())
        lines.append(f"{row.section:9} {row.subject:{wide}}  {figures}{'  FAULT: ' if row.fault else ''}{row.fault}")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) and value and abs(value) < 0.01 else f"{value:,}" if isinstance(
        value, float | int
    ) and value >= 1000 else f"{value:.6g}" if isinstance(value, float) else str(value)  # fmt: skip


def protocol(bench: Bench, sections: list[str]) -> dict[str, Any]:
    """What the figures depend on."""
    is_cuda = bench.is_cuda
    properties = torch.cuda.get_device_properties(bench.device) if is_cuda else None
    return {
        "device": properties.name if properties else platform.processor() or platform.machine(),
        "device memory GiB": round(properties.total_memory / 2**30, 1) if properties else None,
        "cuda": torch.version.cuda if is_cuda else None,
        "cores": usable_cores(),
        "torch threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES} | {"torch": torch.__version__},
        "sections": sections,
        "scale": asdict(bench.scale),
        "tolerance of float32": TOLERANCE,
        "models": "random weights, seed 0: benchmarks/random_models.py",
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """Vectors that are kept go into the folder: no figure comes from an earlier run."""
    before = os.environ.get("VISIR_CACHE")
    os.environ["VISIR_CACHE"] = str(folder / "cache")
    try:
        yield
    finally:
        if before is None:
            del os.environ["VISIR_CACHE"]
        else:
            os.environ["VISIR_CACHE"] = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="the smallest scale: whether it runs, not how fast")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--out", type=Path, help="a new JSON file (runs/gpu-TIME.json)")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit(
            f"no GPU: torch {torch.__version__} sees no CUDA device here; on the cores, the smallest scale: "
            "python benchmarks/gpu.py --device cpu --quick"
        )
    out = arguments.out or Path("runs") / time.strftime("gpu-%Y%m%d-%H%M%S.json")
    if out.exists():
        raise SystemExit(f"{out} is there already: name another file with --out")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary, own_cache(Path(temporary)):
        bench = Bench(arguments.device, QUICK if arguments.quick else FULL, Path(temporary))
        rows = list(measured(bench, arguments.only))
        facts = protocol(bench, arguments.only) | {"seconds": round(time.perf_counter() - began, 1)}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"protocol": facts, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")
    print(f"\n{facts['device']}, torch {torch.__version__}, {facts['seconds']} s\n{table(rows)}\n\n{out}")
    faults = sum(bool(row.fault) for row in rows)
    if faults:
        raise SystemExit(f"{faults} of {len(rows)} lines have a fault")


if __name__ == "__main__":
    main()

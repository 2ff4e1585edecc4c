"""Category-to-image search at scale: one training epoch, and all categories searched over all products, measured.

    python benchmarks/products_scale.py [--products 100000] [--categories 5000] [--threads 2] [--in-memory]

The catalogue is generated (`benchmarks/generated_vectors.py`): vectors and a tree of up to nine levels, no pictures.
The model is CLIP-ITA with the thesis's batch of 128. Every product is trained on and every product is a candidate, so
the figures of retrieval say nothing; the cost does not depend on them. Prints seconds (processor and wall) and the peak
memory of each step, and of everything.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def told(what: str) -> Iterator[None]:
    processor, wall = time.process_time(), time.perf_counter()
    yield
    seconds = f"{time.process_time() - processor:7.2f} s processor {time.perf_counter() - wall:7.2f} s wall"
    print(f"{what:42} {seconds} {peak():6,.0f} MB peak", flush=True)


def peak() -> float:
    """Megabytes this process has held at most; Linux counts in kilobytes, macOS in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=100_000)
    parser.add_argument("--categories", type=int, default=5_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--in-memory", action="store_true", help="hold vectors in memory instead of mapping files")
    asked = parser.parse_args()

    with told("imports"):
        import numpy as np
        import torch

        from generated_vectors import generate_vectors
        from visir.products.evaluation import evaluate_task
        from visir.products.model import CategoriesRecipe
        from visir.products.systems import CategoryVectorSystem
        from visir.products.task import SETTINGS, Split, category_task
        from visir.products.training import train_categories
    torch.set_num_threads(asked.threads)
    began, processor = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        with told(f"make {asked.products:,} x {asked.categories:,}"):
            folder = None if asked.in_memory else Path(scratch, "vectors")
            vectors = generate_vectors(asked.products, categories=asked.categories, folder=folder)
        catalogue = vectors.catalogue
        everything = np.ones(len(vectors), dtype=np.bool_)
        checked = np.arange(len(vectors)) % 50 == 0
        recipe = CategoriesRecipe.model_validate(
            {"name": "scale", "setting": "all", "optimiser": {"epochs": 1, "batch": asked.batch}}
        )
        with told("parts"):
            train, validation = vectors.keep_products(everything), vectors.keep_products(checked)
        with told("one epoch, CLIP-ITA"):
            model = train_categories(recipe, train, validation, Path(scratch, "model"))
        with told("embed"):
            categories, products = model.embed(vectors)
        system = CategoryVectorSystem("CLIP-ITA", categories, products)
        split = Split(everything, checked, everything, "everything")
        for setting in SETTINGS:
            with told(f"task, {setting}"):
                task = category_task(catalogue, split, setting)
            with told(f"search and measure, {setting} ({len(task.judgements()):,})"):
                trial = evaluate_task(system, task)
            print(f"    rprecision {trial.mean('rprecision'):.2f}")
    seconds = f"{time.process_time() - processor:7.2f} s processor {time.perf_counter() - began:7.2f} s wall"
    print(f"{'everything':42} {seconds} {peak():6,.0f} MB peak")


if __name__ == "__main__":
    main()

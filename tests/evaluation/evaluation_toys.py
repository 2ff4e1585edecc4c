"""A toy collection and toy vectors, small enough to work by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.records import Collection, Embeddings, EncoderCard


def make_collection(images: int = 4, per_image: int = 2, split: str = "test", name: str = "toy") -> Collection:
    ids = [f"i{at}" for at in range(images)]
    return Collection.build(
        name,
        images={"id": ids, "split": [split] * images},
        captions={
            "id": [f"{one}#{n}" for one in ids for n in range(per_image)],
            "text": [f"caption {n} of {one}" for one in ids for n in range(per_image)],
            "image_id": [one for one in ids for _ in range(per_image)],
        },
    )


def embed(modality: str, ids: list[str], vectors: object, name: str = "toy", **card: object) -> Embeddings:
    matrix: NDArray[np.float32] = np.asarray(vectors, np.float32)
    return Embeddings(modality, ids, matrix, EncoderCard(name, "imported", **card))  # type: ignore[arg-type]


def random_pair(collection: Collection, *, seed: int = 0, noise: float = 1.0, name: str = "random") -> list[Embeddings]:
    """Image vectors at random, caption vectors their image's plus noise: a system that finds some of them."""
    rng = np.random.default_rng(seed)
    ids = collection.images["id"].to_pylist()
    images = rng.normal(size=(len(ids), 16))
    rows = [ids.index(one) for one in collection.captions["image_id"].to_pylist()]
    texts = images[rows] + noise * rng.normal(size=(len(rows), 16))
    return [embed("image", ids, images, name), embed("text", collection.captions["id"].to_pylist(), texts, name)]

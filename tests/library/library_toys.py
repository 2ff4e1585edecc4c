"""Small libraries to try things on: drawn photos, and a collection with captions whose vectors are drawn at random."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from visir.collections import open_collection
from visir.collections.images import ImageReader

SCENES = "scenes:12?size=64"


def draw(folder: Path, numbers: Iterable[int]) -> None:
    """Photos 0.png, 1.png, …: even ones in `folder`, odd ones in its subfolder "odd"."""
    reader = ImageReader(open_collection(SCENES))
    (folder / "odd").mkdir(parents=True, exist_ok=True)
    for number in numbers:
        reader.open(number).save(folder / ("odd" if number % 2 else ".") / f"{number}.png")


def vectors_of_scenes(folder: Path) -> str:
    """The name of a model that knows the images and captions of the scenes, 8 numbers each."""
    collection, rng = open_collection(SCENES), np.random.default_rng(0)
    np.savez(
        folder / "vectors.npz",
        image=rng.normal(size=(12, 8)).astype(np.float32),
        text=rng.normal(size=(60, 8)).astype(np.float32),
        image_ids=np.array(collection.images["id"].to_pylist()),
        text_ids=np.array(collection.captions["id"].to_pylist()),
    )
    return f"npz:{folder / 'vectors.npz'}"


def head_over(model: str, folder: Path) -> Path:
    """An untrained sparse head over it: what it says is arbitrary, but always the same."""
    import tokenizers
    import torch

    from visir.encoders import load
    from visir.sparse.encoder import SparseEncoder, write_sparse
    from visir.sparse.language_model import SparseHead, WordEmbeddings
    from visir.sparse.vocabulary import Tokenizer

    texts = " ".join(open_collection(SCENES).captions["text"].to_pylist()).lower()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(set(re.findall(r"[a-z]+", texts)))]
    library = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    library.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    library.add_special_tokens(pieces[:4])
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer, dense = Tokenizer(library.to_str().encode(), "tiny"), load(model)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        words = WordEmbeddings(torch.randn(len(pieces), 8), -1.0 + 0 * torch.randn(len(pieces)), None, "random")
        head = SparseHead(dense.dimension, words, tokenizer.vocabulary.usable)
    made = folder / "head"
    made.mkdir()
    write_sparse(made, SparseEncoder(dense, head, tokenizer, variant="caption"), dense_name=model)
    return made

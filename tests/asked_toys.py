"""A small library to ask: generated scenes, random towers over pixels and a GRU, a random sparse head over them."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer as Tokens
from tokenizers import models, normalizers, pre_tokenizers

from visir.encoders import load
from visir.encoders.models.towers import TowersEncoder, write_towers
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.encoders.towers.gru import GRUBackbone, WordVocabulary
from visir.library.updating import update
from visir.sparse.encoder import SparseEncoder, write_sparse
from visir.sparse.language_model import SparseHead, WordEmbeddings
from visir.sparse.vocabulary import Tokenizer

WORDS = [
    *("a", "an", "the", "red", "green", "blue", "yellow", "small", "large", "kite", "boat", "house", "tree", "dog"),
    *("sky", "sea", "grass", "in", "on", "of", "with", "and", "near"),
]
SCENES = "scenes:48?size=64"


def texts() -> list[str]:
    """Of 1 to 9 words, several of each length."""
    return [" ".join(WORDS[(7 * at + 3 * place) % len(WORDS)] for place in range(1 + at % 9)) for at in range(40)]


def write_models(folder: Path) -> tuple[Path, Path]:
    """A checkpoint of towers and one of a sparse head over them, with random weights, always the same."""
    dense, sparse = folder / "dense", folder / "sparse"
    pixels = load("pixels")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body = GRUBackbone(WordVocabulary.fit([" ".join(WORDS)] * 5), words=12, hidden=16)
        towers = {
            "image": Tower(None, Head(HeadSpec(pixels.dimension, 24))),
            "text": Tower(body, Head(HeadSpec(body.outputs, 24))),
        }
        dense.mkdir(parents=True)
        write_towers(dense, TowersEncoder(towers, {"image": pixels}, device="cpu"))  # type: ignore[arg-type]
        made = Tokens(
            models.WordPiece({word: at for at, word in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]")
        )
        made.normalizer = normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.add_special_tokens(["[PAD]", "[UNK]"])
        tokenizer = Tokenizer(made.to_str().encode(), "tiny")
        size = len(tokenizer.vocabulary)
        head = SparseHead(
            24,
            WordEmbeddings(torch.randn(size, 12), 0.3 * torch.randn(size), None, "random"),
            tokenizer.vocabulary.usable,
        )
    sparse.mkdir()
    encoder = load(dense, device="cpu")
    write_sparse(sparse, SparseEncoder(encoder, head, tokenizer, variant="free", device="cpu"), dense_name=str(dense))
    return dense, sparse


def make_library(folder: Path, source: str | Path = SCENES, **options: object) -> Path:
    """A library of these models."""
    dense, sparse = write_models(folder / "models")
    update(source, folder / "library", model=dense, head=sparse, **options)  # type: ignore[arg-type]
    return folder / "library"

"""A tiny vocabulary, a tiny head, and pairs with a planted answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers, processors

from visir.sparse.language_model import SparseHead, WordEmbeddings
from visir.sparse.recipe import SparseRecipe
from visir.sparse.run import SparseExamples, SparseLearner, padded
from visir.sparse.vocabulary import TextTerms, Tokenizer
from visir.training.loop import FitResult, fit

WORDS = ["dog", "cat", "car", "tree", "run", "##ning", "red", "blue", "a", "on", "the", "house", "boat", "sky"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[unused0]", *WORDS]
"""Terms 0 to 4 are not usable; "dog" is 5, "cat" 6, "car" 7, "tree" 8, "run" 9, "##ning" 10, …"""
DOG, CAT, CAR, TREE, RUN, NING = range(5, 11)


def library(pieces: list[str] = PIECES) -> Any:
    """A WordPiece tokenizer of the library `tokenizers`, with special tokens as BERT's has them."""
    made = Library(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_truncation(4)
    made.enable_padding(length=8)
    return made


def tokenizer() -> Tokenizer:
    return Tokenizer(library().to_str().encode(), "tiny")


def head(inputs: int = 6, width: int = 8, *, seed: int = 0, double: bool = False) -> SparseHead:
    """Random weights; about half of all terms are active."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        words = WordEmbeddings(torch.randn(len(PIECES), width), 0.3 * torch.randn(len(PIECES)), None, "random")
        made = SparseHead(inputs, words, tokenizer().vocabulary.usable)
    return made.double() if double else made


def batch(size: int = 7, inputs: int = 6, *, seed: int = 0, double: bool = False) -> tuple[torch.Tensor, ...]:
    """Dense vectors of images and texts, and random own terms (1 to 4 of the usable ones)."""
    rng = np.random.default_rng(seed)
    terms = [np.sort(rng.choice(np.arange(5, len(PIECES)), rng.integers(1, 5), replace=False)) for _ in range(size)]
    kind = np.float64 if double else np.float32
    images, texts = (torch.from_numpy(rng.normal(size=(size, inputs)).astype(kind)) for _ in range(2))
    return images, texts, torch.from_numpy(padded(packed(terms), len(PIECES)))


def packed(terms: list[Any]) -> TextTerms:
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in terms])]).astype(np.int64)
    return TextTerms(offsets, np.concatenate([np.zeros(0, np.int32), *terms]).astype(np.int32))


def planted(images: int, *, seed: int, per_image: int = 2) -> SparseExamples:
    """Each image has three of the 14 words, each caption two of them; vectors are linear in the words present."""
    world = np.random.default_rng(99)
    to_image, to_text = world.normal(size=(len(WORDS), 10)), world.normal(size=(len(WORDS), 10))
    to_text[:, :8] = to_image[:, :8]  # the dense model's spaces agree, so that its cosines rank
    rng = np.random.default_rng(seed)
    chosen = np.stack([rng.choice(len(WORDS), 3, replace=False) for _ in range(images)])
    owners = np.repeat(np.arange(images), per_image)
    said = np.stack([rng.choice(chosen[owner], 2, replace=False) for owner in owners])
    terms = packed([np.sort(row) + 5 for row in said])
    frequencies = terms.frequencies(len(PIECES))
    return SparseExamples(
        torch.from_numpy(to_image[chosen].sum(axis=1).astype(np.float32)),
        torch.from_numpy(to_text[said].sum(axis=1).astype(np.float32)),
        torch.from_numpy(owners),
        torch.from_numpy(padded(terms, len(PIECES))),
        terms,
        torch.from_numpy(frequencies),
        {"seed": seed},
        [f"c{row}" for row in range(len(owners))],
    )


def train(
    settings: SparseRecipe, head: SparseHead, *splits: SparseExamples, **options: Any
) -> FitResult[SparseLearner]:
    """Train on the first split, validate on the second one."""
    return fit(settings, SparseLearner(settings, head, splits[0]), *splits, **options)


def recipe(**changes: Any) -> SparseRecipe:
    """A small recipe over planted pairs; `changes` are whole sections or single keys, sections merged."""
    values: dict[str, Any] = {
        "name": "planted",
        "encoder": "none",
        "data": {"collection": "scenes:1"},
        "head": {"width": 8},
        "optimiser": {"epochs": 6, "batch": 32, "rate": 0.02, "norm_rate": 0.02, "words_rate": 0.02},
    }
    for key, change in changes.items():
        values[key] = {**values.get(key, {}), **change} if isinstance(change, dict) else change
    return SparseRecipe.model_validate(values)

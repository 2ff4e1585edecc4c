"""Dense vectors of any model in weighted words: the head, its training with expansion control, and its use.

    run = visir.sparsify("captions.csv", "openai/clip-vit-base-patch32", images="photos/", out="runs/words")
    visir.words(run, "a dog on a beach")
    visir.sparse.matched_words(run, "a dog on a beach", "photos/1.jpg")

Source: thesis chapter 3. Names are imported when first used, so that recipes can be read and listed without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.sparse.common_words import MatchedWords, matched_words
    from visir.sparse.encoder import SparseEncoder, encode_sparse, load_sparse, save_sparse
    from visir.sparse.explaining import words
    from visir.sparse.recipe import SparseRecipe, read_sparse_recipe
    from visir.sparse.run import sparsify
    from visir.sparse.vocabulary import TextTerms, Tokenizer, load_tokenizer

__getattr__, __dir__ = lazy(
    __name__,
    {
        "MatchedWords": "visir.sparse.common_words",
        "matched_words": "visir.sparse.common_words",
        "SparseEncoder": "visir.sparse.encoder",
        "SparseRecipe": "visir.sparse.recipe",
        "TextTerms": "visir.sparse.vocabulary",
        "Tokenizer": "visir.sparse.vocabulary",
        "encode_sparse": "visir.sparse.encoder",
        "load_sparse": "visir.sparse.encoder",
        "load_tokenizer": "visir.sparse.vocabulary",
        "read_sparse_recipe": "visir.sparse.recipe",
        "save_sparse": "visir.sparse.encoder",
        "sparsify": "visir.sparse.run",
        "words": "visir.sparse.explaining",
    },
)

__all__ = [
    "MatchedWords",
    "SparseEncoder",
    "SparseRecipe",
    "TextTerms",
    "Tokenizer",
    "encode_sparse",
    "load_sparse",
    "load_tokenizer",
    "matched_words",
    "read_sparse_recipe",
    "save_sparse",
    "sparsify",
    "words",
]

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
    from visir.sparse.encoder import SparseEncoder as SparseEncoder
    from visir.sparse.encoder import encode_sparse as encode_sparse
    from visir.sparse.encoder import load_sparse as load_sparse
    from visir.sparse.encoder import save_sparse as save_sparse
    from visir.sparse.explaining import MatchedWords as MatchedWords
    from visir.sparse.explaining import matched_words as matched_words
    from visir.sparse.explaining import words as words
    from visir.sparse.recipe import SparseRecipe as SparseRecipe
    from visir.sparse.recipe import read_sparse_recipe as read_sparse_recipe
    from visir.sparse.run import sparsify as sparsify
    from visir.sparse.vocabulary import TextTerms as TextTerms
    from visir.sparse.vocabulary import Tokenizer as Tokenizer
    from visir.sparse.vocabulary import load_tokenizer as load_tokenizer

__getattr__, __dir__, __all__ = lazy(__name__)

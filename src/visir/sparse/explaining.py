"""The words of pictures and texts: what a sparse vector says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import pyarrow.compute as pc

from visir.display import Columnar, Plotted, brief, quoted
from visir.encoders.loading import load
from visir.errors import EncoderError
from visir.records import Collection, SparseEmbeddings
from visir.sparse.encoder import SparseEncoder
from visir.sparse.top_terms import (
    Match,
    TopTerms,
    encode_part,
    matched,
    own_terms,
    top_terms_of_captions,
    top_terms_of_images,
)

if TYPE_CHECKING:
    from PIL.Image import Image


Explained: TypeAlias = "str | os.PathLike[str] | Image"
"""A text, the path of a picture, or a picture."""


@overload
def words(  # type: ignore[overload-overlap]  # a text is a sequence of texts too
    model: object, inputs: Explained, k: int = 20, *, source: Collection | None = None, device: str | None = None
) -> TopTerms: ...
@overload
def words(
    model: object,
    inputs: Sequence[Explained],
    k: int = 20,
    *,
    source: Collection | None = None,
    device: str | None = None,
) -> list[TopTerms]: ...
def words(
    model: object,
    inputs: Explained | Sequence[Explained],
    k: int = 20,
    *,
    source: Collection | None = None,
    device: str | None = None,
) -> TopTerms | list[TopTerms]:
    """The heaviest words of the vector of a text or a picture.

    Args:
        model: A model of weighted words: what `visir.sparsify` gave, its folder, or a `SparseEncoder`.
        inputs: A text, the path of a picture, a picture (PIL), or a list of these.
        k: How many words of each.
        source: A collection in which ids of images and captions are looked up.
        device: Where the model computes.

    Returns:
        The words with their weights, heaviest first, and which of them a text has itself; a list for a list.

    Raises:
        EncoderError: The vectors of this model have no words.
    """
    encoder = sparse_encoder(model, device)
    if isinstance(inputs, (str, os.PathLike)) or not isinstance(inputs, Sequence):
        return _words(encoder, inputs, k, source)
    return [_words(encoder, each, k, source) for each in inputs]


def sparse_encoder(model: Any, device: str | None = None) -> SparseEncoder:
    """A model of weighted words, by name or as it is."""
    encoder = load(str(model), device=device) if isinstance(model, (str, os.PathLike)) else model
    if not isinstance(encoder, SparseEncoder):
        name = getattr(encoder, "label", str(model))
        several = getattr(encoder, "form", "") == "multi-vector"
        raise EncoderError(
            f"{name}: its vectors have no words.",
            hint="they are several for each item: weighted words are made of models with one vector for each"
            if several
            else f"visir sparsify --data captions.csv --model {name}; in Python visir.sparsify(data, {name!r})",
            code="vectors-no-words",
        )
    return encoder


def _found(given: Explained, source: Collection | None) -> tuple[str, str, Any]:
    """What is meant, the first that fits: a "picture" or its file, an "image" or a "caption" of the collection, with
    the part of it that has them, or a "text"."""
    if not isinstance(given, (str, os.PathLike)):
        return "picture", "picture", given
    name = os.fspath(given)
    if isinstance(given, os.PathLike) or is_file(name):
        from visir.collections.images import decode
        from visir.files import read_bytes

        return "picture", Path(name).name, decode(read_bytes(Path(name)), name)
    if source is not None:
        is_named = pc.equal(source.images["id"], name)
        if pc.any(is_named).as_py():
            return "image", name, source.keep_images(is_named)
        captions = source.captions.filter(pc.equal(source.captions["id"], name))
        if captions.num_rows:
            return "caption", name, source.keep_images(pc.equal(source.images["id"], captions["image_id"][0].as_py()))
    return "text", name, None


def _words(encoder: SparseEncoder, given: Explained, k: int, source: Collection | None) -> TopTerms:
    kind, name, held = _found(given, source)
    if kind == "picture":
        vectors = encoder.encode_inputs("image", {name: held})
        return TopTerms(name, tuple(vectors.words(name, k)), picture=held)
    if kind == "text" or source is None:
        vectors = encoder.encode_inputs("text", {"text": name})
        return TopTerms(name, tuple(vectors.words("text", k)), own_terms(encoder, name))
    if kind == "image":
        return top_terms_of_images(encoder, source, held, k)[0]
    return top_terms_of_captions(encoder, source, held, [name], k)[name]


def is_file(text: str) -> bool:
    """Whether a text names a file; one that is too long for a name does not."""
    try:
        return Path(text).is_file()
    except OSError:
        return False


# Why a picture was found: the words that it has in common with the query, and what each gives to the score.


@dataclass(frozen=True, repr=False)
class MatchedWords(Columnar, Plotted):
    """The words that two vectors have in common.

    Attributes:
        query: What was looked for.
        answer: What was found.
        matches: The common words, the largest part of the score first.
    """

    query: str
    answer: str
    matches: tuple[Match, ...]

    @property
    def score(self) -> float:
        """The score of the two: the sum of the products."""
        return sum(match.product for match in self.matches)

    def __repr__(self) -> str:
        lines = [f"{match.term}: {match.product:.2f}" for match in self.matches[:3]]
        more = f"… {len(self.matches) - 3} more" if len(self.matches) > 3 else ""
        return brief(self, f"{quoted(self.query)}, {self.answer}: score {self.score:.2f}", *lines, more)


def matched_words(
    model: object,
    query: Explained,
    answer: Explained,
    *,
    source: Collection | None = None,
    device: str | None = None,
) -> MatchedWords:
    """The words that a query and an answer have in common, and what each gives to their score.

    The score of a pair is the sum of these products. Nothing is estimated.

    Args:
        model: A model of weighted words: what `visir.sparsify` gave, its folder, or a `SparseEncoder`.
        query: A text, the path of a picture, or a picture (PIL).
        answer: The same; an id of an image or a caption, where `source` is given.
        source: A collection in which ids of images and captions are looked up.
        device: Where the model computes.

    Raises:
        EncoderError: The vectors of this model have no words.
    """
    encoder = sparse_encoder(model, device)
    first, second = (_vector(encoder, given, source) for given in (query, answer))
    names = [str(vectors.ids[0]) for vectors in (first, second)]
    return MatchedWords(names[0], names[1], tuple(matched(first, names[0], second, names[1])))


def _vector(encoder: SparseEncoder, given: Explained, source: Collection | None) -> SparseEmbeddings:
    kind, name, held = _found(given, source)
    if kind in ("picture", "text") or source is None:
        return encoder.encode_inputs("image" if kind == "picture" else "text", {name: name if held is None else held})
    part = encode_part(encoder, source, held, "image" if kind == "image" else "text")
    return part if kind == "image" else part.select([name])

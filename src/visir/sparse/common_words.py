"""Why a picture was found: the words that it has in common with the query, and what each gives to the score."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from visir.display import Columnar, Plotted, brief, quoted
from visir.records import Collection, SparseEmbeddings
from visir.sparse.encoder import SparseEncoder
from visir.sparse.explaining import Explained, is_file, sparse_encoder
from visir.sparse.top_terms import Match, encode_part, matched


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
    """The vector of a picture file, an image or a caption of the collection, or a text: the first that fits."""
    if not isinstance(given, (str, os.PathLike)):
        return encoder.encode_inputs("image", {"picture": given})
    name = os.fspath(given)
    if isinstance(given, os.PathLike) or is_file(name):
        from visir.collections.images import decode
        from visir.files import read_bytes

        return encoder.encode_inputs("image", {Path(name).name: decode(read_bytes(Path(name)), name)})
    if source is not None:
        is_image = pc.equal(source.images["id"], name)
        if pc.any(is_image).as_py():
            return encode_part(encoder, source, source.keep_images(is_image), "image")
        captions = source.captions.filter(pc.equal(source.captions["id"], name))
        if captions.num_rows:
            part = source.keep_images(pc.equal(source.images["id"], captions["image_id"][0].as_py()))
            return encode_part(encoder, source, part, "text").select(captions["id"].combine_chunks())
    return encoder.encode_inputs("text", {name: name})

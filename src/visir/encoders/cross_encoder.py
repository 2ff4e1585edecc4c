"""Cross-encoders: models that read a query and a document together and score how well they fit (second stage)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from visir.display import Displayed
from visir.encoders.intake import Pixels
from visir.errors import EncoderError
from visir.records import EncoderCard, Modality
from visir.records.columns import check_is_list

if TYPE_CHECKING:
    from PIL.Image import Image

Tokens: TypeAlias = Any
"""What a model knows of one image, or one text, before it has seen the other.

A NumPy array or a torch tensor, usually (length, width), unpadded, on whatever device. visir only asks for its `nbytes`
and hands it back to the cross-encoder that made it.
"""


class CrossEncoder(Displayed, ABC):
    """A score for a pair, by a model that sees both sides at once.

    Most are image–text matching heads (ITM): cross-attention between an image and a text, whichever of them is the
    query. Such a head needs the four methods below. A model that reads other pairs, or reads query and document in
    different ways, says so (`takes`, `ordered`), and has `item_tokens` and `match_roles` too.

    A vector is computed once for an image and serves every query; a matching score belongs to one pair. What can be
    shared is shared all the same: the work is split so that whatever depends on one image alone (`image_tokens`), or on
    one text alone (`text_tokens`), is computed once and used for many pairs (`match`).

    **Memory.** The tokens of 1,000 images at 384 pixels are 1,000 × 577 × 768 floats, 1.8 GB, so they are not kept.
    `visir.encoders.pairs.match_pairs` goes image by image: the tokens of `images_at_once` images are made, matched with
    every text that they are paired with, and dropped, so that each image passes its tower exactly once. Tokens of texts
    are fifty times smaller; they are kept up to a bound, beyond it the oldest are dropped and made again if need be.

    Attributes:
        card: The key under which scores are kept, as an encoder's card is for vectors: everything that changes a score
            has to be in it (the family too: two heads of one checkpoint are two cross-encoders).
        head: What the protocol calls the score ("itm").
        takes: The pairs that it scores: (modality of the query, modality of the document).
        ordered: Whether a query and a document would get another score the other way round.
        images_at_once, texts_at_once, pairs_at_once: How many go through the model together.
    """

    card: EncoderCard
    head: str = "itm"
    takes: frozenset[tuple[Modality, Modality]] = frozenset({("text", "image"), ("image", "text")})
    ordered: bool = False
    images_at_once: int = 16
    texts_at_once: int = 64
    pairs_at_once: int = 64
    in_lanes: bool = False
    """Whether it matches in PyTorch on the CPU, and several threads may do so at once (`visir.encoders.lanes`)."""

    @abstractmethod
    def preprocess(self, image: Image) -> Pixels:
        """One RGB image to the model's input: cheap, pure, thread-safe."""

    @abstractmethod
    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """The tokens of each of n preprocessed images."""

    @abstractmethod
    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each of n texts (tokenising, template and truncation included), without padding."""

    @abstractmethod
    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        """(n,) scores of n pairs, higher is better; the scale is the model's own (a logit of "match", unbounded).

        `images[i]` and `texts[i]` are a pair. One image stands in many pairs: as the very same object, in neighbouring
        places (`of_one_image` finds them), so that its keys and values need computing once per call only.
        """

    def item_tokens(
        self, modality: Modality, texts: Sequence[str] | None, batch: Sequence[Pixels] | None
    ) -> list[Tokens]:
        """The tokens of each of n items: of their texts, their preprocessed images, or both."""
        if modality == "image" and batch is not None:
            return self.image_tokens(batch)
        assert modality == "text" and texts is not None, "a matching head takes images and texts"
        return self.text_tokens(texts)

    def match_roles(
        self, queries: Sequence[Tokens], documents: Sequence[Tokens], modalities: tuple[Modality, Modality]
    ) -> NDArray[np.float32]:
        """(n,) scores of n pairs of a query and a document, whose modalities are given in this order."""
        return self.match(queries, documents) if modalities[0] == "image" else self.match(documents, queries)

    def check_takes(self, query: Modality, document: Modality) -> None:
        """Raise `EncoderError` for pairs that the model does not score."""
        if (query, document) not in self.takes:
            pairs = ", ".join(f"{first} → {second}" for first, second in sorted(self.takes))
            raise EncoderError(
                f"{self.card.name} scores no pairs of {query} queries and {document} documents.",
                hint=f"it takes (query → document): {pairs}",
                code="scores-no-pairs-queries",
            )

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated (see `Encoder.truncate`)."""
        return list(texts)

    def score(
        self, queries: Sequence[str] | Sequence[Image], documents: Sequence[str] | Sequence[Image]
    ) -> NDArray[np.float32]:
        """(n,) scores of n pairs of a query and a document, for a handful of them: texts or PIL images.

        Raises:
            EncoderError: There are not as many of the one as of the other, or the model scores no such pairs.

        Example: `visir.load_cross_encoder(name).score(["a dog"] * 2, [first_image, second_image])`
        """
        check_is_list(queries, "queries")
        check_is_list(documents, "documents")
        if len(queries) != len(documents):
            raise EncoderError(
                f"{len(queries)} queries cannot be paired with {len(documents)} documents.",
                hint="one document each",
                code="not-paired",
            )
        modalities = _modality_of(queries), _modality_of(documents)
        self.check_takes(*modalities)
        sides = [self._tokens_of(side, kind) for side, kind in zip((queries, documents), modalities, strict=True)]
        scores = np.empty(len(queries), np.float32)
        for start in range(0, len(queries), self.pairs_at_once):
            part = slice(start, start + self.pairs_at_once)
            scores[part] = self.match_roles(sides[0][part], sides[1][part], modalities)
        return scores

    def _tokens_of(self, side: Sequence[Any], modality: Modality) -> list[Tokens]:
        from visir.collections.images import to_rgb

        distinct = {id(item) if modality == "image" else item: item for item in side}
        if modality == "text":
            tokens = _in_batches(self.text_tokens, list(distinct.values()), self.texts_at_once)
        else:
            pixels = [self.preprocess(to_rgb(image)) for image in distinct.values()]
            tokens = _in_batches(self.image_tokens, pixels, self.images_at_once)
        tokens_of = dict(zip(distinct, tokens, strict=True))
        return [tokens_of[id(item) if modality == "image" else item] for item in side]

    def score_pairs(self, images: Sequence[Image], texts: Sequence[str]) -> NDArray[np.float32]:
        """(n,) scores of n (picture, text) pairs, for a handful of them; `match_pairs` does it for collections.

        A picture that occurs several times (the same object) goes through the image tower once, and an equal text once.

        Raises:
            EncoderError: There are not as many texts as pictures, or texts in place of pictures.
        """
        from visir.collections.images import to_rgb

        check_is_list(texts, "texts")
        check_is_list(images, "pictures")
        if any(isinstance(image, str) for image in images):
            hint = "pairs of texts: score(queries, documents)"
            raise EncoderError("score_pairs takes pictures and texts.", hint=hint, code="score-pairs-takes-pictures")

        pixels = {
            id(image): self.preprocess(to_rgb(image)) for image in {id(image): image for image in images}.values()
        }
        return self.score_pixels([pixels[id(image)] for image in images], texts)

    def score_pixels(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """The same for preprocessed pictures, which take far less memory than decoded ones."""
        if len(images) != len(texts):
            raise EncoderError(
                f"{len(images)} images cannot be paired with {len(texts)} texts.",
                hint="one text each",
                code="images-cannot-paired-texts",
            )
        pictures = list({id(image): image for image in images}.values())
        positions = {id(image): position for position, image in enumerate(pictures)}
        order = sorted(range(len(images)), key=lambda pair: positions[id(images[pair])])
        text_tokens = _in_batches(self.text_tokens, list(dict.fromkeys(texts)), self.texts_at_once)
        tokens_of = dict(zip(dict.fromkeys(texts), text_tokens, strict=True))
        scores = np.empty(len(images), np.float32)
        cached: dict[int, Tokens] = {}
        for start in range(0, len(order), self.pairs_at_once):
            rows = order[start : start + self.pairs_at_once]
            needed = dict.fromkeys(positions[id(images[row])] for row in rows)
            fresh = [position for position in needed if position not in cached]
            tokens = _in_batches(self.image_tokens, [pictures[position] for position in fresh], self.images_at_once)
            cached |= zip(fresh, tokens, strict=True)
            cached = {position: cached[position] for position in needed}
            scores[rows] = self.match(
                [cached[positions[id(images[row])]] for row in rows], [tokens_of[texts[row]] for row in rows]
            )
        return scores


def of_one_image(images: Sequence[Tokens]) -> Iterator[tuple[Tokens, slice]]:
    """The images of a call of `match`, each with the places of its pairs: [a, a, b] gives a, 0:2 and b, 2:3."""
    start = 0
    for position in range(1, len(images) + 1):
        if position == len(images) or images[position] is not images[start]:
            yield images[start], slice(start, position)
            start = position


def _modality_of(side: Sequence[Any]) -> Modality:
    return "text" if all(isinstance(item, str) for item in side) else "image"


def _in_batches(work: Any, inputs: Sequence[Any], size: int) -> list[Tokens]:
    return [token for start in range(0, len(inputs), size) for token in work(inputs[start : start + size])]

"""The one interface of every encoder: images and texts in, vectors out."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from visir.display import Displayed, brief, counted
from visir.encoders.inputs import Pixels
from visir.errors import EncoderError
from visir.records import Embeddings, EncoderCard, Items, Modality, Role, Vectors, strings

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.cross_encoder import CrossEncoder

PLURALS: dict[Modality, str] = {"image": "images", "text": "texts", "text+image": "texts with images"}
"""What people call the inputs of a modality."""


class Encoder(Displayed, ABC):
    """A model that turns images, texts, or both into vectors of one space.

    The work on an image is split in two, so that a loader can decode and resize in threads while the model computes:
    `preprocess(image)` is cheap, pure and thread-safe; `embed_images(batch of preprocessed)` is the forward pass.
    `encode_images` and `encode_texts` do both for a handful of inputs; `visir.encoders.encode` does it for whole
    collections, through the store.

    Vectors are returned as float32 (n, dimension), *not* normalised: what the model projects, as its reference
    implementation returns it.

    The card is the key under which vectors are kept. When it has a hash over the weights, its name does not enter the
    key (the same file under another path is the same model), so everything that changes the numbers has to be in its
    other fields: an option in the name belongs into the preprocessing too.
    """

    card: EncoderCard
    dimension: int
    modalities: frozenset[Modality]
    batch_size: int = 64
    """Inputs per forward pass when nobody says otherwise."""
    cross_encoder: CrossEncoder | None = None
    """The model's image–text matching head, for a second stage of search; None when it has none."""
    form: Literal["dense", "sparse"] = "dense"
    """What its vectors are: `Embeddings`, or `SparseEmbeddings` of weighted words."""
    distinguishes_roles: bool = False
    """Whether it embeds queries and documents in different ways (`for_role`)."""
    precomputed: bool = False
    """Whether its vectors exist already (`existing_vectors`); then it embeds nothing new."""

    def __repr__(self) -> str:
        card = getattr(self, "card", None)  # an encoder of one's own may lack what it should have
        takes = " and ".join(PLURALS[modality] for modality in sorted(getattr(self, "modalities", ())))
        size = getattr(self, "dimension", None)
        parts = [f"takes {takes or 'nothing'}", "" if size is None else counted(size, "dimensions")]
        parts += ["sparse vectors" if self.form == "sparse" else "", "re-ranks" if self.cross_encoder else ""]
        name = "without a card" if card is None else f"{card.name!r}, {card.family}"
        return brief(self, f"{name}; {', '.join(filter(None, parts))}")

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image to the model's input.

        Raises:
            EncoderError: The encoder takes no images.
        """
        raise self.cannot("image")

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n preprocessed images."""
        raise self.cannot("image")

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts (tokenising, template and truncation included)."""
        raise self.cannot("text")

    def embed_texts_with_images(self, texts: Sequence[str], batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n items that have a text and an image each.

        For encoders whose `modalities` have "text+image": models that make one vector of the two.

        Args:
            texts: The texts of n items.
            batch: Their n preprocessed images.
        """
        raise self.cannot("text+image")

    def for_role(self, role: Role) -> Encoder:
        """This encoder, as it embeds queries or documents; itself where it makes no difference."""
        return self

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut word by word from their end where f"{text} {ending}" would be truncated by this model.

        A text that leaves room is returned as it is, so an encoder that reads texts of any length changes none.

        Raises:
            EncoderError: Not even the ending alone fits.
        """
        return list(texts)

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) a number for each text: those that have it in common go through `embed_texts_alike` in one shape.

        Usually the tokens that the model reads, padding included. None where the encoder cannot tell.
        """
        return None

    def embed_texts_alike(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts of one `text_lengths`, padded to that and no matter what else is there.

        Within rounding those of `embed_texts`, which pads to the longest text of a batch.
        """
        return self.embed_texts(texts)

    def encode_images(self, images: Sequence[Image], role: Role = "document") -> NDArray[np.float32]:
        """(n, dimension) vectors of n images, as PIL gives them (any mode; converted to upright RGB first)."""
        from visir.collections.images import to_rgb

        encoder = self.for_role(role)
        return encoder.embed_images([encoder.preprocess(to_rgb(image)) for image in images])

    def encode_texts(self, texts: Sequence[str], role: Role = "document") -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts."""
        return self.for_role(role).embed_texts(list(texts))

    def encode_inputs(self, modality: Modality, inputs: Mapping[str, Any], role: Role = "query") -> Vectors:
        """The vectors of a handful of texts ("text") or PIL images ("image") by id, computed at once and not kept.

        Raises:
            EncoderError: The encoder does not take inputs of this modality.
        """
        work: Callable[..., NDArray[np.float32]] = self.encode_images if modality == "image" else self.encode_texts
        values, size = list(inputs.values()), self.batch_size
        vectors = [work(values[start : start + size], role) for start in range(0, len(values), size)]
        return Embeddings(modality, strings(inputs), np.concatenate(vectors), self.card)

    def existing_vectors(self, items: Items) -> Vectors | None:
        """The vectors of these items, where they exist already; None for an encoder that computes them.

        Raises:
            EmbeddingError: They exist, but not for all of these items.
        """
        return None

    def base_encoder(self, modality: Modality) -> Encoder | None:
        """The encoder of whose vectors this one's are a cheap function (`project`); None when there is none.

        Then the store keeps the vectors of the base encoder, and another head over it encodes nothing again.
        """
        return None

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, dimension) vectors from (n, base encoder's dimension) vectors of the base encoder."""
        raise EncoderError(f"{self.card.name} has no base encoder; its vectors are its own.")

    def root_encoder(self, modality: Modality) -> Encoder:
        """The encoder whose vectors the store keeps, below all heads; itself where it has no base encoder."""
        base_encoder = self.base_encoder(modality)
        return self if base_encoder is None else base_encoder.root_encoder(modality)

    def project_items(self, items: Items, embeddings: Embeddings) -> Vectors:
        """The vectors of items from the vectors of the base encoder.

        Args:
            items: What was encoded.
            embeddings: Vectors of the base encoder for these items, without those of broken images.
        """
        vectors = self.project(embeddings.modality, embeddings.vectors)
        return Embeddings(embeddings.modality, embeddings.ids, vectors, self.card, origin=embeddings.origin)

    def check_versioned(self, why: str) -> None:
        """Raise `EncoderError` unless vectors of this encoder may outlive the process."""
        if not self.card.is_versioned:
            raise EncoderError(
                f"{self.card.name}: {why}, and its card has neither weights nor a revision: nothing would tell that "
                "its code has changed.",
                hint='name a version: EncoderCard(…, revision="1"), another one after every change',
            )

    def cannot(self, modality: Modality) -> EncoderError:
        """The error for an input of a kind that this encoder does not take."""
        accepted = " and ".join(PLURALS[kind] for kind in sorted(self.modalities))
        if modality == "text+image":
            hint = "search by the text or by the image alone, or name an encoder that makes one vector of both"
        else:
            hint = f"train towers over an encoder of {modality}s and this one: visir train --help"
        return EncoderError(f"{self.card.name} encodes no {PLURALS[modality]}, only {accepted}.", hint=hint)

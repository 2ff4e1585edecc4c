"""Cross-encoders of sentence-transformers: pairs of texts, and of texts and pictures, as second stage of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.cross_encoder import CrossEncoder, Tokens
from visir.encoders.intake import Pixels
from visir.encoders.models.hub import CODE_OPTIONS, loading
from visir.encoders.models.precision import inference
from visir.encoders.models.sentence_inputs import SentencePictures, as_texts, check_marks, modalities_of, takes_messages
from visir.encoders.models.sentence_loading import SentenceRequest
from visir.encoders.models.sentence_tower import default_prompt
from visir.errors import EncoderError
from visir.records import EncoderCard, Modality, Role

if TYPE_CHECKING:
    from PIL.Image import Image

OPTIONS = ("max_length", "prompt", *CODE_OPTIONS)
"""What may follow the name."""


@dataclass(frozen=True, eq=False)
class _Item:
    """One side of a pair as the library takes it: nothing of it can be computed before the other side is known."""

    text: str | None = None
    pixels: Pixels | None = None

    @property
    def nbytes(self) -> int:
        return len(self.text or "") + (0 if self.pixels is None else self.pixels.nbytes)


class SentenceCrossEncoder(CrossEncoder):
    """Exactly `CrossEncoder.predict([(query, document), …])`, before its activation."""

    # The score is the model's logit, unbounded, higher is better. The library puts a sigmoid behind it where the model
    # names no activation: the order is the same, but near 1.0 float32 has few steps left to rank by.

    head = "cross-encoder"
    ordered = True
    pairs_at_once = 32

    def __init__(self, card: EncoderCard, model: Any, prompt: str, pictures: SentencePictures | None) -> None:
        self.card, self._model, self._prompt, self._pictures = card, model, prompt, pictures
        kinds = modalities_of(model) if takes_messages(model) else frozenset[Modality]({"text"})
        self.takes = frozenset((query, document) for query in kinds for document in kinds)
        formatter = getattr(model[0], "input_formatter", None)
        self._writes_strings = getattr(formatter, "message_format", None) == "flat"  # a chat that has no other parts
        if pictures is not None:
            self.pairs_at_once = 8

    def preprocess(self, image: Image) -> Pixels:
        """The bytes of one RGB image."""
        if self._pictures is None:
            self.check_takes("text", "image")
        assert self._pictures is not None, "a model that takes images"
        return self._pictures.prepare(image)

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """The images themselves."""
        return [_Item(pixels=pixels) for pixels in batch]

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The texts themselves."""
        if self._pictures is not None:
            check_marks(texts, self._model)
        return [_Item(text=text) for text in texts]

    def item_tokens(
        self, modality: Modality, texts: Sequence[str] | None, batch: Sequence[Pixels] | None
    ) -> list[Tokens]:
        """The items themselves."""
        if texts is not None and batch is not None:
            if self._pictures is not None:
                check_marks(texts, self._model)
            return [_Item(text, pixels) for text, pixels in zip(texts, batch, strict=True)]
        return super().item_tokens(modality, texts, batch)

    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        """(n,) scores of n images as documents for n texts as queries."""
        return self.match_roles(texts, images, ("text", "image"))

    def match_roles(
        self, queries: Sequence[Tokens], documents: Sequence[Tokens], modalities: tuple[Modality, Modality]
    ) -> NDArray[np.float32]:
        """(n,) logits of n pairs of a query and a document."""
        import torch

        pairs = list(zip(map(self._input, queries), map(self._input, documents), strict=True))
        with inference():
            scores = self._model.predict(
                pairs,
                prompt=self._prompt,
                batch_size=len(pairs),
                show_progress_bar=False,
                activation_fn=torch.nn.Identity(),
            )
        return np.asarray(scores, np.float32)

    def _input(self, item: Tokens) -> Any:
        if item.pixels is None:
            return item.text if self._writes_strings else as_texts([item.text or ""], self._model)[0]
        assert self._pictures is not None, "a model that takes images"
        (picture,) = self._pictures.pictures([item.pixels])
        return picture if item.text is None else {"text": item.text, "image": picture}


def load(request: SentenceRequest) -> SentenceCrossEncoder:
    """The cross-encoder that a name leads to.

    Raises:
        EncoderError: It has no one score for a pair.
    """
    from sentence_transformers import CrossEncoder as LibraryCrossEncoder

    model = request.model(LibraryCrossEncoder)
    if model.num_labels != 1:
        raise EncoderError(
            f"{request.name}: this model puts pairs into {model.num_labels} classes; it has no one score to rank by.",
            hint="name a cross-encoder with one output (a re-ranker, not a model of entailment)",
            code="model-puts-pairs-classes",
        )
    default = default_prompt(model)  # the library takes no prompt by the names of roles here
    prompts: dict[Role, str] = {"query": default, "document": default}
    if "prompt" in request.options:
        prompts = request.prompts(model)
    with loading(request.name, code=request.trusted):
        pictures = SentencePictures(model) if model.supports("image") else None
        images = None if pictures is None else pictures.values()
        card = request.card(model, prompts, images, "sentence-transformers-cross-encoder")
        return SentenceCrossEncoder(card, model, prompts["query"], pictures)

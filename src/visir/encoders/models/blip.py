"""BLIP: a dual encoder for the first stage and an image–text matching head for re-ranking, in one checkpoint.

Source: Li et al. 2022, BLIP; `Salesforce/blip-itm-base-coco` and its relatives. The image–text matching head (ITM)
reads the tokens of the text with cross-attention over the patches of the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.cross_encoder import CrossEncoder, Tokens, of_one_image
from visir.encoders.inputs import Pixels
from visir.encoders.models.hub import ModelFiles
from visir.encoders.models.precision import inference, to_tensor, to_vectors
from visir.encoders.models.pretrained_towers import PretrainedTowersEncoder
from visir.encoders.models.transformers_kinds import ModelKind
from visir.encoders.models.transformers_towers import DualImageTower, DualTextTower, load_towers
from visir.records import EncoderCard

if TYPE_CHECKING:
    from PIL.Image import Image


class BlipEncoder(PretrainedTowersEncoder):
    """BLIP for retrieval."""

    # Vectors are the projections of the first token of either tower before normalisation; their cosine is what
    # `BlipForImageTextRetrieval` gives with `use_itm_head=False`. `cross_encoder` is its second stage.
    # Texts are cut at the 512 positions that the text tower has. BLIP's own evaluation cuts at 35 tokens: ask for that
    # with `?max_length=35`.

    def __init__(
        self, card: EncoderCard, model: Any, image: DualImageTower, text: DualTextTower, *, device: str
    ) -> None:
        super().__init__(card, {"image": image, "text": text}, device=device)
        self.cross_encoder = BlipCrossEncoder(card, model, image, text, device=device)


class BlipCrossEncoder(CrossEncoder):
    """BLIP's image–text matching head: the logit of "match", unbounded, higher is better."""

    # That is the second of the head's two outputs, as in BLIP's own evaluation (which then adds the cosine of the first
    # stage: `rerank(…, fusion="sum")`). The other common reading, the softmax probability of "match", saturates towards
    # 1.0, where float32 has few steps left to rank by.
    # Every layer of BLIP's text tower looks at the image, so a text's tokens are its ids, and an image's its patches.
    # In BLIP's own evaluation a token [ENC] stands in place of [CLS] before this head; the implementation in
    # `transformers` (the reference here) has no such step.

    def __init__(
        self, card: EncoderCard, model: Any, image: DualImageTower, text: DualTextTower, *, device: str
    ) -> None:
        self.card = replace(card, family=f"{card.family}-itm")
        self._model, self._image, self._text, self._device = model, image, text, device
        self._dtype = next(model.parameters()).dtype

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image, float32 (3, H, W), as for the vectors."""
        pixels: Pixels = self._image.prepare([image])[0]
        return pixels

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """(1 + patches, width) of each image, behind the last layer of the vision tower."""
        with inference():
            pixels = to_tensor(batch, self._device, self._dtype)
            return list(self._model.vision_model(pixel_values=pixels).last_hidden_state)

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """(length,) int32 token ids of each text."""
        return self._text.prepare(texts)

    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        """(n,) logits of "match"."""
        scores = np.empty(len(texts), np.float32)
        with inference():
            for image, pairs in of_one_image(images):
                words = {name: ids.to(self._device) for name, ids in self._text.tokens.collate(texts[pairs]).items()}
                # One image for all texts: keys and values of its patches, most of the arithmetic, are computed once and
                # broadcast. There is no mask over patches, because none is padding.
                states = self._model.text_encoder(**words, encoder_hidden_states=image[None]).last_hidden_state
                scores[pairs] = to_vectors(self._model.itm_head(states[:, 0, :])[:, 1])
        return scores

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As for the vectors."""
        return self._text.truncate(texts, ending)


def load(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> BlipEncoder:
    """Load the BLIP retrieval model that lies in `files`.

    Captioning and question-answering checkpoints of BLIP have neither projections nor a matching head and are refused
    (`load_model` names the weights that are missing).
    """
    card, model, towers, device = load_towers(name, kind, files, options, device=device, dtype=dtype)
    image, text = towers["image"], towers["text"]
    assert isinstance(image, DualImageTower) and isinstance(text, DualTextTower)
    return BlipEncoder(card, model, image, text, device=device)

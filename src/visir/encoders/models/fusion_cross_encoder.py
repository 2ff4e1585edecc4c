"""The matching head of X-VLM and ALBEF, as the second stage of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from visir.encoders.cross_encoder import CrossEncoder, Tokens, of_one_image
from visir.encoders.inputs import Pixels
from visir.encoders.models.forward import inference, to_vectors
from visir.encoders.models.fusion_model import FusionModel
from visir.encoders.models.fusion_towers import FusionImageTower, FusionTextTower
from visir.encoders.towers.base import to_device
from visir.records import EncoderCard

if TYPE_CHECKING:
    from PIL.Image import Image


class FusionCrossEncoder(CrossEncoder):
    """The logit of "match", unbounded, higher is better: the second of the matching head's two outputs."""

    # It is what the authors' evaluation ranks by: the `k_test` candidates of the first stage (128 on Flickr30k, 256 on
    # COCO) by this logit alone, every other candidate behind them (it scores them −100). The other common reading, the
    # softmax probability of "match", saturates towards 1.0, where float32 has few steps left to rank by.
    # The text layers do not look at the image, so a text's tokens are what leaves them: they are computed once, and a
    # pair costs the fusion layers only.

    def __init__(
        self, card: EncoderCard, model: FusionModel, image: FusionImageTower, text: FusionTextTower, *, device: str
    ) -> None:
        self.card = replace(card, family=f"{card.family}-itm")
        self._model, self._image, self._text, self._device = model, image, text, device
        self._dtype = next(model.parameters()).dtype

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image, uint8 (H, W, 3), as for the vectors."""
        pixels: Pixels = self._image.prepare([image])[0]
        return pixels

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """(1 + patches, width) of each image, behind the last layer of the image tower."""
        pixels = self._image.collate(batch)
        assert isinstance(pixels, Tensor)
        with inference():
            return list(self._image.network.tokens(pixels.to(self._device, self._dtype)))

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """(length, width) of each text, behind the last of the text layers."""
        ids = self._text.prepare(texts)
        with inference():
            words = self._text.network.tokens(to_device(self._text.collate(ids), self._device))
            # A copy of its own for each text: a view would keep the padded batch.
            return [row[: len(tokens)].clone() for row, tokens in zip(words, ids, strict=True)]

    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        """(n,) logits of "match"."""
        scores = np.empty(len(texts), np.float32)
        with inference():
            for image, pairs in of_one_image(images):
                words = pad_sequence(list(texts[pairs]), batch_first=True)
                lengths = torch.tensor([len(tokens) for tokens in texts[pairs]], device=words.device)
                mask = (torch.arange(words.shape[1], device=words.device) < lengths[:, None]).long()
                scores[pairs] = to_vectors(self._model.match(words, mask, image))
        return scores

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As for the vectors."""
        return self._text.truncate(texts, ending)

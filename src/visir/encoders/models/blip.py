"""BLIP: a dual encoder for the first stage and an image–text matching head for re-ranking, in one checkpoint.

Source: Li et al. 2022, BLIP; `Salesforce/blip-itm-base-coco` and its relatives. The image–text matching head (ITM)
reads the tokens of the text with cross-attention over the patches of the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Pixels, Reranker
from visir.encoders.models.forward import inference, to_tensor, to_vectors
from visir.encoders.models.halves import HalvesEncoder
from visir.encoders.models.model_files import ModelFiles
from visir.encoders.models.transformers_dual import ImageHalf, TextHalf, load_halves
from visir.errors import EncoderError
from visir.records import EncoderCard

if TYPE_CHECKING:
    from PIL.Image import Image

PAIRS_AT_ONCE = 32


class BlipEncoder(HalvesEncoder, Reranker):
    """BLIP for retrieval.

    Vectors are the projections of the first token of either tower before normalisation; their cosine is what
    `BlipForImageTextRetrieval` gives with `use_itm_head=False`.

    Texts are cut at the 512 positions that the text tower has. BLIP's own evaluation cuts at 35 tokens: ask for
    that with `?max_length=35`. It also puts a token [ENC] in place of [CLS] before the matching head, which the
    implementation in `transformers` (the reference here) does not.
    """

    def __init__(self, card: EncoderCard, model: Any, image: ImageHalf, text: TextHalf, *, device: str) -> None:
        super().__init__(card, {"image": image, "text": text}, device=device)
        self._model, self._tokens, self._dtype = model, text.tokens, next(model.parameters()).dtype

    def score_pairs(self, images: Sequence[Image], texts: Sequence[str]) -> NDArray[np.float32]:
        """(n,) logits of "match" of n pairs, unbounded, higher is better.

        This is the second of the matching head's two outputs, as in BLIP's own evaluation (which then adds the cosine
        of the first stage: that sum is the caller's). The other common reading, the softmax probability of
        "match", saturates towards 1.0, where float32 has few steps left to rank by.

        An image that occurs several times (the same object) goes through the vision tower once.
        """
        if len(images) != len(texts):
            raise EncoderError(f"{len(images)} images cannot be paired with {len(texts)} texts.", hint="one text each")
        scores = np.empty(len(texts), np.float32)
        # Pairs of one image stand together, so that its patches are computed once and need not all be kept.
        order = sorted(range(len(images)), key=_first_places([id(image) for image in images]).__getitem__)
        for start in range(0, len(order), PAIRS_AT_ONCE):
            rows = order[start : start + PAIRS_AT_ONCE]
            scores[rows] = self._match([images[row] for row in rows], [texts[row] for row in rows])
        return scores

    def _match(self, images: Sequence[Image], texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        from visir.collections.images import to_rgb

        places = _first_places([id(image) for image in images])
        distinct = sorted(set(places))
        with inference():
            patches = self._patches([self.preprocess(to_rgb(images[place])) for place in distinct])
            patches = patches[[distinct.index(place) for place in places]]
            states = self._model.text_encoder(
                **self._tokens(texts, self._device),
                encoder_hidden_states=patches,
                encoder_attention_mask=torch.ones(patches.shape[:2], dtype=torch.long, device=self._device),
            ).last_hidden_state
            return to_vectors(self._model.itm_head(states[:, 0, :])[:, 1])

    def _patches(self, batch: Sequence[Pixels]) -> Any:
        pixels = to_tensor(batch, self._device, self._dtype)
        return self._model.vision_model(pixel_values=pixels).last_hidden_state


def _first_places(keys: Sequence[int]) -> list[int]:
    """For each key the place at which it first occurs: [a, b, a] gives [0, 1, 0]."""
    first: dict[int, int] = {}
    return [first.setdefault(key, place) for place, key in enumerate(keys)]


def load(name: str, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str) -> BlipEncoder:
    """Load the BLIP retrieval model that lies in `files`.

    Captioning and question-answering checkpoints of BLIP have neither projections nor a matching head and are refused
    (`load_model` names the weights that are missing).
    """
    card, model, image, text, device = load_halves(name, "blip", files, options, device=device, dtype=dtype)
    return BlipEncoder(card, model, image, text, device=device)

"""BLIP: a dual encoder for the first stage and an image–text matching head for re-ranking, in one checkpoint.

Source: Li et al. 2022, BLIP; `Salesforce/blip-itm-base-coco` and its relatives. The image–text matching head (ITM)
reads the tokens of the text with cross-attention over the patches of the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder, Pixels, Reranker
from visir.encoders.devices import pick_device
from visir.encoders.models.forward import inference, no_vectors, to_tensor, to_vectors
from visir.encoders.models.image_processors import BACKENDS, ImageProcessor
from visir.encoders.models.model_files import ModelFiles, loading
from visir.encoders.models.model_names import one_of, positive_number, template_of
from visir.encoders.models.tokens import Tokens
from visir.encoders.models.transformers_dual import load_model
from visir.errors import EncoderError
from visir.records import EncoderCard, Modality

if TYPE_CHECKING:
    from PIL.Image import Image

PAIRS_AT_ONCE = 32


class BlipEncoder(Encoder, Reranker):
    """BLIP for retrieval.

    Vectors are the projections of the first token of either tower before normalisation; their cosine is what
    `BlipForImageTextRetrieval` gives with `use_itm_head=False`.

    Texts are cut at the 512 positions that the text tower has. BLIP's own evaluation cuts at 35 tokens: ask for
    that with `?max_length=35`. It also puts a token [ENC] in place of [CLS] before the matching head, which the
    implementation in `transformers` (the reference here) does not.
    """

    modalities: frozenset[Modality] = frozenset({"image", "text"})

    def __init__(
        self, card: EncoderCard, model: Any, processor: ImageProcessor, tokens: Tokens, *, device: str
    ) -> None:
        self.card, self.dimension = card, int(model.config.image_text_hidden_size)
        self._model, self._processor, self._tokens, self._device = model, processor, tokens, device
        self._dtype = next(model.parameters()).dtype

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image, float32 (3, H, W), by the model's own image processor."""
        return self._processor.pixels(image)

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension) projections of n preprocessed images."""
        if not len(batch):
            return no_vectors(self.dimension)
        with inference():
            return to_vectors(self._model.vision_proj(self._patches(batch)[:, 0, :]))

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) projections of n texts."""
        if not len(texts):
            return no_vectors(self.dimension)
        with inference():
            states = self._model.text_encoder(**self._tokens(texts, self._device)).last_hidden_state
            return to_vectors(self._model.text_proj(states[:, 0, :]))

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
    device = pick_device(device)
    backend = one_of(name, options, "processor", BACKENDS)
    template, max_length = template_of(name, options), positive_number(name, options, "max_length")
    with loading(name):
        model = load_model(name, "BlipForImageTextRetrieval", files, dtype)
        processor = ImageProcessor(files.folder, backend)
        tokens = Tokens(
            files.folder,
            limit=int(model.config.text_config.max_position_embeddings),
            vocabulary=int(model.config.text_config.vocab_size),
            template=template,
            max_length=max_length,
        )
        card = EncoderCard(
            name=name,
            family="transformers-blip",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing=processor.values(),
            text_preprocessing=tokens.values(),
            dtype=dtype,
        )
        return BlipEncoder(card, model.to(device), processor, tokens, device=device)

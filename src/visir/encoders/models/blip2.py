"""BLIP-2 for retrieval: several vectors for each image, one for each text, and a matching head for re-ranking.

Source: Li et al. 2023, BLIP-2; `Salesforce/blip2-itm-vit-g` and its relatives. A small transformer (the Q-Former) takes
32 vectors from an image, one for each of its query tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from visir.encoders.cross_encoder import Tokens, of_one_image
from visir.encoders.inputs import Pixels
from visir.encoders.models.blip import BlipCrossEncoder
from visir.encoders.models.hub import ModelFiles
from visir.encoders.models.precision import inference, to_vectors
from visir.encoders.models.pretrained_towers import PretrainedTowersEncoder
from visir.encoders.models.transformers_kinds import ModelKind
from visir.encoders.models.transformers_towers import DualImageTower, DualTextTower, load_towers
from visir.records import EncoderCard, VectorForm

VectorLists = list[NDArray[np.float32]]


class Blip2Encoder(PretrainedTowersEncoder):
    """BLIP-2's first stage (ITC): 32 unit vectors for an image, one for a text."""

    # The score of a pair is the greatest cosine between the text and a vector of the image. With a text as query, that
    # is MaxSim, and so what `Blip2ForImageTextRetrieval` gives. With an image as query, MaxSim adds up over the image's
    # 32 vectors, where BLIP-2's own evaluation takes the greatest: texts are then ranked by their mean cosine. Re-rank
    # with `cross_encoder`, whose score does not depend on what is the query.

    form: VectorForm = "multi-vector"
    batch_size = 16

    def __init__(
        self, card: EncoderCard, model: Any, image: DualImageTower, text: DualTextTower, *, device: str
    ) -> None:
        super().__init__(card, {"image": image, "text": text}, device=device)
        self.cross_encoder = Blip2CrossEncoder(card, model, image, text, device=device)

    def embed_images(self, batch: Sequence[Pixels]) -> VectorLists:  # type: ignore[override]
        """(32, dimension) unit vectors of each preprocessed image."""
        return list(self._embed(self.pretrained_tower("image"), batch))

    def embed_texts(self, texts: Sequence[str]) -> VectorLists:  # type: ignore[override]
        """(1, dimension) unit vector of each text."""
        tower = self.pretrained_tower("text")
        return [vector[None] for vector in self._embed(tower, tower.prepare(texts) if len(texts) else [])]

    def text_pieces(self, texts: Sequence[str], role: str) -> list[list[str]]:
        """What the vector of each text stands for: all of it."""
        return [[text] for text in texts]


class Blip2CrossEncoder(BlipCrossEncoder):
    """BLIP-2's image–text matching head (ITM): the logit of "match", unbounded, higher is better."""

    # The Q-Former reads the query tokens and the text together while it looks at the image; the head scores each query
    # token, and the score is their mean, as in `Blip2ForImageTextRetrieval`.

    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        """(n,) logits of "match"."""
        model, scores = self._model, np.empty(len(texts), np.float32)
        queries = model.query_tokens
        with inference():
            for image, pairs in of_one_image(images):
                words = {name: ids.to(self._device) for name, ids in self._text.tokens.collate(texts[pairs]).items()}
                mask = words["attention_mask"]
                states = model.qformer(
                    query_embeds=model.embeddings(
                        input_ids=words["input_ids"], query_embeds=queries.expand(len(mask), -1, -1)
                    ),
                    query_length=queries.shape[1],
                    attention_mask=torch.cat([mask.new_ones(len(mask), queries.shape[1]), mask], dim=1),
                    encoder_hidden_states=image.to(queries.dtype).expand(len(mask), -1, -1),
                ).last_hidden_state
                logits = model.itm_head(states[:, : queries.shape[1]].to(model.itm_head.weight.dtype))
                scores[pairs] = to_vectors(logits.mean(dim=1)[:, 1])
        return scores


def load(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> Blip2Encoder:
    """Load the BLIP-2 retrieval model that lies in `files`."""
    card, model, towers, device = load_towers(name, kind, files, options, device=device, dtype=dtype)
    image, text = towers["image"], towers["text"]
    assert isinstance(image, DualImageTower) and isinstance(text, DualTextTower)
    return Blip2Encoder(card, model, image, text, device=device)

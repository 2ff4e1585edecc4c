"""BLIP and BLIP-2: a dual encoder for the first stage and an image–text matching head for re-ranking, in one.

Source: Li et al. 2022, BLIP; `Salesforce/blip-itm-base-coco` and its relatives. The image–text matching head (ITM)
reads the tokens of the text with cross-attention over the patches of the image. Li et al. 2023, BLIP-2;
`Salesforce/blip2-itm-vit-g` and its relatives: a small transformer (the Q-Former) takes 32 vectors from an image, one
for each of its query tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from visir.encoders.cross_encoder import Tokens, of_one_image
from visir.encoders.intake import Pixels
from visir.encoders.models.hub import ModelFiles
from visir.encoders.models.precision import inference, to_tensor, to_vectors
from visir.encoders.models.towers import MatchingHead, PretrainedTowersEncoder
from visir.encoders.models.transformers_kinds import ModelKind
from visir.encoders.models.transformers_towers import load_towers
from visir.records import VectorForm

if TYPE_CHECKING:
    pass


class BlipCrossEncoder(MatchingHead):
    """BLIP's image–text matching head."""

    # BLIP's own evaluation then adds the cosine of the first stage (`rerank(…, fusion="sum")`).
    # Every layer of BLIP's text tower looks at the image, so a text's tokens are its ids, and an image's its patches.
    # In BLIP's own evaluation a token [ENC] stands in place of [CLS] before this head; the implementation in
    # `transformers` (the reference here) has no such step.

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """(1 + patches, width) of each image, behind the last layer of the vision tower."""
        with inference():
            pixels = to_tensor(batch, self._device, self._dtype)
            return list(self._model.vision_model(pixel_values=pixels).last_hidden_state)

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """(length,) int32 token ids of each text."""
        ids: list[Tokens] = self._text.prepare_all(texts)
        return ids

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


VectorLists = list[NDArray[np.float32]]


class Blip2Encoder(PretrainedTowersEncoder):
    """BLIP-2's first stage (ITC): 32 unit vectors for an image, one for a text."""

    # The score of a pair is the greatest cosine between the text and a vector of the image. With a text as query, that
    # is MaxSim, and so what `Blip2ForImageTextRetrieval` gives. With an image as query, MaxSim adds up over the image's
    # 32 vectors, where BLIP-2's own evaluation takes the greatest: texts are then ranked by their mean cosine. Re-rank
    # with `cross_encoder`, whose score does not depend on what is the query.

    form: VectorForm = "multi-vector"
    batch_size = 16

    def embed_images(self, batch: Sequence[Pixels]) -> VectorLists:  # type: ignore[override]
        """(32, dimension) unit vectors of each preprocessed image."""
        return list(self._embed("image", batch))

    def embed_texts(self, texts: Sequence[str]) -> VectorLists:  # type: ignore[override]
        """(1, dimension) unit vector of each text."""
        tokens = self._tower("text").prepare_all(texts) if len(texts) else []
        return [vector[None] for vector in self._embed("text", tokens)]

    def text_pieces(self, texts: Sequence[str], role: str) -> list[list[str]]:
        """What the vector of each text stands for: all of it."""
        return [[text] for text in texts]


def load(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> PretrainedTowersEncoder:
    """Load the retrieval model of BLIP, or BLIP-2, that lies in `files`."""
    # Vectors of BLIP are the projections of the first token of either tower before normalisation; their cosine is what
    # `BlipForImageTextRetrieval` gives with `use_itm_head=False`. Texts are cut at the 512 positions that the text
    # tower has. BLIP's own evaluation cuts at 35 tokens: ask for that with `?max_length=35`.
    # Captioning and question-answering checkpoints have neither projections nor a matching head and are refused
    # (`load_model` names the weights that are missing).
    card, model, towers, device = load_towers(name, kind, files, options, device=device, dtype=dtype)
    is_second = kind.class_name.startswith("Blip2")
    encoder = (Blip2Encoder if is_second else PretrainedTowersEncoder)(card, towers, device=device)
    head = Blip2CrossEncoder if is_second else BlipCrossEncoder
    encoder.cross_encoder = head(card, model, towers["image"], towers["text"], device=device)
    return encoder

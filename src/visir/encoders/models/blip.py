"""BLIP and BLIP-2: a dual encoder for the first stage and an image–text matching head for re-ranking, in one."""

# Li et al. 2022, BLIP; `Salesforce/blip-itm-base-coco` and its relatives. The image–text matching head (ITM) reads the
# tokens of the text with cross-attention over the patches of the image. Li et al. 2023, BLIP-2;
# `Salesforce/blip2-itm-vit-g` and its relatives: a small transformer (the Q-Former) takes 32 vectors from an image, one
# for each of its query tokens.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from visir.encoders.cross_encoder import Tokens
from visir.encoders.intake import InputBatch, Pixels
from visir.encoders.models.precision import inference, to_tensor
from visir.encoders.models.towers import MatchingHead, PretrainedTowersEncoder
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.records import EncoderCard, Modality, Role, VectorForm


def answers_of_queries(model: Any, pixels: Any) -> Tensor:
    """(n, queries, dimension) unit vectors: what each of BLIP-2's query tokens takes from an image."""
    states = model.vision_model(pixel_values=pixels).last_hidden_state.to(model.query_tokens.dtype)
    queries = model.query_tokens.expand(len(states), -1, -1)
    answers = model.qformer(query_embeds=queries, encoder_hidden_states=states).last_hidden_state
    vectors = model.vision_projection(answers.to(model.vision_projection.weight.dtype))
    return torch.nn.functional.normalize(vectors, dim=-1)


def first_of_qformer(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    """(n, dimension) unit vectors: what the first token of each text becomes."""
    words = model.embeddings(input_ids=tokens["input_ids"])
    mask = tokens["attention_mask"]
    states = model.qformer(query_embeds=words, query_length=0, attention_mask=mask).last_hidden_state[:, 0]
    vectors = model.text_projection(states.to(model.text_projection.weight.dtype))
    return torch.nn.functional.normalize(vectors, dim=-1)


class BlipCrossEncoder(MatchingHead):
    """BLIP's image–text matching head."""

    # BLIP's own evaluation then adds the cosine of the first stage (`rerank(…, fusion="sum")`).
    # Every layer of BLIP's text tower looks at the image, so a text's tokens are its ids, and an image's its patches.
    # In BLIP's own evaluation a token [ENC] stands in place of [CLS] before this head; the implementation in
    # `transformers` (the reference here) has no such step.

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """(1 + patches, width) of each image, behind the last layer of the vision tower."""
        with inference(self._device):
            pixels = to_tensor(batch, self._device, self._dtype)
            return list(self._model.vision_model(pixel_values=pixels).last_hidden_state)

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """(length,) int32 token ids of each text."""
        ids: list[Tokens] = self._text.prepare_all(texts)
        return ids

    def logits(self, image: Tokens, texts: Sequence[Tokens]) -> Tensor:
        """See `MatchingHead`."""
        # Keys and values of the patches, most of the arithmetic, are computed once and broadcast. There is no mask over
        # patches, because none is padding.
        states = self._model.text_encoder(**self._words(texts), encoder_hidden_states=image[None]).last_hidden_state
        logits: Tensor = self._model.itm_head(states[:, 0, :])[:, 1]
        return logits

    def _words(self, texts: Sequence[Tokens]) -> dict[str, Tensor]:
        return {name: ids.to(self._device) for name, ids in self._text.collate(texts).items()}


class Blip2CrossEncoder(BlipCrossEncoder):
    """BLIP-2's image–text matching head (ITM): the logit of "match", unbounded, higher is better."""

    # The Q-Former reads the query tokens and the text together while it looks at the image; the head scores each query
    # token, and the score is their mean, as in `Blip2ForImageTextRetrieval`.

    def logits(self, image: Tokens, texts: Sequence[Tokens]) -> Tensor:
        """See `MatchingHead`."""
        model, words = self._model, self._words(texts)
        queries, mask = model.query_tokens, words["attention_mask"]
        states = model.qformer(
            query_embeds=model.embeddings(input_ids=words["input_ids"], query_embeds=queries.expand(len(mask), -1, -1)),
            query_length=queries.shape[1],
            attention_mask=torch.cat([mask.new_ones(len(mask), queries.shape[1]), mask], dim=1),
            encoder_hidden_states=image.to(queries.dtype).expand(len(mask), -1, -1),
        ).last_hidden_state
        logits: Tensor = model.itm_head(states[:, : queries.shape[1]].to(model.itm_head.weight.dtype))
        return logits.mean(dim=1)[:, 1]


class Blip2Encoder(PretrainedTowersEncoder):
    """BLIP-2's first stage (ITC): 32 unit vectors for an image, one for a text."""

    # The score of a pair is the greatest cosine between the text and a vector of the image. With a text as query, that
    # is MaxSim, and so what `Blip2ForImageTextRetrieval` gives. With an image as query, MaxSim adds up over the image's
    # 32 vectors, where BLIP-2's own evaluation takes the greatest: texts are then ranked by their mean cosine. Re-rank
    # with `cross_encoder`, whose score does not depend on what is the query.

    form: VectorForm = "multi-vector"
    batch_size = 16

    def forward(self, batch: InputBatch, role: Role) -> Any:
        """(32, dimension) unit vectors of each picture, (1, dimension) of each text."""
        vectors = self._embed_all(batch)
        return list(vectors) if batch.texts is None else [vector[None] for vector in vectors]

    def text_pieces(self, texts: Sequence[str], role: str) -> list[list[str]]:
        """What the vector of each text stands for: all of it."""
        return [[text] for text in texts]


def with_head(
    class_name: str, card: EncoderCard, model: Any, towers: Mapping[Modality, PretrainedBackbone], device: str
) -> PretrainedTowersEncoder:
    """The retrieval model of BLIP, or BLIP-2."""
    # Vectors of BLIP are the projections of the first token of either tower before normalisation; their cosine is what
    # `BlipForImageTextRetrieval` gives with `use_itm_head=False`. Texts are cut at the 512 positions that the text
    # tower has. BLIP's own evaluation cuts at 35 tokens: ask for that with `?max_length=35`.
    # Captioning and question-answering checkpoints have neither projections nor a matching head and are refused
    # (`load_model` names the weights that are missing).
    is_second = class_name.startswith("Blip2")
    encoder = (Blip2Encoder if is_second else PretrainedTowersEncoder)(card, towers, device=device)
    head = Blip2CrossEncoder if is_second else BlipCrossEncoder
    encoder.cross_encoder = head(card, model, towers["image"], towers["text"], device=device)
    return encoder

"""Two trained towers as one encoder: `load("path/to/checkpoint")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.devices import COMPILED, pick_device
from visir.encoders.forms import one_each
from visir.encoders.inputs import Pixels
from visir.encoders.intake import Embedded
from visir.encoders.models.compiled_towers import CompiledTowers
from visir.encoders.models.precision import inference, no_vectors, to_vectors
from visir.encoders.models.pretrained_towers import dtype_on_card, of_torch, temperature
from visir.encoders.models.text_side import TextSide, side_of_tower, text_side_of
from visir.encoders.models.tokens import Padding
from visir.encoders.models.trained_tower import pretrained_tower_of
from visir.encoders.models.with_whole import WithWhole
from visir.encoders.towers.base import SetTower, Tower, own_backbone, to_device
from visir.encoders.towers.pretrained_backbone import PretrainedTower
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality, Role, TokenVectors

# What differs between the dual encoders of `transformers`.

PixelInputs = Tensor | Mapping[str, Tensor]
"""(n, 3, H, W), or named tensors where a model takes more than pixels."""


def _features(output: Any) -> Tensor:
    """The projections: themselves before transformers 5, since then the `pooler_output` of a record."""
    features: Tensor = output.pooler_output if hasattr(output, "pooler_output") else output
    return features


def _image_features(model: Any, pixels: PixelInputs) -> Tensor:
    named = {"pixel_values": pixels} if isinstance(pixels, Tensor) else pixels
    return _features(model.get_image_features(**named))


def _text_features(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    return _features(model.get_text_features(**tokens))


def _causal_text_features(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    """Text features with the causal mask written out: (n, 1, length, length), lowest where a token may not look."""
    words = tokens["attention_mask"].bool()
    allowed = (
        torch.ones(words.shape[1], words.shape[1], dtype=torch.bool, device=words.device).tril() & words[:, None, None]
    )
    dtype = next(model.text_model.parameters()).dtype
    mask = torch.zeros(allowed.shape, dtype=dtype, device=words.device)
    mask = mask.masked_fill(~allowed, torch.finfo(dtype).min)
    return _text_features(model, {"input_ids": tokens["input_ids"], "attention_mask": mask})


def _answers_of_queries(model: Any, pixels: Any) -> Tensor:
    """(n, queries, dimension) unit vectors: what each of BLIP-2's query tokens takes from an image."""
    states = model.vision_model(pixel_values=pixels).last_hidden_state.to(model.query_tokens.dtype)
    queries = model.query_tokens.expand(len(states), -1, -1)
    answers = model.qformer(query_embeds=queries, encoder_hidden_states=states).last_hidden_state
    vectors = model.vision_projection(answers.to(model.vision_projection.weight.dtype))
    return torch.nn.functional.normalize(vectors, dim=-1)


def _first_of_qformer(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    words = model.embeddings(input_ids=tokens["input_ids"])
    mask = tokens["attention_mask"]
    states = model.qformer(query_embeds=words, query_length=0, attention_mask=mask).last_hidden_state[:, 0]
    vectors = model.text_projection(states.to(model.text_projection.weight.dtype))
    return torch.nn.functional.normalize(vectors, dim=-1)


_PADDED_POSITIONS = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "altclip_text_model", "longformer")
"""Text models whose positions begin behind the padding id: of 514 positions, 512 are for tokens."""


def positions(config: Any) -> int | None:
    """The tokens a text model has positions for; None where its configuration does not say."""
    most = getattr(config, "max_position_embeddings", None)
    if most is None:
        return None
    return int(most) - int(config.pad_token_id) - 1 if config.model_type in _PADDED_POSITIONS else int(most)


def at_most(trained: int) -> Callable[[Any], int | None]:
    """The tokens a text model was trained on, where it has positions for more."""
    return lambda config: min(trained, positions(config) or trained)


@dataclass(frozen=True)
class DualFamily:
    """What one family does its own way."""

    # Tokens a text may have, from the configuration of the text tower; None is the tokenizer's own limit.
    limit: Callable[[Any], int | None] = positions
    padding: Padding = "longest"  # see `Tokens`; as the family's published processor and training did it
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    # Of the common space, from the model's configuration; None finds it out by a trial.
    dimension: Callable[[Any], int | None] = lambda config: int(config.projection_dim)
    # The children of the model that each tower uses; a name that ends in * is a beginning.
    image_parts: tuple[str, ...] = ("vision_model", "visual_projection")
    text_parts: tuple[str, ...] = ("text_model", "text_projection")
    unused: tuple[str, ...] = ()  # what lies in them and is never computed
    # The projections before normalisation, from the model and a batch.
    image: Callable[[Any, Any], Tensor] = _image_features
    text: Callable[[Any, Any], Tensor] = _text_features
    # The one that the model was trained to.
    temperature: Callable[[Any], float | None] = lambda model: temperature(model.logit_scale)
    described: bool = True  # whether somebody has compared this reading with the family's own
    # The configuration of the text tower, from the model's.
    text_config: Callable[[Any], Any] = lambda config: getattr(config, "text_config", config)
    several: bool = False  # whether an image has several vectors: (n, t, dimension)


_SIGLIP = DualFamily(
    padding="max_length", inputs=("input_ids",), dimension=lambda config: int(config.vision_config.hidden_size)
)

FAMILIES: Mapping[str, DualFamily] = {
    # Radford et al. 2021. OpenAI's own code pads every text to 77. With the causal mask and the vector taken at the
    # end token, padding cannot reach it, so padding to the longest gives the same vector for a sixth of the work.
    "CLIPModel": DualFamily(),
    # Chuang et al. 2025, MetaCLIP 2: CLIP with XLM-V's tokenizer.
    "MetaClip2Model": DualFamily(),
    # Lüddecke & Ecker 2022: CLIP's two towers below a decoder of masks, pictures of 352 pixels, positions interpolated.
    "CLIPSegModel": DualFamily(),
    # Fini et al. 2024, trained by LiT. The text tower is causal. In transformers 5.23 it looks ahead when no text of a
    # batch is padded: then a text alone has another vector than in company.
    "Aimv2Model": DualFamily(text=_causal_text_features),
    # Chen et al. 2022: CLIP with XLM-RoBERTa.
    "AltCLIPModel": DualFamily(),
    # Yang et al. 2022: CLIP with a Chinese BERT; trained on texts of 52 tokens, which its authors' code cuts at.
    "ChineseCLIPModel": DualFamily(limit=at_most(52), unused=("text_model.pooler",)),
    # Jia et al. 2021, COYO-ALIGN: the text tower is a BERT with 512 positions, but was trained on 64 tokens and its
    # published processor pads to 64. (That processor does not cut; a longer text would be seen at positions that were
    # never trained, so here it is cut at 64.)
    "AlignModel": DualFamily(
        limit=at_most(64),
        padding="max_length",
        unused=("text_model.pooler",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Xu et al. 2022: CLIP's tokenizer and 77 positions.
    "GroupViTModel": DualFamily(),
    # Minderer et al. 2022 and 2023: CLIP tuned to find objects by name; its towers still give one vector each. A text
    # is the name of an object: 16 tokens.
    "OwlViTModel": DualFamily(),
    "Owlv2Model": DualFamily(),
    # Singh et al. 2022: the projection of the first token of either tower; texts of 77 tokens.
    "FlavaModel": DualFamily(
        limit=at_most(77),
        image_parts=("image_model", "image_projection"),
        text_parts=("text_model", "text_projection"),
        unused=("image_model.pooler", "text_model.pooler", "image_model.embeddings.mask_token"),
        image=lambda model, pixels: _image_features(model, pixels)[:, 0],
        text=lambda model, tokens: _text_features(model, tokens)[:, 0],
    ),
    # Zhai et al. 2023: trained on texts padded to 64 without a mask, the vector taken at the last position, which is
    # mostly padding. Padding to the longest, or handing over the mask, gives another vector.
    "SiglipModel": _SIGLIP,
    # Tschannen et al. 2025, the NaFlex models: pictures keep their proportions.
    "Siglip2Model": _SIGLIP,
    # TIPSv2, Google 2026: the first token of a picture, the mean of the tokens of a text; no projections.
    "Tipsv2Model": DualFamily(
        padding="max_length",
        dimension=lambda config: int(config.vision_config.hidden_size),
        image_parts=("vision_model",),
        text_parts=("text_model",),
        unused=("vision_model.embeddings.mask_token",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Any vision model and any text model with a projection each, trained by their owners.
    "VisionTextDualEncoderModel": DualFamily(),
    # Li et al. 2022: the first token of either tower. The text tower's cross-attention is for the matching head.
    "BlipForImageTextRetrieval": DualFamily(
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "vision_proj"),
        text_parts=("text_encoder", "text_proj"),
        unused=("text_encoder.encoder.layer.*.crossattention",),
        image=lambda model, pixels: model.vision_proj(model.vision_model(pixel_values=pixels).last_hidden_state[:, 0]),
        text=lambda model, tokens: model.text_proj(model.text_encoder(**tokens).last_hidden_state[:, 0]),
        temperature=lambda model: None,  # it was learnt, and is not in the checkpoints
    ),
    # Li et al. 2023, BLIP-2: a small transformer asks a frozen vision tower 32 questions; it reads texts, too.
    "Blip2ForImageTextRetrieval": DualFamily(
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "query_tokens", "qformer", "vision_projection"),
        text_parts=("embeddings", "qformer", "text_projection"),
        image=_answers_of_queries,
        text=_first_of_qformer,
        temperature=lambda model: None,
        text_config=lambda config: config.qformer_config,
        several=True,
    ),
}
"""By the class of `transformers` that has both towers."""

UNDESCRIBED = DualFamily(
    dimension=lambda config: None,
    image_parts=("vision*", "visual*", "image*"),
    text_parts=("text*",),
    temperature=lambda model: None,
    described=False,
)
"""A class that has `get_image_features` and `get_text_features`, and of which nothing more is known: texts are padded
to the longest of a batch, with a mask, and cut at the positions there are. The card says so."""


def family_of_class(class_name: str) -> DualFamily:
    """What is known of a class."""
    return FAMILIES.get(class_name, UNDESCRIBED)


KIND = "towers"
SIDES: tuple[Modality, Modality] = ("image", "text")
_BLOCK = 8192


class TowersEncoder(Encoder):
    """An image tower and a text tower that were trained together."""

    # A side whose tower has a backbone encodes by itself. A side without one has a frozen encoder (`base_encoders`),
    # whose vectors are what is kept in the store, so evaluating another checkpoint over the same base encoder encodes
    # nothing again; `project` is then a matrix product.
    # Where both frozen encoders give several vectors for each input, so do the towers (form "multi-vector"): a head
    # brings each vector into the common space by itself, where it has length 1, and pairs are scored with MaxSim.

    batch_size = 128

    def __init__(
        self,
        towers: Mapping[Modality, Tower],
        base_encoders: Mapping[Modality, Encoder | None],
        *,
        name: str = KIND,
        device: str | None = None,
        dtype: str = "float32",
        weights: str | None = None,
        temperature: float | None = None,
        bias: float | None = None,
        prompts: Sequence[str] = (),
    ) -> None:
        for side in SIDES:
            _check_fit(side, towers[side], base_encoders.get(side))
        outputs = [towers[side].head.spec.outputs for side in SIDES]
        if outputs[0] != outputs[1]:
            raise EncoderError(
                f"{name}: the towers end in different dimensions, {outputs[0]} and {outputs[1]}.",
                code="towers-end-different-dimensions",
            )
        torch_device, torch_dtype = of_torch(device, dtype)
        self.device = pick_device(torch_device)
        self._compiled = CompiledTowers(self.pretrained_tower) if device == COMPILED else None
        self.base_encoders = {side: base_encoders.get(side) for side in SIDES}
        for tower in towers.values():
            tower.to(self.device, getattr(torch, torch_dtype) if tower.backbone is not None else torch.float32).eval()
        self.towers = dict(towers)
        if all(isinstance(tower, SetTower) for tower in towers.values()):
            self.form = "multi-vector"
        self._temperature, self._bias, self.prompts = temperature, bias, tuple(prompts)
        self.dimension = outputs[0]
        self.modalities = frozenset(SIDES)
        frozen = {side: encoder.card for side, encoder in self.base_encoders.items() if encoder is not None}
        self.distinguishes_roles = any(
            encoder is not None and encoder.distinguishes_roles for encoder in self.base_encoders.values()
        )
        own = [side for side in SIDES if side not in frozen]
        self.card = EncoderCard(
            name=name,
            family=KIND,
            weights=weights and hash_json({KIND: weights, **{s: card.fingerprint for s, card in frozen.items()}}),
            image_preprocessing=self._preprocessing("image"),
            text_preprocessing=self._preprocessing("text") | ({"prompts": list(prompts)} if prompts else {}),
            dtype=dtype_on_card(device, dtype) if own else frozen["image"].dtype,
        )
        if device == COMPILED and not any(COMPILED in card.dtype for card in (self.card, *frozen.values())):
            pick_device(device)  # heads over frozen encoders of which none is compiled

    def _preprocessing(self, side: Modality) -> dict[str, Any]:
        backbone, base_encoder = self.towers[side].backbone, self.base_encoders[side]
        if backbone is not None:
            return backbone.preprocessing()
        assert base_encoder is not None
        return base_encoder.card.image_preprocessing if side == "image" else base_encoder.card.text_preprocessing

    def base_encoder(self, modality: Modality) -> Encoder | None:
        """The frozen encoder whose vectors are kept, of one modality."""
        # None when its tower has a backbone; when texts stand in prompts; and when vectors repeat that of the whole
        # item.
        if (modality == "text" and self.prompts) or isinstance(self.base_encoders[modality], WithWhole):
            return None
        return self.base_encoders[modality]

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, inputs) vectors of the frozen encoder to (n, dimension), in blocks so that memory stays bounded."""
        if self.base_encoders[modality] is None:
            return super().project(modality, vectors)
        result = np.empty((len(vectors), self.dimension), dtype=np.float32)
        with inference():
            for start in range(0, len(vectors), _BLOCK):
                block = torch.from_numpy(np.array(vectors[start : start + _BLOCK], dtype=np.float32))
                result[start : start + len(block)] = to_vectors(self.towers[modality].project(block.to(self.device)))
        return result

    def for_role(self, role: Role) -> TowersEncoder:
        """The same towers over their frozen encoders in this role."""
        if not self.distinguishes_roles:
            return self
        encoder = copy(self)
        encoder.base_encoders = {side: base and base.for_role(role) for side, base in self.base_encoders.items()}
        return encoder

    def preprocess(self, image: Image) -> Pixels:
        """What the backbone, or the frozen encoder, takes."""
        backbone, base_encoder = self.towers["image"].backbone, self.base_encoders["image"]
        prepared: Pixels = (
            base_encoder.preprocess(image) if base_encoder is not None else own_backbone(backbone).prepare(image)
        )
        return prepared

    def embed_images(self, batch: Sequence[Pixels]) -> Embedded:
        """(n, dimension); or the vectors of each."""
        base_encoder = self.base_encoders["image"]
        if base_encoder is not None:
            return self._projected("image", base_encoder.embed_images(batch))
        return self._embed("image", batch)

    def embed_texts(self, texts: Sequence[str]) -> Embedded:
        """(n, dimension), or the vectors of each; in prompts, the mean over them of vectors of length 1."""
        if not self.prompts:
            return self._embed_as_they_are(texts)
        total = np.zeros((len(texts), self.dimension), np.float32)
        for prompt in self.prompts:
            vectors = one_each(self._embed_as_they_are([prompt.replace("{}", text) for text in texts]), self.card.name)
            total += vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return total / np.float32(len(self.prompts))

    def _embed_as_they_are(self, texts: Sequence[str]) -> Embedded:
        base_encoder = self.base_encoders["text"]
        if base_encoder is not None:
            return self._projected("text", base_encoder.embed_texts(texts))
        backbone = own_backbone(self.towers["text"].backbone)
        return self._embed("text", [backbone.prepare(text) for text in texts])

    def embed_texts_alike(self, texts: Sequence[str]) -> Embedded:
        """The same of texts that are of one length for the frozen encoder of texts."""
        base_encoder = self.base_encoders["text"]
        if base_encoder is not None:
            return self._projected("text", base_encoder.embed_texts_alike(texts))
        return self.embed_texts(texts)

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of a text stands for, as the frozen encoder of texts says it."""
        pieces: list[list[str]] = self._frozen("text").text_pieces(texts, role)
        return pieces

    def image_regions(self, image: Image) -> NDArray[np.float64]:
        """(t, 4) where each vector of an image looks, as the frozen encoder of images says it."""
        regions: NDArray[np.float64] = self._frozen("image").image_regions(image)
        return regions

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) words or tokens, as the text tower's backbone, or the frozen encoder of texts, counts them."""
        base_encoder = self.base_encoders["text"]
        if self.prompts:
            return None
        if base_encoder is not None:
            return base_encoder.text_lengths(texts)
        backbone = own_backbone(self.towers["text"].backbone)
        return np.array([len(backbone.prepare(text)) for text in texts], np.int64)

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the text tower's backbone, or the frozen encoder of texts, does it."""
        base_encoder = self.base_encoders["text"]
        return (own_backbone(self.towers["text"].backbone) if base_encoder is None else base_encoder).truncate(
            texts, ending
        )

    def pretrained_tower(self, modality: Modality) -> PretrainedTower:
        """One tower as a tower to be tuned further, sharing its weights with this encoder."""
        base_encoder = self.base_encoders[modality]
        if base_encoder is not None:
            raise EncoderError(
                f"{self.card.name}: its {modality} side is a head over a frozen encoder, {base_encoder.card.name}; "
                "there is no network in it to tune.",
                hint=f'tower = "frozen" trains another head over {base_encoder.card.name}',
                code="side-head-over-frozen",
            )
        return pretrained_tower_of(self.towers[modality])

    def text_side(self) -> TextSide | None:
        """See `visir.encoders.models.text_side`: the tower's, or that of the frozen encoder with the head behind it."""
        base_encoder = self.base_encoders["text"]
        if self.prompts:
            return None
        if base_encoder is None:
            return side_of_tower(self.pretrained_tower("text"))
        side = text_side_of(base_encoder)
        return None if side is None else side.then(self.towers["text"].head)

    def own_temperature(self) -> float | None:
        """The temperature that the objective stood at when the towers were kept; None for an objective without one."""
        return self._temperature

    def own_bias(self) -> float | None:
        """The bias that the sigmoid loss stood at; None for an objective without one."""
        return self._bias

    def _frozen(self, modality: Modality) -> Any:
        encoder = self.base_encoders[modality]
        if encoder is None:
            raise EncoderError(f"{self.card.name}: a network makes one vector for each {modality}; nothing tells more.")
        return encoder

    def _projected(self, modality: Modality, vectors: Embedded) -> Embedded:
        if isinstance(vectors, TokenVectors):
            return TokenVectors(self.project(modality, vectors.vectors), vectors.offsets)
        return self.project(modality, vectors)

    def _embed(self, side: Modality, prepared: Sequence[Any]) -> NDArray[np.float32]:
        if not len(prepared):
            return no_vectors(self.dimension)
        tower = self.towers[side]
        inputs = own_backbone(tower.backbone).collate(prepared)
        if self._compiled is not None:
            return self._compiled.vectors(side, self.card, inputs)
        with inference():
            return to_vectors(tower(to_device(inputs, self.device)))


def _check_fit(side: Modality, tower: Tower, base_encoder: Encoder | None) -> None:
    width = tower.inputs
    if (tower.backbone is None) == (base_encoder is None):
        raise EncoderError(
            f"the {side} tower needs either a backbone or a frozen encoder, and not both.",
            code="tower-needs-either-backbone",
        )
    if isinstance(tower, SetTower) != (base_encoder is not None and base_encoder.form == "multi-vector"):
        raise EncoderError(f"the {side} tower and the frozen encoder below it differ in how many vectors they give.")
    if tower.backbone is not None:
        if tower.backbone.modality != side:
            raise EncoderError(
                f"a backbone of kind {tower.backbone.kind!r} reads no {side}s; it cannot be the {side} tower.",
                code="backbone-kind-reads-no",
            )
        if tower.backbone.outputs != width:
            raise EncoderError(
                f"the {side} backbone gives {tower.backbone.outputs} dimensions; its head takes {width}.",
                code="backbone-gives-dimensions",
            )
    elif base_encoder is not None:
        if side not in base_encoder.modalities:
            raise EncoderError(
                f"{base_encoder.card.name} encodes no {side}s; it cannot be the {side} base encoder.",
                code="encoder-encodes-no",
            )
        if base_encoder.dimension != width:
            raise EncoderError(
                f"{base_encoder.card.name} gives {base_encoder.dimension} dimensions; the {side} head takes {width}.",
                code="gives-dimensions",
            )

"""Models of the Hugging Face `transformers` library: which of our readers a folder or hub name belongs to, and towers.

Everything is decided from `config.json`: a model that nothing reads is refused before its weights are fetched. What
differs between classes is data (`transformers_kinds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.cross_encoder import Tokens as SideTokens
from visir.encoders.devices import COMPILED, dtype_on_card, of_torch, pick_device
from visir.encoders.families import ADAPTER_FILE, CHECKPOINT_FILE
from visir.encoders.intake import InputBatch, Pixels
from visir.encoders.models.hub import (
    CODE_OPTIONS,
    SMALL_FILES,
    ModelFiles,
    find_model,
    load_model,
    loading,
    one_of,
    only_errors,
    other_repositories,
    positive_number,
    read_configuration,
    read_small_files,
    refuse_code,
    template_of,
    trusted_code,
)
from visir.encoders.models.image_processors import (
    BACKENDS,
    ImageProcessor,
    collate_patches,
    image_processor,
    processor_file,
)
from visir.encoders.models.precision import inference, to_tensor
from visir.encoders.models.text_inputs import Tokens
from visir.encoders.models.towers import MatchingHead, PretrainedTowersEncoder, bias_of, check_pictures
from visir.encoders.models.transformers_kinds import (
    CROSS_ENCODER,
    MULTI_VECTOR,
    POOLINGS,
    SENTENCE_CLASSES,
    TOWER_POOLINGS,
    ModelKind,
    dual_class_of,
    family_of_class,
    has_first_token,
    incomplete,
    is_native,
    kind_of,
    model_type_of,
    pooled_image,
    pooled_text,
    refuse_cross_encoder,
    refused,
    retrieval_class,
    sentence_class,
    trusted_kind,
)
from visir.encoders.towers.base import Inputs, TowerReader, stacked_pixels, to_device
from visir.encoders.towers.pretrained_backbone import (
    PretrainedBackbone,
    part,
    random_weights,
    recompute_activations,
)
from visir.errors import EncoderError, require
from visir.options import split_mark, split_options
from visir.records import EncoderCard, Modality, Role, VectorForm

OPTIONS = ("template", "max_length", "processor", "pooling", "patches", *CODE_OPTIONS)
"""What can follow the name: `?template=a photo of {}&max_length=35&processor=torchvision`."""
LATE_OPTIONS = ("template", "max_length", "processor", "vectors", "image_tokens")
"""The same for late-interaction models."""

_WITH_HEAD = ("BlipForImageTextRetrieval", "Blip2ForImageTextRetrieval")
"""Classes of `transformers` that have a matching head beside their towers."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """Load `ORGANISATION/NAME` from the hub (or its cache), or a folder written by `save_pretrained`."""
    # A class with image and text features gives an encoder of both; a vision tower one of images (image to image
    # search); the text tower of a dual encoder one of texts; a class `…ForRetrieval` one of several vectors for each
    # input.
    # Options in the name:
    #     template: A text with one `{}`.
    #     max_length: Cut texts to so many tokens, at most what the model has positions for.
    #     processor: "pil" or "torchvision", the two implementations of the same image preprocessing.
    #     pooling: What is read of a vision tower alone: "pooler", "cls" or "mean".
    #     patches: The most patches of a picture, for NaFlex models.
    #     vectors: Which vectors of a picture count, for late-interaction models: "all" or "image".
    #     image_tokens: The most tokens of a picture, for late-interaction models of any resolution (ColQwen2).
    #     code: "trusted" runs code that comes with the model, where it is nothing without.
    #     code_revision: The commit of that code, where it lies in another repository.
    bare, options = split_options(name, error=EncoderError)
    files = find_model(bare, revision, code=trusted_code(name, options))
    if (files.folder / CHECKPOINT_FILE).is_file():
        return _load_shared(name, bare, files, device, dtype)
    saved_as = sentence_class(files.folder)
    if saved_as == CROSS_ENCODER:
        raise refuse_cross_encoder(bare)
    if saved_as == MULTI_VECTOR or (saved_as in SENTENCE_CLASSES and not _has_both_towers(files.folder)):
        called = "late-interaction" if saved_as == MULTI_VECTOR else "sentence-transformers"
        require("sentence_transformers", extra="text", purpose=f"the {called} model {name}")
        import visir.encoders.models.sentence as sentence  # here and below: of other readers a tower needs none

        if saved_as == MULTI_VECTOR:  # a ColBERT, named without st:
            return sentence.load_files(name, files, device, dtype)
        return sentence.load_family(f"st:{name}", device, dtype, revision)
    if (files.folder / ADAPTER_FILE).is_file() and not (files.folder / "config.json").is_file():
        from visir.encoders.models.adapter_files import load_adapter

        return load_adapter(name, files, device, dtype)
    config = _configuration(bare, files)
    files.hash_while_importing()
    if (retriever := retrieval_class(config)) is not None:
        import visir.encoders.models.late_interaction as late_interaction

        _, options = split_options(name, LATE_OPTIONS, error=EncoderError)
        return late_interaction.load(name, retriever, files, options, device=device, dtype=dtype)
    _, options = split_options(name, OPTIONS, error=EncoderError)
    options = {key: value for key, value in options.items() if key not in CODE_OPTIONS}
    kind = _kind(name, bare, config, files)
    load = _load_blip if kind.class_name in _WITH_HEAD else _load_dual
    return load(name, kind, files, options, device=device, dtype=dtype)


def _load_shared(name: str, bare: str, files: ModelFiles, device: str | None, dtype: str) -> Encoder:
    """A checkpoint of visir that somebody put on the hub, under its name there."""
    from visir.encoders.checkpoints import load_family as load_checkpoint

    encoder = load_checkpoint(f"{files.with_checkpoint()}{name.removeprefix(bare)}", device, dtype, None)
    encoder.card = replace(encoder.card, name=name)
    return encoder


def refusal_of(name: str, folder: Path) -> str:
    """Why the model in a folder is not read, by its configuration alone; "" where nothing speaks against it."""
    # No weights are read and no code of the model runs: a model that needs code of its own is not judged.
    files, path = ModelFiles(folder, None), folder / "config.json"
    if not path.is_file() or sentence_class(folder):
        return ""
    config = read_configuration(path)
    own_code = bool(config.get("auto_map")) and not is_native(model_type_of(config))
    if own_code or retrieval_class(config) is not None:
        return ""
    try:
        _kind(name, name, config, files)
    except EncoderError as fault:
        return str(fault)
    return ""


def load_cross_encoder(name: str, device: str | None, dtype: str, revision: str | None) -> CrossEncoder | None:
    """A cross-encoder of sentence-transformers, which needs no prefix; None for any other model."""
    if sentence_class(find_model(split_mark(name)[0], revision).folder) != CROSS_ENCODER:
        return None
    require("sentence_transformers", extra="text", purpose=f"the cross-encoder {name}")
    import visir.encoders.models.sentence as sentence

    return sentence.load_cross_encoder(name, device, dtype, revision)


def _has_both_towers(folder: Path) -> bool:
    """Whether `transformers` alone reads a model that sentence-transformers saved."""
    path = folder / "config.json"
    kind = kind_of(read_configuration(path), folder) if path.is_file() else None
    return kind is not None and len(kind.modalities) > 1


def _configuration(bare: str, files: ModelFiles) -> Mapping[str, Any]:
    path = files.folder / "config.json"
    if path.is_file():
        return read_configuration(path)
    error = refused(bare, {}, files)
    raise EncoderError(
        f"{bare}: there is no config.json in {'this repository' if files.hub else files.folder}.",
        hint=f"a folder written by save_pretrained has one; {error.hint}",
        code="no-config-json",
    )


def _kind(name: str, bare: str, config: Mapping[str, Any], files: ModelFiles) -> ModelKind:
    files.check_configurations()
    with loading(bare, code=files.code is not None), only_errors():
        if config.get("auto_map") and not is_native(model_type_of(config)):
            if files.code is None:
                raise refuse_code(name, other_repositories(files.folders))
            with files.code_held():
                kind = trusted_kind(config, files.folder)
        elif files.code is not None and files.code.revisions:
            raise EncoderError(
                f"{name}: code_revision: no code that comes with this model runs; transformers has its class itself.",
                hint="leave code_revision out",
                code="encoder-code-revision",
            )
        else:
            kind = kind_of(config, files.folder)
    if kind is None:
        raise refused(bare, config, files)
    if kind.missing:
        raise incomplete(bare, kind, config)
    return kind


# The image tower and the text tower of a model, whatever class it is of.


@dataclass(frozen=True)
class TowerReading:
    """How the vectors of one modality are read out of a model."""

    features: Callable[[Any, Any], Tensor]  # from the model and a batch to the vectors, before normalisation
    parts: tuple[str, ...] = ()  # the children of the model that it uses; all, when empty
    unused: tuple[str, ...] = ()  # what lies in them and is never computed
    outputs: int | None = None  # the length of a vector; None is found out by a trial
    facts: tuple[tuple[str, str], ...] = ()  # what a person should know of it, for the card


def reading_of(kind: ModelKind, config: Any, modality: Modality, pooling: str | None = None) -> TowerReading:
    """What is known of a class; `pooling` is what the name asks for, of vision towers."""
    if len(kind.modalities) == 1 and modality == "text":
        return TowerReading(pooled_text)
    if len(kind.modalities) == 1:
        own = TOWER_POOLINGS.get(kind.model_type)
        chosen = pooling or own or "pooler"
        unused = ("embeddings.mask_token", *(("pooler",) if own and chosen != "pooler" else ()))
        return TowerReading(partial(pooled_image, pooling=chosen), unused=unused, facts=(("pooling", chosen),))
    family = family_of_class(kind.class_name)
    facts = () if family.described else (("read_by", "get_image_features and get_text_features, as they are"),)
    return TowerReading(
        family.image if modality == "image" else family.text,
        family.image_parts if modality == "image" else family.text_parts,
        family.unused,
        family.dimension(config),
        facts,
    )


_OF_IMAGES = ("config.json", "*processor_config.json")


class _Network(nn.Module):
    """One tower's modules, and the way through them."""

    def __init__(self, model: nn.Module, features: Callable[[Any, Any], Tensor]) -> None:
        super().__init__()
        self.model: Any = model
        self._features = features

    def forward(self, inputs: Inputs) -> Tensor:
        return self._features(self.model, inputs)


def _tower(
    kind: ModelKind, model: Any, folder: Path, reading: TowerReading, reader: TowerReader, options: Mapping[str, Any]
) -> PretrainedBackbone:
    """One tower of a model, which gives it the children that it uses."""
    children = [*model._modules, *model._parameters]
    beginnings = tuple(name[:-1] for name in reading.parts if name.endswith("*"))
    only = [name for name in children if name in reading.parts or (beginnings and name.startswith(beginnings))]
    patches, modality = reader.collate is collate_patches, reader.modality

    def files() -> dict[str, bytes]:
        """What `save_pretrained` wrote for this tower, but the weights."""
        if patches:
            raise EncoderError(
                f"{kind.class_name}: a tower whose pictures have any shape cannot be tuned, only used as it is.",
                hint='tower = "frozen" trains a head over it; the fixed-resolution SigLIP 2 models can be tuned',
                code="tower-whose-pictures-shape",
            )
        if kind.is_foreign:
            raise EncoderError(
                f"{kind.class_name}: a model whose code comes with it cannot be tuned, only used as it is.",
                hint='tower = "frozen" trains a head over it',
                code="model-whose-code-comes",
            )
        if family_of_class(kind.class_name).several:
            raise EncoderError(
                f"{kind.class_name}: a model with several vectors for each image cannot be tuned, only used as it is.",
                hint="models with one vector for each image and text can be tuned",
                code="model-several-vectors-each",
            )
        return read_small_files(folder, SMALL_FILES if modality == "text" else _OF_IMAGES)

    return PretrainedBackbone(
        _Network(part(part(model, only=only), without=reading.unused), reading.features),
        reader,
        outputs=reading.outputs or 0,
        options={"class": kind.class_name, **options},
        files=files,
        checkpoint=lambda network: recompute_activations(network.model, f"the {modality} tower of a {kind.class_name}"),
    )


def find_outputs(tower: PretrainedBackbone, kind: ModelKind, device: str) -> None:
    """Find out how long a vector is by making one, where no configuration says it."""
    if tower.outputs:
        return
    from PIL import Image

    trial = "a dog" if tower.modality == "text" else Image.new("RGB", (64, 64))
    with torch.inference_mode():
        vectors = tower(to_device(tower.collate(tower.prepare_all([trial])), device))
    if vectors.ndim != 2:
        raise EncoderError(
            f"{kind.class_name} gives {tuple(vectors.shape)} for one {tower.modality}, not one vector.",
            hint="wrap it: visir.Encoder.wrap('mine', image=function, text=function)",
        )
    tower.outputs = int(vectors.shape[1])


def image_tower(
    kind: ModelKind,
    model: Any,
    folder: Path,
    *,
    processor: str | None,
    pooling: str | None = None,
    patches: int | None = None,
) -> PretrainedBackbone:
    """Images through the model's own image processor, its vision tower and projection."""
    if pooling == "cls" and not has_first_token(model):
        raise EncoderError(
            f"{folder}: pooling=cls: this model has no first token that stands for the image.",
            hint="pooling=mean; or leave pooling out",
            code="pooling-cls",
        )
    reading = reading_of(kind, model.config, "image", pooling)
    made = image_processor(folder, processor, patches, code=kind.is_foreign)
    plain = made if isinstance(made, ImageProcessor) else None
    reader = TowerReader(
        "transformers",
        "image",
        prepare=lambda images: [made.pixels(image) for image in images],
        collate=collate_patches if plain is None else stacked_pixels,
        values=lambda: {**made.values(), **dict(reading.facts)},
        levels=None if plain is None else plain.levels,
        prepare_levels=None if plain is None else (lambda images: [plain.grey_levels(image) for image in images]),
    )
    return _tower(kind, model, folder, reading, reader, {"processor": made.backend, "pooling": pooling})


def check_tower(name: str, tower: PretrainedBackbone, folder: Path, config: Any, device: str) -> None:
    """Raise `EncoderError` where the pictures of the processor are none that the model takes."""
    if tower.reader.collate is collate_patches:
        return
    vision = getattr(config, "vision_config", None) or getattr(config, "image_config", None) or config
    size = getattr(vision, "image_size", None)
    sizes = [size] if isinstance(size, int) or (isinstance(size, list | tuple) and len(size) == 2) else []
    check_pictures(name, tower, processor_file(folder).name, sizes, device)


def text_tower(
    kind: ModelKind, model: Any, folder: Path, *, template: str, max_length: int | None
) -> PretrainedBackbone:
    """Texts through the model's own tokenizer, its text tower and projection."""
    single = len(kind.modalities) == 1
    family = family_of_class(dual_class_of(kind.model_type) or "" if single else kind.class_name)
    config, reading = (
        model.config if single else family.text_config(model.config),
        reading_of(kind, model.config, "text"),
    )
    tokens = Tokens(
        folder,
        limit=family.limit(config),
        vocabulary=getattr(config, "vocab_size", None),
        padding=family.padding,
        inputs=family.inputs,
        template=template,
        max_length=max_length,
        code=kind.is_foreign,
    )
    others: dict[str, Any] = {"text_inputs": lambda: None} if kind.is_foreign else {}
    reader = TowerReader.of_tokens(
        "transformers", tokens, values=lambda: {**tokens.values(), **dict(reading.facts)}, **others
    )
    return _tower(kind, model, folder, reading, reader, {"template": template, "max_length": max_length})


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """One tower with random weights, from the `files` of a tower that lie in `folder`."""
    import transformers

    with loading(str(folder), folder), random_weights():
        model_class = getattr(transformers, str(spec["class"]))
        config = model_class.config_class.from_pretrained(folder)
        both = all(hasattr(model_class, name) for name in ("get_image_features", "get_text_features"))
        kind = ModelKind(
            config.model_type,
            model_class,
            frozenset({"image", "text"} if both or spec["class"] == "BlipForImageTextRetrieval" else {modality}),
        )
        model = model_class(config).eval()
        if modality == "image":
            tower = image_tower(kind, model, folder, processor=spec["processor"], pooling=spec["pooling"])
        else:
            tower = text_tower(kind, model, folder, template=spec["template"], max_length=spec["max_length"])
        find_outputs(tower, kind, "cpu")
        return tower


# Models of `transformers` as encoders: images and texts through two towers, or one of them through one.

Towers = dict[Modality, PretrainedBackbone]


def _load_dual(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> PretrainedTowersEncoder:
    """The model of this kind that lies in `files`, as its towers alone."""
    torch_device, torch_dtype = of_torch(device, dtype)
    card, model, towers, picked = load_towers(name, kind, files, options, device=torch_device, dtype=torch_dtype)
    own = family_of_class(kind.class_name).temperature(model) if len(kind.modalities) > 1 else None
    card = replace(card, dtype=dtype_on_card(device, dtype))
    device = COMPILED if device == COMPILED else picked
    encoder = PretrainedTowersEncoder(card, towers, device=device, temperature=own, bias=bias_of(model))
    encoder.in_lanes &= not kind.is_foreign  # nobody knows what code of its own does in several threads
    return encoder


def load_towers(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> tuple[EncoderCard, Any, Towers, str]:
    """Card, whole model, its towers, and the device that they are on."""
    device = pick_device(device)
    checks = _checked(name, kind, options)
    with loading(name, code=kind.is_foreign), files.code_held() if kind.is_foreign else nullcontext():
        model = _load_model(name, kind, files, dtype, checks["pooling"]).to(device)
        towers: Towers = {}
        if "image" in kind.modalities:
            chosen = {option: checks[option] for option in ("processor", "pooling", "patches")}
            towers["image"] = image = image_tower(kind, model, files.folder, **chosen)
            check_tower(name, image, files.folder, model.config, device)
            find_outputs(image, kind, device)
        if "text" in kind.modalities:
            chosen = {option: checks[option] for option in ("template", "max_length")}
            towers["text"] = text = text_tower(kind, model, files.folder, **chosen)
            find_outputs(text, kind, device)
        if kind.is_foreign:
            files.check_code(model)
        lengths = {tower.outputs for tower in towers.values()}
        if len(lengths) > 1:
            raise EncoderError(
                f"{name}: its image vectors and text vectors have {' and '.join(map(str, sorted(lengths)))} values: "
                "they cannot be compared with one another.",
                hint="this class gives features from below a common space",
            )
        card = EncoderCard(
            name=name,
            family=f"transformers-{kind.model_type}",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing=towers["image"].preprocessing() if "image" in towers else {},
            text_preprocessing=towers["text"].preprocessing() if "text" in towers else {},
            dtype=dtype,
            code_revisions=files.code_revisions if kind.is_foreign else {},
        )
    return card, model, towers, device


def _checked(name: str, kind: ModelKind, options: dict[str, str]) -> dict[str, Any]:
    """The values of the options; those that this kind could only ignore are refused."""
    single = len(kind.modalities) == 1
    useless = {
        "processor": "image" not in kind.modalities,
        "patches": "image" not in kind.modalities,
        "pooling": not single or "image" not in kind.modalities,
        "template": "text" not in kind.modalities,
        "max_length": "text" not in kind.modalities,
    }
    for option in options:
        if useless.get(option):
            takes = " and ".join(f"{modality}s" for modality in sorted(kind.modalities))
            raise EncoderError(
                f"{name}: {option} says nothing to a {kind.class_name}, which makes vectors of {takes}.",
                hint=f"leave {option} out",
                code="says-nothing-makes-vectors",
            )
    return {
        "processor": one_of(name, options, "processor", BACKENDS) if "processor" in options else None,
        "pooling": one_of(name, options, "pooling", POOLINGS) if "pooling" in options else None,
        "patches": positive_number(name, options, "patches"),
        "template": template_of(name, options),
        "max_length": positive_number(name, options, "max_length"),
    }


def _load_model(name: str, kind: ModelKind, files: ModelFiles, dtype: str, pooling: str | None) -> Any:
    """The model; weights that no tower uses may be missing: a pooler that nobody reads."""
    config = kind.model_class.config_class.from_pretrained(
        files.folder, **({"trust_remote_code": True} if kind.is_foreign else {})
    )
    files.hash_ahead()
    unused = [part for modality in kind.modalities for part in reading_of(kind, config, modality, pooling).unused]
    return load_model(name, kind.model_class, files, dtype, unused=unused, code=kind.is_foreign)


# BLIP and BLIP-2: a dual encoder for the first stage and an image–text matching head for re-ranking, in one.
# Source: Li et al. 2022, BLIP; `Salesforce/blip-itm-base-coco` and its relatives. The image–text matching head (ITM)
# reads the tokens of the text with cross-attention over the patches of the image. Li et al. 2023, BLIP-2;
# `Salesforce/blip2-itm-vit-g` and its relatives: a small transformer (the Q-Former) takes 32 vectors from an image, one
# for each of its query tokens.


class BlipCrossEncoder(MatchingHead):
    """BLIP's image–text matching head."""

    # BLIP's own evaluation then adds the cosine of the first stage (`rerank(…, fusion="sum")`).
    # Every layer of BLIP's text tower looks at the image, so a text's tokens are its ids, and an image's its patches.
    # In BLIP's own evaluation a token [ENC] stands in place of [CLS] before this head; the implementation in
    # `transformers` (the reference here) has no such step.

    def image_tokens(self, batch: Sequence[Pixels]) -> list[SideTokens]:
        """(1 + patches, width) of each image, behind the last layer of the vision tower."""
        with inference(self._device):
            pixels = to_tensor(batch, self._device, self._dtype)
            return list(self._model.vision_model(pixel_values=pixels).last_hidden_state)

    def text_tokens(self, texts: Sequence[str]) -> list[SideTokens]:
        """(length,) int32 token ids of each text."""
        ids: list[SideTokens] = self._text.prepare_all(texts)
        return ids

    def logits(self, image: SideTokens, texts: Sequence[SideTokens]) -> Tensor:
        """See `MatchingHead`."""
        # Keys and values of the patches, most of the arithmetic, are computed once and broadcast. There is no mask over
        # patches, because none is padding.
        states = self._model.text_encoder(**self._words(texts), encoder_hidden_states=image[None]).last_hidden_state
        logits: Tensor = self._model.itm_head(states[:, 0, :])[:, 1]
        return logits

    def _words(self, texts: Sequence[SideTokens]) -> dict[str, Tensor]:
        return {name: ids.to(self._device) for name, ids in self._text.collate(texts).items()}


class Blip2CrossEncoder(BlipCrossEncoder):
    """BLIP-2's image–text matching head (ITM): the logit of "match", unbounded, higher is better."""

    # The Q-Former reads the query tokens and the text together while it looks at the image; the head scores each query
    # token, and the score is their mean, as in `Blip2ForImageTextRetrieval`.

    def logits(self, image: SideTokens, texts: Sequence[SideTokens]) -> Tensor:
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


def _load_blip(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> PretrainedTowersEncoder:
    """The retrieval model of BLIP, or BLIP-2, that lies in `files`."""
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

"""Image tower and text tower as one encoder: of a loaded model, or as visir trained them; checkpoints of the latter."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.base import Encoder, EncoderOver
from visir.encoders.checkpoints import (
    COPY_AGAIN,
    Layout,
    check_base_encoder,
    load_modules,
    load_part,
    read_description,
    save_modules,
    save_part,
)
from visir.encoders.cross_encoder import CrossEncoder, Tokens, of_one_image
from visir.encoders.devices import COMPILED, dtype_on_card, of_torch, pick_device
from visir.encoders.families import ADAPTER_FILE, CHECKPOINT_FILE
from visir.encoders.forms import one_each
from visir.encoders.intake import Embedded, InputBatch, Pixels, TextLimit, faults_named
from visir.encoders.models.exported import CompiledTowers
from visir.encoders.models.joined import WithWhole
from visir.encoders.models.precision import begin_vectors, in_blocks, inference, no_vectors, stacked, to_vectors
from visir.encoders.towers.adapters import (
    ADAPTER_WEIGHTS,
    fill_adapters,
    read_adapter,
    read_config,
    write_adapter,
)
from visir.encoders.towers.base import (
    Backbone,
    Head,
    HeadSpec,
    SetTower,
    TextSide,
    Tower,
    own_backbone,
    text_side_of,
    to_device,
)
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone, TrainedTower, adapted_towers, merged_tower
from visir.errors import EncoderError
from visir.files import hash_file
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality, Role, TokenVectors
from visir.storage.disk import below, remove_empty_folders

if TYPE_CHECKING:
    from PIL.Image import Image


class PretrainedTowersEncoder(Encoder):
    """Images, texts or both through the towers of a pretrained model: the projections before normalisation."""

    # The same towers are what is tuned, so there is one way from an image or a text to its vector.

    def __init__(
        self,
        card: EncoderCard,
        towers: Mapping[Modality, Backbone],
        *,
        device: str,
        temperature: float | None = None,
        bias: float | None = None,
    ) -> None:
        self.card, self.modalities = card, frozenset(towers)
        self.dimension = next(iter(towers.values())).outputs
        self._towers, self._device = dict(towers), device
        self.computes_ahead = device.startswith("cuda")
        self.in_lanes = device == "cpu"
        self.is_slow_here = self.in_lanes and card.dtype == "float32"
        self._compiled = CompiledTowers(self._towers.__getitem__) if device == COMPILED else None
        self.temperature, self.bias = temperature, bias
        for tower in towers.values():
            tower.eval()

    def prepare(self, item: str | Image, role: Role) -> Any:
        """One RGB image, float32 (3, H, W), by the model's own preprocessing; bytes of that shape for a GPU, which
        makes the same numbers of them (`GreyLevels`)."""
        if isinstance(item, str):
            return item
        return self._towers["image"].reader.prepared([item], as_bytes=self.computes_ahead)[0]

    def forward(self, batch: InputBatch, role: Role) -> Any:
        """(n, dimension) projections of n inputs."""
        return self._embed_all(batch)

    def _embed_all(self, batch: InputBatch) -> NDArray[np.float32]:
        if not len(batch):
            return no_vectors(self.dimension)
        tower = self._towers[batch.modality]
        prepared = batch.images or () if batch.texts is None else tower.prepare_all(batch.texts)
        if self._compiled is not None:
            return self._compiled.vectors(batch.modality, self.card, tower.collate(prepared))
        with inference(self._device):
            return to_vectors(self._features(batch.modality, prepared))

    def begin_images(self, batch: Sequence[Pixels]) -> Callable[[], Embedded]:
        """See `Encoder.begin_images`."""
        if not self.computes_ahead or not len(batch):
            return super().begin_images(batch)
        with inference(), faults_named(self, "images"):
            return begin_vectors(self._features("image", batch))

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) tokens, as the text tower counts them."""
        return np.array([len(tokens) for tokens in self._towers["text"].prepare_all(texts)], np.int64)

    def text_limit(self) -> TextLimit | None:
        """As the text tower reads."""
        return self._towers["text"].reader.limit() if "text" in self.modalities else None

    def pretrained_tower(self, modality: Modality) -> Any:
        """One tower, sharing its weights with this encoder."""
        if modality not in self._towers:
            raise self.cannot(modality)
        return self._towers[modality]

    def text_side(self) -> TextSide | None:
        """See `TextSide`."""
        return self._towers["text"].text_side()

    def _features(self, modality: Modality, prepared: Sequence[Any]) -> Tensor:
        """(n, dimension) on the device."""
        tower = self._towers[modality]
        as_bytes = tower.reader.levels is not None and prepared[0].dtype == np.uint8
        inputs = stacked(prepared, pin=self.computes_ahead) if as_bytes else tower.collate(prepared)
        features: Tensor = tower(to_device(inputs, self._device))
        return features


class MatchingHead(CrossEncoder):
    """The matching head of a model with two towers: the logit of "match", unbounded, higher is better."""

    # That is the second of the head's two outputs, as in the authors' own evaluations. The other common reading, the
    # softmax probability of "match", saturates towards 1.0, where float32 has few steps left to rank by.

    def __init__(
        self, card: EncoderCard, model: Any, image: PretrainedBackbone, text: PretrainedBackbone, *, device: str
    ) -> None:
        self.card = replace(card, family=f"{card.family}-itm")
        self._model, self._image, self._device = model, image, device
        self._text: Any = text
        self._dtype = next(model.parameters()).dtype
        self.in_lanes = device == "cpu"

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image, as for the vectors."""
        pixels: Pixels = self._image.prepare(image)
        return pixels

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As for the vectors."""
        cut: list[str] = self._text.truncate(texts, ending)
        return cut

    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        """(n,) logits of "match": of one image with all of its texts at a time."""
        scores = np.empty(len(texts), np.float32)
        with inference(self._device):
            for image, pairs in of_one_image(images):
                scores[pairs] = to_vectors(self.logits(image, texts[pairs]))
        return scores

    @abstractmethod
    def logits(self, image: Tokens, texts: Sequence[Tokens]) -> Tensor:
        """(n,) of one image with n texts, which are given by their tokens."""


def check_pictures(
    name: str, tower: PretrainedBackbone, place: str, sizes: Collection[int | Sequence[int]], device: str
) -> None:
    """Check that a tower takes the pictures that its own preprocessing makes, before any work begins with it."""
    from PIL import Image

    random, shapes = np.random.default_rng(0), ((48, 67), (67, 48))
    prepared = tower.prepare_all([Image.fromarray(random.integers(0, 256, (*shape, 3), np.uint8)) for shape in shapes])
    stated = sorted({(size, size) if isinstance(size, int) else tuple(size) for size in sizes})
    wanted = " or ".join(f"{height} × {width}" for height, width in stated)
    hint = f"let the sizes in {place} (size, crop_size) be those of the model{wanted and f', {wanted}'}, or fetch "
    hint += "that file again from where the model comes"
    made = [array.shape[-2:] for array in prepared]
    if made[0] != made[1]:
        first, second = (f"{height} × {width}" for height, width in made)
        raise EncoderError(
            f"{name}: its image processor makes pictures of several sizes, {first} pixels of one and {second} of "
            f"another ({place}); the model takes one size{wanted and f', {wanted}'}.",
            hint=hint,
        )
    if tuple(made[0]) in stated:
        return
    try:
        with inference():
            tower(to_device(tower.collate(prepared), device))
    except Exception as fault:
        first = next((line.strip() for line in str(fault).splitlines() if line.strip()), type(fault).__name__)
        raise EncoderError(
            f"{name}: its image processor makes pictures of {made[0][0]} × {made[0][1]} pixels ({place}), and the "
            f"model takes {wanted or 'no such pictures'}: {first}",
            hint=hint,
        ) from fault


def temperature(log_inverse: Tensor) -> float:
    """`1 / exp(log_inverse)`: CLIP and its kin learn the logarithm of the inverse temperature."""
    return math.exp(-float(log_inverse.detach()))


def bias_of(model: Any) -> float | None:
    """The learnt bias of a sigmoid loss, of a model that has one (SigLIP, in transformers and in open_clip)."""
    bias = getattr(model, "logit_bias", None)
    return None if bias is None else float(bias.detach())


KIND = "towers"
SIDES: tuple[Modality, Modality] = ("image", "text")


class TowersEncoder(EncoderOver):
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
        self.base_encoders = {side: base_encoders.get(side) for side in SIDES}
        for tower in towers.values():
            tower.to(self.device, getattr(torch, torch_dtype) if tower.backbone is not None else torch.float32).eval()
        self.towers = dict(towers)
        if all(isinstance(tower, SetTower) for tower in towers.values()):
            self.form = "multi-vector"
        self.temperature, self.bias, self.prompts = temperature, bias, tuple(prompts)
        self.dimension = outputs[0]
        self.modalities = frozenset(SIDES)
        frozen = {side: encoder.card for side, encoder in self.base_encoders.items() if encoder is not None}
        self.distinguishes_roles = any(
            encoder and encoder.distinguishes_roles for encoder in self.base_encoders.values()
        )
        preprocessing = {
            side: getattr(frozen[side], f"{side}_preprocessing")
            if side in frozen
            else own_backbone(towers[side].backbone).preprocessing()
            for side in SIDES
        }
        self.card = EncoderCard(
            name=name,
            family=KIND,
            weights=weights and hash_json({KIND: weights, **{s: card.fingerprint for s, card in frozen.items()}}),
            image_preprocessing=preprocessing["image"],
            text_preprocessing=preprocessing["text"] | ({"prompts": list(prompts)} if prompts else {}),
            dtype=dtype_on_card(device, dtype) if len(frozen) < len(SIDES) else frozen["image"].dtype,
        )
        if device == COMPILED and not any(COMPILED in card.dtype for card in (self.card, *frozen.values())):
            pick_device(device)  # heads over frozen encoders of which none is compiled
        compiled = device == COMPILED
        own = {side: merged_tower(towers[side]) if compiled else towers[side] for side in SIDES if side not in frozen}
        if own:
            self._own = PretrainedTowersEncoder(self.card, own, device=COMPILED if compiled else self.device)
        read_by = [self._own if encoder is None else encoder for encoder in self.base_encoders.values()]
        self.in_lanes = all(encoder.in_lanes for encoder in read_by)

    def below(self, modality: Modality) -> Encoder:
        """The frozen encoder of a modality; where there is none, the encoder of the towers themselves."""
        if modality not in self.modalities:
            raise self.cannot(modality)
        base = self.base_encoders[modality]
        return self._own if base is None else base.for_role(self._role)

    def made_of(self, modality: Modality, vectors: Embedded) -> Embedded:
        """See `EncoderOver`: what the towers themselves gave is whole, what a frozen encoder gave is projected."""
        if self.base_encoders[modality] is None:
            return vectors
        if isinstance(vectors, TokenVectors):
            return TokenVectors(self.project(modality, vectors.vectors), vectors.offsets)
        return self.project(modality, vectors)

    def base_encoder(self, modality: Modality) -> Encoder | None:
        """The frozen encoder whose vectors are kept, of one modality."""
        # None when its tower has a backbone; when texts stand in prompts; and when vectors repeat that of the whole
        # item.
        if (modality == "text" and self.prompts) or isinstance(self.base_encoders[modality], WithWhole):
            return None
        return None if self.base_encoders[modality] is None else self.below(modality)

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, inputs) vectors of the frozen encoder to (n, dimension), in blocks so that memory stays bounded."""
        if self.base_encoders[modality] is None:
            return super().project(modality, vectors)
        tower = self.towers[modality]
        return in_blocks(lambda rows: tower.project(rows(vectors)), len(vectors), self.dimension, self.device)

    def prepare(self, item: str | Image, role: Role) -> Any:
        """As the encoder below; of a text in prompts, each of them."""
        if isinstance(item, str) and self.prompts:
            return [super(TowersEncoder, self).prepare(prompt.replace("{}", item), role) for prompt in self.prompts]
        return super().prepare(item, role)

    def forward(self, batch: InputBatch, role: Role) -> Embedded:
        """(n, dimension), or the vectors of each; of texts in prompts, the mean over them of vectors of length 1."""
        if batch.texts is None or not self.prompts:
            return super().forward(batch, role)
        total = np.zeros((len(batch), self.dimension), np.float32)
        for number in range(len(self.prompts)):
            filled = replace(batch, texts=[texts[number] for texts in batch.texts])
            vectors = one_each(super().forward(filled, role), self.card.name)
            total += vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return total / np.float32(len(self.prompts))

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) words or tokens, as the text tower or the frozen encoder counts them; None in prompts."""
        return None if self.prompts else super().text_lengths(texts)

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of a text stands for, as the frozen encoder of texts says it."""
        pieces: list[list[str]] = self._frozen("text").text_pieces(texts, role)
        return pieces

    def image_regions(self, image: Image) -> NDArray[np.float64]:
        """(t, 4) where each vector of an image looks, as the frozen encoder of images says it."""
        regions: NDArray[np.float64] = self._frozen("image").image_regions(image)
        return regions

    def pretrained_tower(self, modality: Modality) -> PretrainedBackbone:
        """One tower as a tower to be tuned further, sharing its weights with this encoder."""
        # Of a tuned tower without a head, that tower again; adapters are merged into a copy.
        base = self.base_encoders[modality]
        if base is not None:
            raise EncoderError(
                f"{self.card.name}: its {modality} side is a head over a frozen encoder, {base.card.name}; "
                "there is no network in it to tune.",
                hint=f'tower = "frozen" trains another head over {base.card.name}',
                code="side-head-over-frozen",
            )
        tower = merged_tower(self.towers[modality])
        is_bare = isinstance(tower.backbone, PretrainedBackbone) and tower.head.spec.identity
        return tower.backbone if is_bare else TrainedTower(tower)  # type: ignore[return-value]

    def text_side(self) -> TextSide | None:
        """See `TextSide`: the tower's, or that of the frozen encoder with the head behind it."""
        if self.prompts:
            return None
        if self.base_encoders["text"] is None:
            return merged_tower(self.towers["text"]).text_side()
        side = text_side_of(self.below("text"))
        return None if side is None else side.then(self.towers["text"].head)

    def _frozen(self, modality: Modality) -> Any:
        encoder = self.base_encoders[modality]
        if encoder is None:
            raise EncoderError(f"{self.card.name}: a network makes one vector for each {modality}; nothing tells more.")
        return encoder


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


# Checkpoints of two towers: a folder written, and read back to the same vectors. Of kind "towers" it holds all weights;
# of kind "adapters" those of the heads, and the adapters in peft's own format over a base that is named with its hash.

WEIGHTS_FILE, HEADS_FILE = "towers.safetensors", "heads.safetensors"
ADAPTERS = "adapters"
BOTH = "adapter"
"""The folder of the adapters of both towers, where they are of one model."""


def _layout(kind: str, file: str, *parts: str, folders: tuple[str, ...] = ()) -> Layout:
    return Layout.of(kind, (file,), (*folders, *(f"{side}_{part}" for side in SIDES for part in parts)))


LAYOUT = _layout(KIND, WEIGHTS_FILE, "base_encoder", "backbone")
ADAPTERS_LAYOUT = _layout(ADAPTERS, HEADS_FILE, "adapter", "base_encoder", folders=(BOTH,))


def write_towers(folder: str | Path, encoder: TowersEncoder, *, facts: Mapping[str, Any] | None = None) -> Path:
    """Write a checkpoint into a new folder."""
    layout = ADAPTERS_LAYOUT if adapted_towers(encoder.towers) else LAYOUT
    return layout.write(folder, lambda path: write_files(path, encoder, facts=facts))


def write_files(folder: Path, encoder: TowersEncoder, *, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the files of a checkpoint into a folder; what `visir.json` is to say."""
    # That is the shapes, the names and cards of frozen encoders, and `facts` about the training. Each backbone or
    # frozen encoder that has more than weights (a vocabulary, a tokeniser, a bag of words) has a folder.
    adapted, content = adapted_towers(encoder.towers), dict[str, Any]()
    if adapted:
        save_modules({side: encoder.towers[side].head for side in SIDES}, folder / HEADS_FILE)
    else:
        save_modules(encoder.towers, folder / WEIGHTS_FILE)
    models = {side: tower.adapter.base for side, tower in adapted.items() if tower.adapter}
    together = len(adapted) == len(SIDES) and models["image"] is models["text"]
    places = {side: BOTH if together else f"{side}_adapter" for side in adapted}
    for side in SIDES:
        tower = encoder.towers[side]
        base = models[side] if side in models else encoder.base_encoders[side]
        if base is None:
            content[side] = tower.spec()
            part = folder / f"{side}_backbone"
            part.mkdir(exist_ok=True)
            tower.save(part)
            remove_empty_folders(part)
            continue
        whole = tower.whole if isinstance(tower, SetTower) else None
        content[side] = {
            "head": tower.head.spec.to_dict(),
            **({} if whole is None else {"whole": whole.spec.to_dict()}),
            "base_encoder": save_part(base, folder, f"{side}_base_encoder"),
            "card": base.card.to_dict(),
            **({"adapter": places[side]} if side in places else {}),
        }
    for place in dict.fromkeys(places.values()):
        own = [adapted[side] for side in places if places[side] == place]
        config, base = next((each.adapter.config, each.adapter.base) for each in own if each.adapter)
        write_adapter(folder / place, [each.base_module() for each in own], config, base.card)
    return {**content, "prompts": list(encoder.prompts), "facts": dict(facts or {})}


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> TowersEncoder:
    """Read what `write_files` wrote, and the encoders that it names."""
    description = read_description(folder)
    towers: dict[Modality, Tower] = {}
    base_encoders: dict[Modality, Encoder | None] = {}
    loaded: dict[str, Encoder] = {}
    for side in SIDES:
        try:
            towers[side], base_encoders[side] = _build(folder, side, description[side], device, dtype, loaded)
        except (KeyError, TypeError) as fault:
            raise EncoderError(
                f"{folder / CHECKPOINT_FILE}: its entry {side!r} does not describe a tower: {fault}",
                hint=COPY_AGAIN,
                code="entry-not-describe-tower",
            ) from fault
    # Words and shapes count too: the same weights under another pooling, activation or alpha are another model.
    if description["kind"] == ADAPTERS:
        load_modules(folder / HEADS_FILE, {side: tower.head for side, tower in towers.items()})
        adapted = adapted_towers(towers)
        places = sorted({str(description[side]["adapter"]) for side in adapted})
        for place in places:
            own = [each for side, each in adapted.items() if description[side]["adapter"] == place]
            base = next(each.adapter.base.card.name for each in own if each.adapter)
            fill_adapters(
                [each.base_module() for each in own], read_adapter(folder / place)[0], str(folder / place), base
            )
        files = [HEADS_FILE, *(f"{place}/{file}" for place in places for file in (ADAPTER_WEIGHTS, ADAPTER_FILE))]
        deciding: tuple[str, ...] = ("head", "card")
    else:
        load_modules(folder / WEIGHTS_FILE, towers)
        words = [file for side in SIDES for file in sorted((folder / f"{side}_backbone").rglob("*")) if file.is_file()]
        files = [WEIGHTS_FILE, *(file.relative_to(folder).as_posix() for file in words)]
        deciding = ("head", "whole", "backbone")
    shapes = {side: [description[side].get(part) for part in deciding] for side in SIDES}
    objective, prompts = description["facts"].get("objective", {}), description.get("prompts", ())
    hashes = {name: hash_file(folder / name) for name in files}
    return TowersEncoder(
        towers,
        base_encoders,
        name=str(folder),
        device=device,
        dtype=dtype,
        weights=hash_json({"files": hashes, "shapes": shapes, "prompts": prompts}),
        temperature=objective.get("temperature"),
        bias=objective.get("bias"),
        prompts=prompts,
    )


def _build(
    folder: Path,
    side: Modality,
    entry: Mapping[str, Any],
    device: str | None,
    dtype: str,
    loaded: dict[str, Encoder],
) -> tuple[Tower, Encoder | None]:
    """The architecture of one side, and its frozen encoder if it has one; a base of both is loaded once."""
    if "base_encoder" not in entry:
        return Tower.load(folder / f"{side}_backbone", entry), None
    is_adapted = "adapter" in entry
    precision = "float32" if is_adapted else dtype  # adapted in float32, as it was trained
    key = f"{entry['base_encoder']} {precision}"
    if key not in loaded:
        loaded[key] = load_part(folder, entry["base_encoder"], device, precision)
    base = loaded[key]
    check_base_encoder(folder, entry["card"], base.card, side)
    head = Head(HeadSpec.from_dict(entry["head"]))
    if is_adapted:
        place = below(folder, entry["adapter"])
        return Tower(PretrainedBackbone.of(base, side, read_config(place), where=str(place / ADAPTER_FILE)), head), None
    whole = Head(HeadSpec.from_dict(entry["whole"])) if "whole" in entry else None
    return SetTower(head, whole) if base.form == "multi-vector" else Tower(None, head), base


def merge_checkpoint(folder: str | Path, out: str | Path) -> Path:
    """Write a checkpoint of whole towers, with the adapters of `folder` added to the weights of their base."""
    source = Path(folder)
    if not source.is_dir():
        raise EncoderError(
            f"{source}: no such folder.",
            hint="the folder that `visir train clip-lora --out FOLDER` made",
            code="no-such-folder",
        )
    if not (source / CHECKPOINT_FILE).is_file():
        raise EncoderError(
            f"{source}: visir train did not write this folder.",
            hint="merge takes the folder that `visir train clip-lora --out FOLDER` made; an adapter that was made "
            "elsewhere: merge_and_unload of peft",
        )
    if (Path(out) / CHECKPOINT_FILE).is_file():
        raise EncoderError(f"{out}: a model is there already.", hint="name a new folder: nothing is replaced")
    description = read_description(source)
    if description["kind"] != ADAPTERS:
        raise EncoderError(
            f"{source}: a checkpoint of kind {description['kind']!r}; only adapters are merged.",
            hint="it stands by itself already",
            code="checkpoint-kind-adapters-merged",
        )

    def write(path: Path) -> Mapping[str, Any]:
        encoder = load_checkpoint(source, "cpu", "float32")
        towers = {side: merged_tower(encoder.towers[side]) for side in SIDES}
        merged = TowersEncoder(towers, encoder.base_encoders, name=str(out), device="cpu", prompts=encoder.prompts)
        return write_files(path, merged, facts={**description["facts"], "merged_from": str(source)})

    return LAYOUT.write(out, write)  # a place that cannot be written is refused before models are read

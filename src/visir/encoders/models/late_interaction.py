"""Late-interaction models of `transformers`: a vector for each piece of a picture and each token of a text.

ColPali, ColQwen2 (Faysse et al. 2024), ColModernVBERT (Teiletche et al. 2025) and NeoMME are classes `…ForRetrieval`
with a processor that knows their prompts. They are found by that, so a new one is read without a line here.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.devices import pick_device
from visir.encoders.intake import InputBatch, TextLimit
from visir.encoders.models.hub import (
    ModelFiles,
    load_model,
    loading,
    one_of,
    positive_number,
    read_configuration,
    template_of,
)
from visir.encoders.models.image_processors import backend_of, processor_values
from visir.encoders.models.precision import inference, to_vectors
from visir.encoders.models.text_inputs import token_counts, vocabulary_hash
from visir.encoders.models.transformers_models import retrieval_class
from visir.errors import EncoderError, ImageError, TextError, VisirError
from visir.options import split_options
from visir.records import EncoderCard, Modality, Role, TokenVectors, VectorForm

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


_PARTIAL = "\N{REPLACEMENT CHARACTER}"


def token_pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text of each token: " dog" (with the space before it), "##ning", "[MASK]"."""
    # A character that several tokens spell byte by byte (Chinese, emoji) is the text of each of them.
    pieces = [str(tokenizer.decode([token])) for token in ids]
    start = 0
    while start < len(pieces):
        stop = start + 1
        if _PARTIAL in pieces[start]:
            while stop < len(pieces) and _PARTIAL in tokenizer.decode(list(ids[start:stop])):
                stop += 1
            together = str(tokenizer.decode(list(ids[start:stop])))
            if _PARTIAL not in together:
                pieces[start:stop] = [together] * (stop - start)
            else:  # the text itself has this character, or is cut within one
                stop = start + 1
        start = stop
    return pieces


Boxes = NDArray[np.float64]
"""(t, 4): left, top, right, bottom of t tokens, as fractions of the picture; NaN where a token has no place."""

_TILE = re.compile(r"<row_(\d+)_col_(\d+)>")


def token_places(image: Image, tokens: Sequence[str], inputs: Mapping[str, Any], processor: Any) -> Boxes:
    """The places of all tokens of one picture."""
    marker = processor.tokenizer.convert_ids_to_tokens(int(processor.image_token_id))
    boxes = np.full((len(tokens), 4), np.nan)
    rows = np.flatnonzero([token == marker for token in tokens])
    row_token = getattr(processor.tokenizer, "row_token", None)
    if "image_grid_thw" in inputs:
        merge = int(processor.image_processor.merge_size)
        frames, height, width = (int(size) for size in inputs["image_grid_thw"][0])
        if len(rows) == frames * (height // merge) * (width // merge):
            boxes[rows] = np.tile(grid(height // merge, width // merge), (frames, 1))
    elif any(_TILE.fullmatch(token) for token in tokens):
        _fill_tiles(boxes, tokens, rows)
    elif row_token is not None and row_token in tokens:
        _fill_padded_rows(boxes, tokens, rows[1:], row_token, _share_of_grid(image, processor))  # the first: a marker
    elif (side := math.isqrt(len(rows))) ** 2 == len(rows):
        boxes[rows] = grid(side, side)
    return boxes


def grid(height: int, width: int) -> Boxes:
    """The (height · width, 4) cells of a grid over the whole picture, row by row."""
    rows, columns = np.divmod(np.arange(height * width), width)
    edges = [columns / width, rows / height, (columns + 1) / width, (rows + 1) / height]
    return np.stack(edges, 1).reshape(-1, 4)


def _fill_tiles(boxes: Boxes, tokens: Sequence[str], rows: NDArray[np.int64]) -> None:
    """Tiles of a picture, each a square of tokens behind its marker; what no tile marker stands before is the whole."""
    tiles = [tuple(map(int, match.groups())) for token in tokens if (match := _TILE.fullmatch(token))]
    down, across = (max(places) for places in zip(*tiles, strict=True))
    starts = np.flatnonzero(np.diff(rows, prepend=-2) > 1)
    for run in np.split(rows, starts[1:]):
        side = math.isqrt(len(run))
        if side**2 != len(run):
            continue
        cells, match = grid(side, side), _TILE.fullmatch(tokens[run[0] - 1])
        if match is not None:
            row, column = int(match[1]) - 1, int(match[2]) - 1
            cells = (cells + np.array([column, row, column, row])) / [across, down, across, down]
        boxes[run] = cells


def _fill_padded_rows(
    boxes: Boxes, tokens: Sequence[str], rows: NDArray[np.int64], row_token: str, shares: tuple[float, float]
) -> None:
    height = sum(token == row_token for token in tokens)
    if height == 0 or len(rows) % height:
        return
    cells = grid(height, len(rows) // height) / [shares[0], shares[1], shares[0], shares[1]]
    boxes[rows] = np.clip(cells, 0, 1)


def _share_of_grid(image: Image, processor: Any) -> tuple[float, float]:
    """Which share of the patches' width and height the scaled picture fills: the rest is padding."""
    from transformers.models.neomme.image_processing_neomme import get_resize_output_size

    settings = processor.image_processor
    height, width = image.height, image.width
    if settings.do_resize:
        height, width = get_resize_output_size(height, width, settings.max_side, settings.size)
    patch = int(settings.patch_size)
    return width / (patch * -(-width // patch)), height / (patch * -(-height // patch))


Inputs = dict[str, "Tensor"]
BACKENDS = ("torchvision", "pil")
"""The two implementations of image preprocessing: first the one that `AutoProcessor` takes, and most models ran on."""
VECTORS = ("all", "image")
"""Which vectors of a picture count: all that the model computes, as published; or without those of the prompt."""
_PADDED = {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "position_ids"}
"""The inputs that have a value for each token: the last axis is padded."""
EXAMPLE = (640, 480)
"""The size of the picture whose number of vectors is on the card."""


class LateInteractionEncoder(Encoder):
    """Pictures and texts to a list of vectors each, as the model's own processor and forward pass make them."""

    # The vectors of a picture are those of all tokens that the model reads for it, the prompt included, as its authors
    # score them; padding has none. They are unit vectors. Processors of the ColPali family have `process_images` and
    # `process_queries`. NeoMME's has a chat template that is told the task, so its texts have two roles.

    modalities: frozenset[Modality] = frozenset({"image", "text"})
    form: VectorForm = "multi-vector"
    batch_size = 8

    def __init__(self, name: str, model: Any, files: ModelFiles, settings: Mapping[str, Any], device: str) -> None:
        # settings: The values of the options of the name.
        self._model, self._device = model, device
        self._vectors, self._template = settings["vectors"], settings["template"]
        self.in_lanes = device == "cpu"
        self._processor = _processor_of(files.folder, settings["processor"], settings["image_tokens"])
        self._tokenizer: Any = self._processor.tokenizer
        self._image_token = int(self._processor.image_token_id)  # what stands for a piece of a picture
        self.dimension = int(model.config.embedding_dim)
        self.distinguishes_roles = not hasattr(self._processor, "process_queries")
        # A fast tokenizer changes its state in place, and fails when two threads do so.
        self._lock = threading.Lock()
        positions = int(model.config.get_text_config().max_position_embeddings)
        roles: tuple[Role, ...] = ("query", "document")
        room = positions - max(self._tokens([""], role)["input_ids"].shape[1] for role in roles)
        if settings["max_length"] is not None and settings["max_length"] > room:
            raise EncoderError(
                f"{files.folder}: max_length={settings['max_length']} is more than the {room} tokens that this model "
                "has room for.",
                hint=f"at most {room}",
                code="max-length-more",
            )
        self._room = settings["max_length"] or room  # tokens of a text that are read, without the prompt
        self.card = EncoderCard(
            name=name,
            family=f"transformers-{model.config.model_type}",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing={**self._image_values(settings["processor"]), "counted": self._vectors},
            text_preprocessing=self._text_values(),
            dtype=settings["dtype"],
        )

    def prepare(self, item: str | Image, role: Role) -> Any:
        """What the model reads of one upright RGB picture, its tokens and patches, as a batch of one. Thread-safe."""
        return item if isinstance(item, str) else self._picture(item)

    def _picture(self, image: Image) -> Inputs:
        processor = self._processor
        try:
            with self._lock:
                if self.distinguishes_roles:
                    inputs = processor(images=[image], return_tensors="pt")
                else:
                    inputs = processor.process_images(images=[image])
        except VisirError:
            raise
        except (ValueError, ZeroDivisionError, RuntimeError) as fault:
            first = next(iter(str(fault).splitlines()), type(fault).__name__)
            raise ImageError(
                f"an image of {image.width} × {image.height} pixels cannot be taken by "
                f"{type(processor.image_processor).__name__}: {first}",
                hint="crop it, or set it aside (--skip-broken)",
                code="image-pixels-cannot-taken",
            ) from fault
        return {name: value for name, value in inputs.items() if name != "labels"}

    def forward(self, batch: InputBatch, role: Role) -> TokenVectors:
        """(t, dimension) unit vectors of each input; of a text those of prompt and augmentation tokens too."""
        if not len(batch):
            return token_vectors([], self.dimension)
        if batch.texts is not None:
            inputs = self._read(batch.texts, role)
            return self._embed(inputs, inputs["attention_mask"].bool())
        inputs = self._collated(batch.images or ())
        counted = inputs["attention_mask"].bool()
        if self._vectors == "image":
            counted = counted & (inputs["input_ids"] == self._image_token)
        return self._embed(inputs, counted)

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of each text stands for, prompts included."""
        if not len(texts):
            return []
        inputs = self._read(texts, role)
        pairs = zip(inputs["input_ids"], inputs["attention_mask"].bool(), strict=True)
        return [token_pieces(self._tokenizer, ids[mask].tolist()) for ids, mask in pairs]

    def image_regions(self, image: Image) -> Boxes:
        """(t, 4) the part of the upright picture that each of its vectors stands for; NaN for those of the prompt."""
        inputs = self._picture(image)
        ids = inputs["input_ids"][0].tolist()
        boxes = token_places(image, self._tokenizer.convert_ids_to_tokens(ids), inputs, self._processor)
        return boxes[[token == self._image_token for token in ids]] if self._vectors == "image" else boxes

    def text_limit(self) -> TextLimit:
        """How many tokens a text may have, those of the prompt left out."""
        return TextLimit(self._room, self._counts)

    def _read(self, texts: Sequence[str], role: Role) -> Inputs:
        """What the model reads of n texts, padded to the longest."""
        check_no_marks(texts, self._tokenizer.convert_ids_to_tokens(self._image_token))
        with self._lock:
            return self._tokens(self._cut([self._template.replace("{}", text) for text in texts]), role)

    def _collated(self, prepared: Sequence[Mapping[str, Tensor]]) -> Inputs:
        """One batch of pictures that were prepared one by one: as the processor makes it of all at once."""
        import torch
        from torch.nn.functional import pad

        side, width = self._tokenizer.padding_side, max(inputs["input_ids"].shape[1] for inputs in prepared)
        batch: Inputs = {}
        for name in prepared[0]:
            values = [inputs[name] for inputs in prepared]
            if name in _PADDED:
                filling = int(self._tokenizer.pad_token_id) if name == "input_ids" else 0
                lacking = [width - value.shape[-1] for value in values]
                ends = [(0, count) if side == "right" else (count, 0) for count in lacking]
                values = [pad(value, end, value=filling) for value, end in zip(values, ends, strict=True)]
            elif len({value.shape[1:] for value in values}) > 1:  # as many patches or tiles as the picture needs
                most = max(value.shape[1] for value in values)
                values = [pad(value, (0, 0) * (value.ndim - 2) + (0, most - value.shape[1])) for value in values]
            batch[name] = torch.cat(values, 1 if name == "position_ids" and values[0].ndim == 3 else 0)
        return batch

    def _image_values(self, backend: str) -> dict[str, Any]:
        """Everything that is done to a picture, as plain values, for the card."""
        from PIL import Image as images

        blank = images.new("RGB", EXAMPLE)
        inputs = self._picture(blank)
        prompt = getattr(self._processor, "visual_prompt_prefix", None)
        if prompt is None:
            prompt = self._processor.prepare_inputs_layout(images=[blank])[1][0]
        return {
            **processor_values(self._processor.image_processor, backend),
            "prompt": prompt,
            "vectors": f"{inputs['input_ids'].shape[1]} for {EXAMPLE[0]} × {EXAMPLE[1]} pixels",
        }

    def _text_values(self) -> dict[str, Any]:
        """Everything that is done to a text, as plain values, for the card. `{}` is its place in the prompt."""
        roles: tuple[Role, ...] = ("query", "document")
        prompts = {role: str(self._tokenizer.decode(self._tokens(["{}"], role)["input_ids"][0])) for role in roles}
        return {
            "tokenizer": type(self._tokenizer).__name__.removesuffix("Fast"),
            "vocabulary": vocabulary_hash(self._tokenizer),
            "template": self._template,
            "prompt": prompts if self.distinguishes_roles else prompts["query"],
            "max_length": self._room,
            "padding": f"longest, {self._tokenizer.padding_side}",
        }

    def _tokens(self, texts: list[str], role: Role) -> Inputs:
        if not self.distinguishes_roles:
            return dict(self._processor.process_queries(text=texts))  # their authors know texts as queries only
        conversations = [[{"role": "user", "content": [{"type": "text", "text": text}]}] for text in texts]
        padded = {"padding": True, "return_tensors": "pt"}
        inputs: Any = self._processor.apply_chat_template(
            conversations, task=role, tokenize=True, return_dict=True, processor_kwargs=padded
        )
        return dict(inputs)

    def _cut(self, texts: list[str]) -> list[str]:
        encoded = self._tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [
            text if len(offsets) <= self._room else text[: offsets[self._room - 1][1]]
            for text, offsets in zip(texts, encoded["offset_mapping"], strict=True)
        ]

    def _counts(self, texts: Sequence[str]) -> list[int]:
        filled = [self._template.replace("{}", text) for text in texts]
        with self._lock:
            return token_counts(self._tokenizer, filled, special=False)

    def _embed(self, inputs: Inputs, counted: Any) -> TokenVectors:
        dtype = next(self._model.parameters()).dtype
        inputs = {**inputs, **grid_positions(self._model, inputs, self._image_token)}
        moved = {
            name: value.to(self._device, dtype if value.is_floating_point() else None) for name, value in inputs.items()
        }
        with inference(self._device):
            vectors = to_vectors(self._model(**moved).embeddings)
        return token_vectors([rows[mask] for rows, mask in zip(vectors, counted.numpy(), strict=True)], self.dimension)


def _processor_of(folder: Path, backend: str, image_tokens: int | None) -> Any:
    """The processor saved in a model's folder, with the implementation of image preprocessing that was asked for."""
    from transformers import AutoImageProcessor, AutoProcessor

    processor: Any = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    if not (hasattr(processor, "image_processor") and hasattr(processor, "tokenizer")):
        raise EncoderError(
            f"{folder}: there is no processor for pictures and texts in this folder.",
            hint="save it beside the model: processor.save_pretrained(folder)",
        )
    if backend != BACKENDS[0]:
        processor.image_processor = AutoImageProcessor.from_pretrained(folder, backend=backend, trust_remote_code=False)
    runs_on = backend_of(processor.image_processor)
    if runs_on != backend:
        raise EncoderError(
            f"{folder}: {type(processor.image_processor).__name__} cannot run on {backend!r}.",
            hint=f"?processor={runs_on}",
            code="encoder-cannot-run",
        )
    if image_tokens is not None:
        _limit_pixels(folder, processor.image_processor, image_tokens)
    return processor


def check_no_marks(texts: Sequence[str], mark: str, kind: str = "picture") -> None:
    """Raise `TextError` for a text that has the mark of a picture in it: the model would wait for the picture."""
    for text in texts:
        if mark in text:
            shown = text if len(text) < 60 else f"{text[:57]}…"
            raise TextError(
                f"the text {shown!r} has {mark} in it, which stands for a {kind} in this model.",
                hint=f"take it out, or write it apart: {mark[0]} {mark[1:]}",
                code="text-stands-model",
            )


def _limit_pixels(folder: Path, processor: Any, tokens: int) -> None:
    """Let pictures be scaled to at most so many tokens, each a square of merged patches."""
    if not hasattr(processor, "merge_size"):
        raise EncoderError(
            f"{folder}: image_tokens={tokens}: the number of tokens of a picture is fixed by this model's code.",
            hint="leave image_tokens out; models of the Qwen-VL family have as many as the picture needs",
            code="image-tokens-number-tokens",
        )
    pixels = tokens * (int(processor.patch_size) * int(processor.merge_size)) ** 2
    least = int(processor.size["shortest_edge"])  # these are areas, whatever their names say
    if pixels < least:
        fewest = -(-least // (pixels // tokens))
        raise EncoderError(f"{folder}: image_tokens={tokens} is too few.", hint=f"at least {fewest}")
    processor.size = {**dict(processor.size), "longest_edge": pixels}


def grid_positions(model: Any, inputs: Inputs, image_token: int) -> Inputs:
    """The positions of tokens for a model of the Qwen-VL family: those of a picture have a row and a column."""
    # The backbone computes them when it is called by itself; ColQwen2 was trained with them (colpali-engine, and
    # transformers when it took the model in). `ColQwen2ForRetrieval` of transformers 5 hands the backbone no grid, so
    # all tokens would stand in one line, and vectors of pictures would be others. Texts need nothing.
    backbone: Any = getattr(model, model.base_model_prefix, None)
    if "image_grid_thw" not in inputs or "position_ids" in inputs or not hasattr(backbone, "get_rope_index"):
        return {}
    positions, _ = backbone.get_rope_index(
        inputs["input_ids"],
        mm_token_type_ids=(inputs["input_ids"] == image_token).int(),
        image_grid_thw=inputs["image_grid_thw"],
        attention_mask=inputs["attention_mask"],
    )
    return {"position_ids": positions}


def token_vectors(matrices: Sequence[NDArray[Any]], dimension: int) -> TokenVectors:
    """The vectors (t, dimension) of each input, as one record; also of no inputs."""
    if not len(matrices):
        return TokenVectors(np.zeros((0, dimension), np.float32), np.zeros(1, np.int64))
    return TokenVectors.of([np.asarray(matrix, np.float32) for matrix in matrices])


OPTIONS = ("template", "max_length", "processor", "vectors", "image_tokens")
"""What can follow the name: `vectors` says which vectors of a picture count, "all" or "image"; `image_tokens` the most
tokens of a picture, for models of any resolution (ColQwen2); the others are those of towers."""


def load_files(name: str, files: ModelFiles, device: str | None, dtype: str) -> LateInteractionEncoder:
    """Load the late-interaction model that lies in `files`."""
    import transformers

    _, options = split_options(name, OPTIONS, error=EncoderError)
    class_name = retrieval_class(read_configuration(files.folder / "config.json"))
    device = pick_device(device)
    settings = {
        "processor": one_of(name, options, "processor", BACKENDS),
        "vectors": one_of(name, options, "vectors", VECTORS),
        "template": template_of(name, options),
        "max_length": positive_number(name, options, "max_length"),
        "image_tokens": positive_number(name, options, "image_tokens"),
        "dtype": dtype,
    }
    with loading(name):
        model = load_model(name, getattr(transformers, str(class_name)), files, dtype).to(device)
        return LateInteractionEncoder(name, model, files, settings, device)

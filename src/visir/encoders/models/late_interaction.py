"""Late-interaction models of `transformers`: a vector for each piece of a picture and each token of a text.

ColPali, ColQwen2 (Faysse et al. 2024), ColModernVBERT (Teiletche et al. 2025) and NeoMME are classes `…ForRetrieval`
with a processor that knows their prompts. They are found by that, so a new one is read without a line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from visir.encoders.base import Encoder
from visir.encoders.devices import pick_device
from visir.encoders.inputs import Pixels
from visir.encoders.models.forward import inference, to_vectors
from visir.encoders.models.image_places import Boxes
from visir.encoders.models.model_files import ModelFiles, loading
from visir.encoders.models.model_names import one_of, positive_number, template_of
from visir.encoders.models.retrieval_processor import BACKENDS, Inputs, RetrievalProcessor
from visir.encoders.models.transformers_weights import load_model
from visir.encoders.truncation import TextLimit
from visir.records import EncoderCard, Modality, Role, TokenVectors, VectorForm

VECTORS = ("all", "image")
"""Which vectors of a picture count: all that the model computes, as published; or without those of the prompt."""
ENDING = "ForRetrieval"


class LateInteractionEncoder(Encoder):
    """Pictures and texts to a list of vectors each, as the model's own processor and forward pass make them."""

    # The vectors of a picture are those of all tokens that the model reads for it, the prompt included, as its authors
    # score them; padding has none. They are unit vectors.

    modalities: frozenset[Modality] = frozenset({"image", "text"})
    form: VectorForm = "multi-vector"
    batch_size = 8

    def __init__(
        self, card: EncoderCard, model: Any, processor: RetrievalProcessor, *, device: str, vectors: str = "all"
    ) -> None:
        self.card, self.dimension = card, int(model.config.embedding_dim)
        self.distinguishes_roles = processor.has_roles
        self._model, self._processor, self._device, self._vectors = model, processor, device, vectors
        self._role: Role = "document"

    def for_role(self, role: Role) -> LateInteractionEncoder:
        """The same model with its prompt for queries, or for documents; itself where it has one for both."""
        if not self.distinguishes_roles or role == self._role:
            return self
        encoder = copy(self)
        encoder._role = role
        return encoder

    def preprocess(self, image: Image) -> Pixels:
        """What the model reads of one RGB picture: its tokens and its patches."""
        return self._processor.image(image)  # type: ignore[return-value]  # what pixels are is the encoder's affair

    def embed_images(self, batch: Sequence[Pixels]) -> TokenVectors:
        """(t, dimension) unit vectors of each picture."""
        if not len(batch):
            return token_vectors([], self.dimension)
        inputs = self._processor.collate(batch)  # type: ignore[arg-type]  # as above
        counted = inputs["attention_mask"].bool()
        if self._vectors == "image":
            counted = counted & (inputs["input_ids"] == self._processor.image_token)
        return self._embed(inputs, counted)

    def embed_texts(self, texts: Sequence[str]) -> TokenVectors:
        """(t, dimension) unit vectors of each text, those of its prompt and augmentation tokens included."""
        if not len(texts):
            return token_vectors([], self.dimension)
        inputs = self._processor.texts(texts, self._role)
        return self._embed(inputs, inputs["attention_mask"].bool())

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of each text stands for, prompts included."""
        if not len(texts):
            return []
        inputs = self._processor.texts(texts, role)
        masks = inputs["attention_mask"].bool()
        return [
            self._processor.pieces(ids[mask].tolist()) for ids, mask in zip(inputs["input_ids"], masks, strict=True)
        ]

    def image_regions(self, image: Image) -> Boxes:
        """(t, 4) the part of the upright picture that each of its vectors stands for; NaN for those of the prompt."""
        return self._processor.places(image, only_image=self._vectors == "image")

    def text_limit(self) -> TextLimit | None:
        """As the processor cuts."""
        return self._processor.text_limit()

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be cut."""
        return self._processor.truncate(texts, ending)

    def _embed(self, inputs: Inputs, counted: Any) -> TokenVectors:
        dtype = next(self._model.parameters()).dtype
        inputs = {**inputs, **grid_positions(self._model, inputs, self._processor.image_token)}
        moved = {
            name: value.to(self._device, dtype if value.is_floating_point() else None) for name, value in inputs.items()
        }
        with inference():
            vectors = to_vectors(self._model(**moved).embeddings)
        return token_vectors([rows[mask] for rows, mask in zip(vectors, counted.numpy(), strict=True)], self.dimension)


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


def retrieval_class(config: Mapping[str, Any]) -> str | None:
    """The class `…ForRetrieval` of `transformers` that a `config.json` belongs to; None when there is none."""
    # A checkpoint that names another class (a backbone before its training for retrieval) has none.
    import transformers

    kind, named = str(config.get("model_type")), [str(name) for name in config.get("architectures") or ()]
    if named:
        return next((name for name in named if name.endswith(ENDING) and hasattr(transformers, name)), None)
    try:
        module = import_module(f"transformers.models.{kind.replace('-', '_')}")
    except ImportError:
        return None
    return next((name for name in sorted(dir(module)) if name.endswith(ENDING)), None)


def load(
    name: str, class_name: str, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> LateInteractionEncoder:
    """Load the late-interaction model that lies in `files`."""
    import transformers

    device = pick_device(device)
    backend, vectors = one_of(name, options, "processor", BACKENDS), one_of(name, options, "vectors", VECTORS)
    template, max_length = template_of(name, options), positive_number(name, options, "max_length")
    with loading(name):
        model = load_model(name, getattr(transformers, class_name), files, dtype).to(device)
        processor = RetrievalProcessor(
            files.folder,
            backend=backend,
            template=template,
            positions=int(model.config.get_text_config().max_position_embeddings),
            max_length=max_length,
            image_tokens=positive_number(name, options, "image_tokens"),
        )
        card = EncoderCard(
            name=name,
            family=f"transformers-{model.config.model_type}",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing={**processor.image_values(), "counted": vectors},
            text_preprocessing=processor.text_values(),
            dtype=dtype,
        )
    return LateInteractionEncoder(card, model, processor, device=device, vectors=vectors)

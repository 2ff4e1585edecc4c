"""Late-interaction models of `sentence-transformers` (`MultiVectorEncoder`): ColBERT, PyLate, and multimodal ones.

They are recognised by their files: saved by the library, by PyLate, or by Stanford's ColBERT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from PIL.Image import Image

from visir.encoders.base import Encoder
from visir.encoders.devices import pick_device
from visir.encoders.intake import Pixels, truncate_texts
from visir.encoders.models.hub import (
    CODE_OPTIONS,
    ModelFiles,
    loading,
    no_progress_bar,
    other_repositories,
    positive_number,
    read_configuration,
    read_modules,
    refuse_code,
    template_of,
    trusted_code,
)
from visir.encoders.models.image_processors import processor_values
from visir.encoders.models.late_interaction import Boxes, token_pieces, token_places, token_vectors
from visir.encoders.models.precision import inference
from visir.encoders.models.sentence_loading import UNLIMITED, PictureShapes, as_texts, check_marks
from visir.encoders.models.text_inputs import check_saved_tokenizer, token_counts, vocabulary_hash
from visir.errors import EncoderError
from visir.options import split_options
from visir.records import EncoderCard, Modality, Role, TokenVectors, VectorForm

OPTIONS = ("template", "query_length", "document_length", *CODE_OPTIONS)
"""What can follow the name: `?template={}&query_length=32&document_length=300&code=trusted`."""
_SETTINGS = "config_sentence_transformers.json"
_OWN_TYPES = ("MultiVectorEncoder", "ColBERT")  # as the library and PyLate write them
_STANFORD = "HF_ColBERT"
_LIBRARIES = ("sentence_transformers", "pylate")  # the library reads PyLate's modules with its own code
_TAKEN: dict[Modality, Any] = {"text": "text", "image": "image", "text+image": ("image", "text")}


class SentenceMultiVectorEncoder(Encoder):
    """Exactly `MultiVectorEncoder.encode_query` and `.encode_document`."""

    # Prompts, lengths, expansion tokens, words that are left out of documents, projection and normalisation are the
    # model's own.

    form: VectorForm = "multi-vector"
    distinguishes_roles = True
    batch_size = 16

    def __init__(self, card: EncoderCard, model: Any) -> None:
        self.card, self._model = card, model
        self.modalities = frozenset(modality for modality, taken in _TAKEN.items() if model.supports(taken))
        self.dimension = int(model.get_embedding_dimension())
        self._template = str(card.text_preprocessing.get("template", "{}"))
        self._shapes = PictureShapes.of(model)

    def preprocess(self, image: Image) -> Pixels:
        """The RGB picture itself: the library sees the whole batch."""
        self._check_takes("image")
        self._shapes.check(image)
        return image  # type: ignore[return-value]  # what pixels are is the encoder's affair

    def embed_images(self, batch: Sequence[Pixels]) -> TokenVectors:
        """(t, dimension) vectors of each picture."""
        self._check_takes("image")
        return self._encode(list(batch))

    def embed_texts(self, texts: Sequence[str]) -> TokenVectors:
        """(t, dimension) vectors of each text."""
        self._check_takes("text")
        return self._encode(as_texts(self._filled(texts), self._model))

    def embed_texts_with_images(self, texts: Sequence[str], batch: Sequence[Pixels]) -> TokenVectors:
        """(t, dimension) vectors of each text with its picture."""
        self._check_takes("text+image")
        pairs = zip(self._filled(texts), batch, strict=True)
        return self._encode([{"text": text, "image": image} for text, image in pairs])

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of each text stands for: prompts, markers and expansion tokens included."""
        if not len(texts):
            return []
        features, masks = self._counted(as_texts(self._filled(texts), self._model), role)
        return [
            token_pieces(self._model.tokenizer, ids[mask].tolist())
            for ids, mask in zip(features["input_ids"], masks, strict=True)
        ]

    def image_regions(self, image: Image) -> Boxes:
        """(t, 4) the part of the upright picture that each of its vectors stands for; NaN where there is none."""
        self._check_takes("image")
        features, masks = self._counted([image], self._role)
        tokens = self._model.tokenizer.convert_ids_to_tokens(features["input_ids"][0].tolist())
        boxes: Boxes = token_places(image, tokens, features, self._model.processor)[masks[0].numpy()]
        return boxes

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated."""
        limit = _length(self._model[0], self._role)
        prompt = str(self._model.prompts.get(self._role) or "")
        if limit is None:
            return list(texts)

        def fits(longer: Sequence[str]) -> list[bool]:
            filled = [prompt + text for text in self._filled(longer)]
            return [count <= limit for count in token_counts(self._model.tokenizer, filled)]

        return truncate_texts(texts, ending, fits, limit=limit)

    def _encode(self, inputs: list[Any]) -> TokenVectors:
        if not inputs:
            return token_vectors([], self.dimension)
        encode = self._model.encode_query if self._role == "query" else self._model.encode_document
        with inference():
            vectors = encode(inputs, batch_size=len(inputs), convert_to_numpy=True, show_progress_bar=False)
        return token_vectors(vectors, self.dimension)

    def _counted(self, inputs: list[Any], task: Role) -> tuple[Mapping[str, Any], NDArray[Any]]:
        """What the model reads, and which of its tokens have a vector that counts."""
        from sentence_transformers.multi_vector_encoder.modules import BaseTokenPooling, MultiVectorMask

        if any(isinstance(module, BaseTokenPooling) and module.applies_to(task) for module in self._model):
            raise EncoderError(
                f"{self.label} pools the vectors of a {task}: what each of them stands for is not known.",
                hint="save the model without its token pooling",
            )
        prompt = self._model.prompts.get(task)
        features = dict(self._model.preprocess(inputs, prompt=prompt, task=task))
        for module in self._model:
            if isinstance(module, MultiVectorMask):
                features = module(features, task=task)
        return features, features["attention_mask"].bool()

    def _filled(self, texts: Sequence[str]) -> list[str]:
        check_marks(texts, self._model)
        return [self._template.replace("{}", text) for text in texts]

    def _check_takes(self, modality: Modality) -> None:
        if modality not in self.modalities:
            raise self.cannot(modality)


def is_multi_vector(folder: Path) -> bool:
    """Whether the model in this folder makes several vectors for each input, by its small files."""
    settings = read_configuration(folder / _SETTINGS)
    if settings.get("model_type") in _OWN_TYPES:
        return True
    if settings.get("model_type") is not None or not (folder / "config.json").is_file():
        return False
    return _STANFORD in (read_configuration(folder / "config.json").get("architectures") or [])


def load(name: str, files: ModelFiles, *, device: str | None, dtype: str) -> SentenceMultiVectorEncoder:
    """Load the late-interaction model that lies in `files`.

    Options in the name: `template` (a text with one `{}`), `query_length` and `document_length` (tokens, at most those
    of the model), `code=trusted` (the code that comes with the model may run).
    """
    import torch
    from sentence_transformers import MultiVectorEncoder

    _, options = split_options(name, OPTIONS, error=EncoderError)
    template = template_of(name, options)
    lengths: dict[Role, int | None] = {
        "query": positive_number(name, options, "query_length"),
        "document": positive_number(name, options, "document_length"),
    }
    files = replace(files, parts=True, code=trusted_code(name, options))
    if _has_code(files.folder) and files.code is None:
        raise refuse_code(name, other_repositories(files.folders))
    _ = files.weights  # fetched now that the model is known to be of this library
    device, precision = pick_device(device), getattr(torch, dtype)
    with loading(name, code=files.code is not None), no_progress_bar(), files.code_held():
        model = MultiVectorEncoder(
            str(files.folder),
            device=device,
            local_files_only=True,
            trust_remote_code=files.code is not None,
            model_kwargs={"dtype": precision},
        )
        model = model.to(precision).eval()  # modules after the transformer are not told the dtype
        check_saved_tokenizer(model, files.folders)
        files.check_code(model)
        for role, length in lengths.items():
            _shorten(name, model[0], role, length)
        card = EncoderCard(
            name=name,
            family="sentence-transformers-multi-vector",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing=processor_values(model.processor.image_processor) if model.supports("image") else {},
            text_preprocessing={"template": template, **_text_values(model)},
            dtype=dtype,
            code_revisions=files.code_revisions,
        )
        return SentenceMultiVectorEncoder(card, model)


def _has_code(folder: Path) -> bool:
    """Whether a module or the transformer below is Python code that comes with the model."""
    modules = read_modules(folder)
    own = any(str(module.get("type")).partition(".")[0] not in _LIBRARIES for module in modules)
    return own or bool(read_configuration(folder / "config.json").get("auto_map"))


def _shorten(name: str, transformer: Any, role: Role, length: int | None) -> None:
    if length is None:
        return
    if "message" in transformer.modalities:
        raise EncoderError(
            f"{name}: {role}_length={length} cannot be had: this model writes its inputs into a chat, whose end would "
            "be cut off.",
            hint="leave it out",
            code="length-in-chat",
        )
    expansion, limit = transformer.query_expansion, _length(transformer, role)
    if limit is not None and length > limit:
        raise EncoderError(
            f"{name}: {role}_length={length} cannot be had: this model reads {limit} tokens at most.",
            code="length-cannot",
        )
    if role == "query" and expansion is not None:  # queries are filled up to a length with expansion tokens
        transformer.query_expansion = {**expansion, "length": length}
    else:
        setattr(transformer, f"{role}_length", length)


def _length(transformer: Any, role: Role) -> int | None:
    """How many tokens of a query or document are read; None where there is no limit."""
    expansion = transformer.query_expansion if role == "query" else None
    if expansion is not None and expansion["strategy"] == "fixed":
        return int(expansion["length"])
    lengths = [getattr(transformer, f"{role}_length", None), getattr(transformer, "max_seq_length", None)]
    given = [int(length) for length in lengths if length and length < UNLIMITED]
    return min(given) if given else None


def _text_values(model: Any) -> dict[str, Any]:
    """Everything that changes the vectors of texts, as plain values."""
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    transformer, tokenizer = model[0], model.tokenizer
    masks = [module for module in model if isinstance(module, MultiVectorMask)]
    values = {
        "tokenizer": type(tokenizer).__name__.removesuffix("Fast"),
        "vocabulary": vocabulary_hash(tokenizer),
        "prompt": {role: str(model.prompts.get(role) or "") for role in ("query", "document")},
        "max_length": {role: _length(transformer, role) for role in ("query", "document")},
        "query_expansion": transformer.query_expansion,
        "left_out": [word for mask in masks for word in mask.skiplist_words],
        "left_out_of": [task for mask in masks if mask.skiplist_words for task in mask.skiplist_tasks],
        "kept_tokens": [token for mask in masks for token in mask.keep_only_token_ids or ()],
        "similarity": model.similarity_fn_name,
        "modules": [type(module).__name__ for module in model],
    }
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain

"""Models of sentence-transformers as encoders: one vector, weighted words, or several vectors for each input."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder, EncoderOver
from visir.encoders.devices import COMPILED
from visir.encoders.forms import one_each
from visir.encoders.intake import Embedded, InputBatch, TextLimit
from visir.encoders.models.exported import CompiledTowers
from visir.encoders.models.hub import loading
from visir.encoders.models.late_interaction import Boxes, token_pieces, token_places, token_vectors
from visir.encoders.models.precision import inference, no_vectors, to_vectors
from visir.encoders.models.sentence_loading import (
    Features,
    SentencePictures,
    SentenceRequest,
    SentenceTower,
    as_texts,
    cannot_compile,
    check_marks,
    has_marks,
    limit_of,
    modalities_of,
    multi_vector_values,
    role_limit,
    sentence_limit,
    takes_messages,
    to_model,
)
from visir.encoders.models.text_inputs import token_counts
from visir.encoders.models.transformers_models import MULTI_VECTOR
from visir.encoders.towers.base import TextSide
from visir.errors import EncoderError
from visir.records import (
    EncoderCard,
    Items,
    Modality,
    MultiVectorEmbeddings,
    Role,
    SparseEmbeddings,
    TokenVectors,
    VectorForm,
    Vectors,
    Vocabulary,
)

if TYPE_CHECKING:
    from PIL.Image import Image


SHORTEST, STEP = 16, 8
"""Tokens that texts are padded to where their vectors must not depend on company: the shortest, and then in steps.

Finer steps make batches too small, coarser ones too long. On one core, a caption in a batch of 32 padded to 16 takes
4 ms, in one of 8 5 ms, alone 12 ms; padded to 8 it would take 2.4, 3.3 and 11.6 ms."""
_PICTURES_AT_ONCE = 8
"""Of models that see a picture at its own resolution: a batch of large photos has to fit into memory."""


class SentenceModel(Encoder):
    """A model of sentence-transformers: exactly what its `encode_query` and `encode_document` give."""

    # Pooling, dense layers, normalisation and prompts are the model's own. A model that ends in a normalisation gives
    # unit vectors. A model that treats queries and documents differently (other prompts, other modules, other lengths)
    # has roles (`for_role`); the card has both prompts. A text with a picture goes in as {"text": …, "image": …}.

    family: ClassVar[str] = "sentence-transformers"
    setting: ClassVar[tuple[str, str]] = ("dimension", "truncate_dim")  # on the card; of the model, which may have none
    output: ClassVar[Mapping[str, bool]] = {}  # what the library's `encode` is told to give
    sees_batches: ClassVar[bool] = False  # whether the library is to have pictures as they are, a batch at a time

    def __init__(self, request: SentenceRequest, model: Any, prompts: Mapping[Role, str]) -> None:
        self._model, self._folder, self._max_length = model, request.files.folder, request.max_length
        self._template, self._prompts, self._lock = request.template, dict(prompts), threading.Lock()
        self.modalities = modalities_of(model)
        self.distinguishes_roles = prompts["query"] != prompts["document"] or has_routes(model)
        self._pictures = SentencePictures(model, self.sees_batches) if model.supports("image") else None
        self.card = self._card(request)
        if self._pictures is not None and not self._pictures.one_by_one:
            self.batch_size = _PICTURES_AT_ONCE
        self.dimension = 0

    def prepare(self, item: str | Image, role: Role) -> Any:
        """Of an RGB image pixels of the model's size, or the bytes of the picture (`SentencePictures`)."""
        return item if isinstance(item, str) else self._own_pictures.prepare(item)

    def forward(self, batch: InputBatch, role: Role) -> Embedded:
        """The vectors of n texts, pictures, or texts with their pictures."""
        texts, images, inputs = batch.texts, batch.images, list[Any]()
        if images is None:
            inputs = self._texts(texts or ())
        elif texts is None:
            if self._own_pictures.one_by_one and len(images):
                return self._vectors("image", self._own_pictures.features(images), role)
            inputs = self._own_pictures.pictures(images)
        else:
            pairs = zip(self._filled(texts), self._own_pictures.pictures(images), strict=True)
            inputs = [{"text": text, "image": picture} for text, picture in pairs]
        return self._encoded(inputs, role)

    def text_limit(self) -> TextLimit | None:
        """How many tokens are read, those of prompt and template counted; None for models of chats."""
        return None if takes_messages(self._model) else self._limit()

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated; as they are where the model has no limit."""
        limit = self._limit()  # of models of chats too
        return list(texts) if limit is None else limit.truncate(texts, ending)

    @property
    def _own_pictures(self) -> SentencePictures:
        if self._pictures is None:
            raise self.cannot("image")
        return self._pictures

    def _filled(self, texts: Sequence[str]) -> list[str]:
        if "image" in self.modalities:
            check_marks(texts, self._model)
        return [self._template.replace("{}", text) for text in texts]

    def _texts(self, texts: Sequence[str]) -> list[Any]:
        return as_texts(self._filled(texts), self._model)

    def _limit(self) -> TextLimit | None:
        return sentence_limit(self._model, self._prompts[self._role], self._template, self._lock)

    def _card(self, request: SentenceRequest) -> EncoderCard:
        name, of_model = self.setting
        value = getattr(self._model, of_model)
        images = None if self._pictures is None else self._pictures.values()
        more = {} if value is None else {name: int(value)}
        return request.card(self._model, self._prompts, images, self.family, more)

    def _vectors(self, modality: Modality, features: Features, role: Role) -> Embedded:
        """The vectors of a batch, by the modules themselves."""
        with inference(self._model.device.type):
            features = self._model(to_model(features, self._model.device), task=role)
            return self._taken(features["sentence_embedding"])

    def _encoded(self, inputs: Sequence[Any], role: Role) -> Embedded:
        """The vectors of a batch, by the library's own way from inputs to vectors."""
        if not len(inputs):
            return no_vectors(self.dimension) if self.form == "dense" else token_vectors([], self.dimension)
        with inference(self._model.device.type):
            vectors = self._model.encode(
                list(inputs),
                prompt=self._prompts[role],
                batch_size=len(inputs),
                show_progress_bar=False,
                task=role,
                **self.output,
            )
            return self._taken(vectors)

    @abstractmethod
    def _taken(self, vectors: Any) -> Embedded:
        """What is given of the vectors of the library, or of its modules."""


class SentenceEncoder(SentenceModel):
    """A `SentenceTransformer`, of whatever the model takes: one vector for each input."""

    output: ClassVar[Mapping[str, bool]] = {"convert_to_tensor": True}
    temperature: float | None = None  # these encoders are published without that of their training
    bias: float | None = None

    def __init__(self, request: SentenceRequest, model: Any, prompts: Mapping[Role, str]) -> None:
        super().__init__(request, model, prompts)
        compiled = request.device == COMPILED
        on_cpu = not compiled and model.device.type == "cpu"
        self.is_slow_here = on_cpu and self.card.dtype == "float32"
        # The library's own `encode` changes a tokenizer in place; the ways beside it are safe in several threads.
        goes_beside = not takes_messages(model) and (self._pictures is None or self._pictures.one_by_one)
        self.in_lanes = on_cpu and goes_beside and not request.trusted
        self._towers: dict[Modality, SentenceTower] = {}  # those that are compiled
        self._compiled = CompiledTowers(lambda modality: self._towers[modality])
        self.dimension = self._found_dimension()  # where it is written differs between kinds of modules
        pictures = self._pictures
        if compiled:
            of_any_size = pictures is not None and not pictures.one_by_one
            if takes_messages(model) or "text+image" in self.modalities or of_any_size:
                reason = "it takes messages, texts with pictures, or pictures of any size"
                raise cannot_compile(self.card.name, None, reason)
            # Where the tokens of a prompt do not enter the mean, the network has to know how many there are.
            leaves_out = not all(getattr(module, "include_prompt", True) for module in model)
            if has_routes(model) or (leaves_out and prompts["query"] != prompts["document"]):
                raise cannot_compile(self.card.name, None, "it computes queries in another way than documents")
            self._towers = {modality: self._tower(modality, prompts["document"]) for modality in self.modalities}
        if pictures is not None and not pictures.any_resolution:
            from PIL import Image as pil

            # An error where the pictures of the processor are none that the model takes: before any work.
            self.encode_images([pil.new("RGB", size, "grey") for size in ((67, 48), (48, 67))])

    def forward(self, batch: InputBatch, role: Role) -> Embedded:
        """(n, dimension) vectors of n inputs."""
        # Of texts by the modules themselves: the library's `encode` spends 1.5 ms a call on looking for its device.
        texts = batch.texts
        if texts is None or batch.images is not None or takes_messages(self._model) or not len(texts):
            return super().forward(batch, role)
        features = self._text_features(texts, role)
        if batch.alike and (lengths := self.for_role(role).text_lengths(texts)) is not None:
            features = _padded(features, int(lengths.max()), self._model.tokenizer)
        return self._vectors("text", features, role)

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) tokens of each text, prompt, template and padding included: 16, 24, 32, … up to the model's limit."""
        # None for a model without a tokenizer of its own, and for one that takes pictures too.
        if self.modalities != {"text"} or takes_messages(self._model):
            return None
        limit, tokenizer = limit_of(self._model), self._model.tokenizer
        if limit is None or not callable(tokenizer):
            return None
        with self._lock:
            counts = token_counts(tokenizer, [self._prompts[self._role] + text for text in self._filled(texts)])
        padded = -(-np.maximum(np.array(counts, np.int64), SHORTEST) // STEP) * STEP
        lengths: NDArray[np.int64] = np.minimum(padded, limit)
        return lengths

    def features(self, texts: Sequence[str], role: Role) -> dict[str, Any]:
        """What the modules make of n texts: "token_embeddings", "attention_mask", "input_ids", …; padded tensors."""
        with inference():
            prepared = to_model(self._text_features(texts, role), self._model.device)
            return {**prepared, **self._model(prepared, task=role)}

    def word_embeddings(self, ids: Any) -> Any:
        """(n, d) what the first layer of the transformer is given for each token."""
        with inference():
            return self._model[0].auto_model.get_input_embeddings()(ids)

    @property
    def tokenizer(self) -> Any:
        """The model's own."""
        return self._model.tokenizer

    def pretrained_tower(self, modality: Modality) -> SentenceTower:
        """The text tower, sharing its weights with this encoder."""
        if modality not in self.modalities:
            raise self.cannot(modality)
        if self.modalities != {"text"}:
            raise EncoderError(
                f"{self.card.name}: a sentence-transformers model that takes pictures cannot be tuned here.",
                hint='tower = "frozen" trains a head over it; the same weights in the format of transformers can be '
                "tuned",
                code="sentence-transformers-model-takes-pictures",
            )
        return self._tower(modality)

    def text_side(self) -> TextSide | None:
        """See `TextSide`: all modules, behind the tokens with the prompt of the role."""
        if takes_messages(self._model) or has_routes(self._model) or has_marks(self._model):
            return None
        return self._tower("text", self._prompts[self._role]).text_side()

    def _text_features(self, texts: Sequence[str], role: Role) -> Features:
        with self._lock:  # a fast tokenizer changes its padding state in place
            features: Features = self._model.preprocess(
                self._texts(texts), prompt=self._prompts[role] or None, task=role
            )
        return features

    def _vectors(self, modality: Modality, features: Features, role: Role) -> Embedded:
        if self._towers:
            return self._compiled.vectors(modality, self.card, self._towers[modality].tensors(features))
        return super()._vectors(modality, features, role)

    def _taken(self, vectors: Any) -> Embedded:
        return to_vectors(vectors[:, : self.dimension or self._model.truncate_dim])

    def _tower(self, modality: Modality, prompt: str | None = None) -> SentenceTower:
        """One tower, sharing its weights with this encoder."""
        pictures = None if modality == "text" else self._pictures
        return SentenceTower(
            self._model,
            self._folder,
            outputs=self.dimension,
            template=self._template,
            max_length=self._max_length,
            prompt=prompt,
            pictures=pictures,
        )

    def _found_dimension(self) -> int:
        from PIL import Image as images

        if "text" in self.modalities:
            vectors = self.embed_texts(["a"])
        else:
            vectors = self.embed_images([self.preprocess(images.new("RGB", (64, 64)))])
        return int(one_each(vectors, self.card.name).shape[1])


def has_routes(model: Any) -> bool:
    """Whether the model does something else with queries than with documents, beside its prompts."""
    from sentence_transformers.base.modules.router import Router

    return (
        any(
            isinstance(module, Router)
            or getattr(module, "query_length", None) != getattr(module, "document_length", None)
            or getattr(module, "query_expansion", None) is not None
            for module in model
        )
        or "task" in model.get_model_kwargs()
    )


def _padded(features: Mapping[str, Any], length: int, tokenizer: Any) -> dict[str, Any]:
    """Tokenised texts with padding behind (or before, as the tokenizer does it) up to `length`."""
    import torch

    filling = {"input_ids": int(tokenizer.pad_token_id or 0), "token_type_ids": int(tokenizer.pad_token_type_id)}
    padded: dict[str, Any] = {}
    for name, value in features.items():
        if isinstance(value, torch.Tensor) and value.ndim == 2 and value.shape[1] < length:
            missing = length - value.shape[1]
            ends = (0, missing) if tokenizer.padding_side == "right" else (missing, 0)
            value = torch.nn.functional.pad(value, ends, value=filling.get(name, 0))
        padded[name] = value
    return padded


_EXACT = 1 << 24
"""Whole numbers below it are exact in float32."""


class WeightedTerms(SentenceModel):
    """What the store keeps: a pair (number of the term, weight) for each term that has a weight."""

    # An item without any term has one pair (0, 0).

    form: VectorForm = "multi-vector"
    kept_dtype: Literal["float16", "float32"] = "float32"
    family = "sentence-transformers-sparse"
    setting = ("max_active_dims", "max_active_dims")
    output: ClassVar[Mapping[str, bool]] = {"convert_to_sparse_tensor": False}

    def __init__(self, request: SentenceRequest, model: Any, prompts: Mapping[Role, str]) -> None:
        super().__init__(request, model, prompts)
        self.is_slow_here = model.device.type == "cpu" and self.card.dtype == "float32"
        self.dimension = 2

    def _taken(self, vectors: Any) -> TokenVectors:
        weights = vectors.float().cpu().numpy()
        if (weights < 0).any():
            raise EncoderError(
                f"{self.card.name}: this model gives terms weights below 0, and weighted words have none.",
                hint="end it in SpladePooling, or in another module that cuts at 0",
            )
        empty = ~weights.any(axis=1)
        rows, terms = np.nonzero(weights)
        values = weights[rows, terms]
        rows, terms = np.concatenate([rows, np.flatnonzero(empty)]), np.concatenate([terms, np.zeros(empty.sum(), int)])
        pairs = np.stack([terms, np.concatenate([values, np.zeros(empty.sum())])], axis=1).astype(np.float32)
        order = np.argsort(rows, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(weights)))]).astype(np.int64)
        return TokenVectors(pairs[order], offsets)


class SentenceSparseEncoder(EncoderOver):
    """Exactly `SparseEncoder.encode_query` and `.encode_document`: weighted words, compared by dot product."""

    # `visir.encode` gives `SparseEmbeddings`. The interface of every encoder is there too, for a handful of inputs:
    # rows of |V| numbers.

    form: VectorForm = "sparse"
    over = "_terms"

    def __init__(self, terms: WeightedTerms, vocabulary: Vocabulary) -> None:
        self._terms, self.vocabulary = terms, vocabulary
        self.card: EncoderCard = terms.card
        self.dimension = len(vocabulary)
        self.modalities, self.distinguishes_roles = terms.modalities, terms.distinguishes_roles
        self.batch_size = terms.batch_size

    def base_encoder(self, modality: Modality) -> Encoder:
        """The model as pairs of term and weight, which are what the store keeps."""
        return self.below(modality)

    def project_items(self, items: Items, embeddings: Vectors) -> SparseEmbeddings:
        """The weighted words of items."""
        return self._words(embeddings)

    def encode_inputs(self, modality: Modality, inputs: Mapping[str, Any], role: Role = "query") -> SparseEmbeddings:
        """The weighted words of a handful of texts ("text") or PIL images ("image") by id."""
        return self._words(self._terms.encode_inputs(modality, inputs, role))

    def made_of(self, modality: Modality, vectors: Any) -> NDArray[np.float32]:
        """(n, |V|) weights."""
        full = np.zeros((len(vectors), self.dimension), np.float32)
        rows = np.repeat(np.arange(len(full)), np.diff(vectors.offsets))
        full[rows, vectors.vectors[:, 0].astype(np.int64)] = vectors.vectors[:, 1]
        return full

    def _words(self, pairs: Vectors) -> SparseEmbeddings:
        assert isinstance(pairs, MultiVectorEmbeddings), "pairs of term and weight"
        active = pairs.vectors[:, 1] > 0
        before = np.concatenate([[0], np.cumsum(active)]).astype(np.int64)
        return SparseEmbeddings(
            pairs.modality,
            pairs.ids,
            before[pairs.offsets],
            pairs.vectors[active, 0].astype(np.int32),
            np.asarray(pairs.vectors[active, 1], np.float32),
            self.vocabulary,
            self.card,
            pairs.origin,
        )


def vocabulary_of(model: Any, name: str) -> Vocabulary:
    """What the dimensions of a sparse encoder are: the tokens of its tokenizer, or numbers where they are no tokens."""
    from PIL import Image as images

    trial = "a" if model.supports("text") else images.new("RGB", (64, 64))
    # Where the size is written differs between kinds of modules, and not all of them write the right one.
    size = int(model.encode_document([trial], convert_to_sparse_tensor=False, show_progress_bar=False).shape[1])
    if size >= _EXACT:
        raise EncoderError(f"{name}: weighted words of {size:,} terms are more than can be kept.")
    tokens: list[str | None] = []
    if type(model[-1]).__name__ != "SparseAutoEncoder" and size >= len(model.tokenizer):
        tokens = model.tokenizer.convert_ids_to_tokens(list(range(len(model.tokenizer))))
    if None in tokens or len(set(tokens)) != len(tokens):
        tokens = []
    # Models are padded to round numbers of rows; some learn dimensions that are no words.
    terms = [*map(str, tokens), *(f"[{number}]" for number in range(len(tokens), size))]
    return Vocabulary(name, terms, np.ones(size, bool))


class SentenceMultiVectorEncoder(SentenceModel):
    """Exactly `MultiVectorEncoder.encode_query` and `.encode_document`: ColBERT, PyLate, and multimodal ones."""

    # Prompts, lengths, expansion tokens, words that are left out of documents, projection and normalisation are the
    # model's own.

    form: VectorForm = "multi-vector"
    family = "sentence-transformers-multi-vector"
    output: ClassVar[Mapping[str, bool]] = {"convert_to_numpy": True}
    sees_batches = True

    def __init__(self, request: SentenceRequest, model: Any, prompts: Mapping[Role, str]) -> None:
        super().__init__(request, model, prompts)
        self.batch_size, self.distinguishes_roles = 16, True
        self.dimension = int(model.get_embedding_dimension())

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of each text stands for: prompts, markers and expansion tokens included."""
        if not len(texts):
            return []
        features, masks = self._counted(self._texts(texts), role)
        return [
            token_pieces(self._model.tokenizer, ids[mask].tolist())
            for ids, mask in zip(features["input_ids"], masks, strict=True)
        ]

    def image_regions(self, image: Image) -> Boxes:
        """(t, 4) the part of the upright picture that each of its vectors stands for; NaN where there is none."""
        if self._pictures is None:
            raise self.cannot("image")
        features, masks = self._counted([image], self._role)
        tokens = self._model.tokenizer.convert_ids_to_tokens(features["input_ids"][0].tolist())
        boxes: Boxes = token_places(image, tokens, features, self._model.processor)[masks[0].numpy()]
        return boxes

    def text_limit(self) -> None:
        """None: queries and documents have limits of their own, and queries are filled up."""
        return

    def _limit(self) -> TextLimit | None:
        limit, prompt = role_limit(self._model[0], self._role), self._prompts[self._role]

        def count(texts: Sequence[str]) -> list[int]:
            return token_counts(self._model.tokenizer, [prompt + text for text in self._filled(texts)])

        return None if limit is None else TextLimit(limit, count)

    def _card(self, request: SentenceRequest) -> EncoderCard:
        images = {} if self._pictures is None else self._pictures.values()
        texts = {"template": self._template, **multi_vector_values(self._model)}
        return request.plain_card(self.family, images, texts)

    def _taken(self, vectors: Any) -> TokenVectors:
        return token_vectors(vectors, self.dimension)

    def _counted(self, inputs: list[Any], task: Role) -> tuple[Mapping[str, Any], NDArray[Any]]:
        """What the model reads, and which of its tokens have a vector that counts."""
        from sentence_transformers.multi_vector_encoder.modules import BaseTokenPooling, MultiVectorMask

        if any(isinstance(module, BaseTokenPooling) and module.applies_to(task) for module in self._model):
            raise EncoderError(
                f"{self.label} pools the vectors of a {task}: what each of them stands for is not known.",
                hint="save the model without its token pooling",
            )
        features = dict(self._model.preprocess(inputs, prompt=self._model.prompts.get(task), task=task))
        for module in self._model:
            if isinstance(module, MultiVectorMask):
                features = module(features, task=task)
        return features, features["attention_mask"].bool()


ENCODERS: Mapping[str, type[SentenceModel]] = {
    "SentenceTransformer": SentenceEncoder,
    "SparseEncoder": WeightedTerms,
    MULTI_VECTOR: SentenceMultiVectorEncoder,
}
"""The classes of the library that make vectors, and what makes encoders of them."""


def load(request: SentenceRequest) -> Encoder:
    """The encoder that a name leads to."""
    model = request.model()
    prompts = request.prompts(model)
    with loading(request.name, code=request.trusted):
        encoder = ENCODERS[request.kind](request, model, prompts)
        if isinstance(encoder, WeightedTerms):
            return SentenceSparseEncoder(encoder, vocabulary_of(model, encoder.card.name))
        return encoder

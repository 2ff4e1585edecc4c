"""A search question: one model, from which Python, the HTTP service and the command line derive theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from PIL.Image import Image
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError, field_validator, model_validator

from visir.errors import VisirError, nearest, raise_faults
from visir.library.filters import FieldCondition, FilterError, read_condition
from visir.library.pictures import PreparedImage
from visir.library.query_help import QUERY_HELP
from visir.retrieval.answers import depth_fault
from visir.retrieval.fusion import Fusion

System: TypeAlias = Literal["dense", "sparse", "hybrid"]
By: TypeAlias = Literal["words", "vectors", "both"]
AnsweredBy: TypeAlias = By | Literal["filters"]
"""By what an answer came about: "filters" where nothing was searched, and what satisfies conditions is listed."""
DEEPEST = 1000
"""How far down an answer can be paged (offset + k): beyond it the systems' lists would have to be fused deeper, and
no one pages that far."""
MOST_RERANKED = 100
WordsState: TypeAlias = Literal["there", "missing"]
"""Whether a library can be searched by words; "missing" where an update adds them."""
_WITHOUT_WORDS = "this library was made without words; visir library update LIBRARY adds them"


class QueryError(VisirError):
    """A query that contradicts itself, or that this library cannot answer."""


def described(name: str, default: Any, **limits: Any) -> Any:
    """A pydantic field with the description of `QUERY_HELP`."""
    return Field(default, description=QUERY_HELP[name], **limits)


class QueryFields(BaseModel):
    """The fields that every search question has, wherever it comes from."""

    # A text may stand beside a picture, or a picture of the library (`like`). The query is then the weighted mean of
    # the two *unit* vectors: a cosine ignores lengths, so neither side may weigh more because its encoder writes longer
    # vectors. (The other reading fuses two ranked lists, which finds what fits either well; a mean finds what fits
    # both, "this dress, in red".) Weighted words have meaningful lengths; there the mean is that of the weights, each
    # side divided by its own length first for the same reason.
    # A sparse head says in words what the dense vectors hold and loses a little, so the two together find no more than
    # dense alone (measured in docs/background/searching.md). Hybrid search is for systems that know different things.
    # Conditions alone (`where`) list what satisfies them: the newest pictures first, or by name without dates.
    # A category includes its subtree. With a category and nothing else to look for, the last part of its name is the
    # text: "shoes/running" looks for "running" among what lies there.

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    text: str | None = described("text", None)
    image: Any = described("image", None)
    like: str | None = described("like", None)
    text_weight: float = described("text_weight", 0.5, ge=0, le=1)
    by: By | None = described("by", None)
    system: System | None = described("system", None)
    fusion: Fusion | None = described("fusion", None)
    weight: float | None = described("weight", None, ge=0, le=1)
    where: Any = described("where", ())
    category: str | None = described("category", None)
    read_prices: bool = described("read_prices", True)
    k: int = described("k", 10, ge=1, le=DEEPEST)
    offset: int = described("offset", 0, ge=0, le=DEEPEST)
    rerank: int = described("rerank", 0, ge=0, le=MOST_RERANKED)

    @property
    def search_text(self) -> str | None:
        """The text to search with: the category's name where the query has nothing else."""
        if self.text is not None and self.text.strip():
            return self.text
        if self.image is None and self.like is None and self.category:
            return self.category.rstrip("/").rpartition("/")[2].replace("_", " ").replace("-", " ")
        return None

    @field_validator("text", "like", "category")
    @classmethod
    def _check_characters(cls, value: str | None) -> str | None:
        try:
            (value or "").encode()
        except UnicodeEncodeError:  # broken bytes of a command line, or half of a surrogate pair
            raise ValueError(f"not valid Unicode text: {value!r:.80}") from None
        return value

    @model_validator(mode="after")
    def _check_together(self) -> QueryFields:
        faults = self._contradictions()
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _contradictions(self) -> list[str]:
        """What is wrong with the fields beside each other."""
        faults = []
        if self.search_text is None and self.image is None and self.like is None and not self.where:
            faults.append("nothing is asked: give a text, an image, a picture to be like, a category, or a condition")
        if self.image is not None and self.like is not None:
            faults.append("image and like are given: one of them")
        if self.k + self.offset > DEEPEST:
            faults.append(f"k + offset is at most {DEEPEST}")
        return faults


class Query(QueryFields):
    """A search question to a library, as Python asks it.

    Args:
        text: What to look for, in words.
        image: A file, a PIL picture, or a picture from `Searcher.prepare`.
        like: A picture of the library, by its id, path or name; it is left out of the answer.
        text_weight: Weight of the text beside an image or a picture of the library, from 0 to 1.
        by: "words" (of products: titles, brands, categories, attributes, descriptions; of pictures: keywords, titles,
            people, places, captions, names of files and folders), "vectors", or "both" joined; None takes both for a
            text where the library has both, and vectors where a `system` is named, or no picture has a word of it.
        system: Of vectors: "dense", "sparse" or "hybrid"; None takes dense where the library has it.
        fusion: How both, or the two of hybrid, are joined: "rrf" or "weighted"; see `visir.retrieval.fusion`. None
            takes "weighted" for both and "rrf" for hybrid.
        weight: Weight of the vectors, in weighted fusion, from 0 to 1 (None takes 0.3; of pictures 0.3 to 1, the more
            the fewer words of the text one picture has); of hybrid that of dense (0.5).
        where: Conditions that every answer satisfies: "width >= 800", {"field": "width", "op": ">=", "value": 800}, or
            a `FieldCondition`. Alone they list what satisfies them, the newest pictures first.
        category: Only what lies in this category or below it.
        read_prices: Whether words such as "under 50" are a condition on the price (`visir.library.price_words`).
        k: How many answers; `offset + k` is at most 1,000.
        offset: How many of the best answers to skip.
        rerank: How many of the best the model's matching head puts in order; it needs a text.

    Raises:
        QueryError: Lists every fault, with the nearest name for a field or a value that is unknown.

    Example:
        >>> query = Query(text="a dog on a beach", where=["width >= 800"], k=5)
        >>> query.where[0].field, query.k
        ('width', 5)
        >>> Query(text="a dog", fusion="rff", k=0)
        Traceback (most recent call last):
        visir.library.query.QueryError: query (2 faults):
          - unknown fusion 'rff' (did you mean 'rrf'? known: rrf, weighted)
          - k must be at least 1, not 0
          → correct the parts named above
    """

    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)

    image: SkipValidation[Image | PreparedImage | None] = described("image", None)
    where: SkipValidation[tuple[FieldCondition, ...]] = described("where", ())

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as invalid:
            raise _error(_faults(invalid, fields)) from invalid

    @classmethod
    def checked(
        cls,
        query: Query | Mapping[str, Any],
        systems: tuple[str, ...],
        *,
        has_cross_encoder: bool,
        words: WordsState = "missing",
    ) -> Query:
        """The query, if a library can answer it."""
        faults: list[str] = []
        if isinstance(query, Query):
            checked = query
        else:
            try:
                checked = cls(**query)
            except QueryError as error:
                invalid = error.__cause__
                assert isinstance(invalid, ValidationError)
                faults, checked = _faults(invalid, query), _sound_part(invalid, query)
        faults += checked._faults_for(systems, has_cross_encoder, words)
        if faults:
            raise _error(faults)
        return checked

    def system_for(self, systems: tuple[str, ...]) -> System:
        """The system that answers, in a library that has these."""
        if self.system is not None:
            return self.system
        return "dense" if "dense" in systems else "sparse"

    def by_for(self, systems: tuple[str, ...], *, has_words: bool, takes_texts: bool) -> AnsweredBy:
        """By what a library is searched that has these systems, and perhaps words."""
        if self.has_filters_alone:
            return "filters"
        if self.by is not None:
            return self.by
        if not systems:
            return "words"
        if self.system is not None or not has_words or not self.is_text_alone:
            return "vectors"
        return "both" if takes_texts else "words"

    @property
    def has_filters_alone(self) -> bool:
        """Whether there is nothing to search for: what satisfies the conditions is listed."""
        return self.search_text is None and self.image is None and self.like is None

    @property
    def is_text_alone(self) -> bool:
        """Whether it asks for a text, and for no picture."""
        return self.search_text is not None and self.image is None and self.like is None

    def _faults_for(self, systems: tuple[str, ...], has_cross_encoder: bool, words: WordsState) -> list[str]:
        """Why a library with these systems cannot answer."""
        faults = []
        if self.by in ("words", "both"):
            faults += [f"by={self.by}: {_WITHOUT_WORDS}"] if words != "there" else []
            faults += [f"by={self.by}: there is no text"] if self.search_text is None else []
        if self.has_filters_alone and (self.by == "vectors" or self.system is not None):
            named = f"system={self.system}" if self.system is not None else "by=vectors"
            faults.append(f"{named}: conditions alone are listed, and there is nothing to compare vectors with")
        if self.by == "words" and (self.image is not None or self.like is not None):
            faults.append("by=words: words cannot be compared with a picture")
        if self.by == "words" and self.system is not None:
            faults.append(f"by=words: system={self.system} is a way to search vectors; leave one out")
        if self.by == "both" and self.system == "hybrid":
            faults.append("by=both: words are joined with one system of vectors: system=dense or system=sparse")
        needs_vectors = self.by in ("vectors", "both") or self.image is not None or self.like is not None
        if not systems and (needs_vectors or self.system is not None):
            faults.append(
                "this library has words and no vectors (visir library update LIBRARY --model MODEL adds them)"
            )
        elif self.system is not None:
            needed = ("dense", "sparse") if self.system == "hybrid" else (self.system,)
            available = " and ".join(systems)
            faults += [
                f"this library has no {system} index (it has {available})" for system in needed if system not in systems
            ]
        if self.rerank and not has_cross_encoder:
            faults.append("rerank: this library's model has no matching head")
        elif self.rerank and self.search_text is None:
            faults.append("rerank: the matching head compares a picture with a text, and there is no text")
        return faults

    @field_validator("k", "offset", "rerank", "text_weight", "weight", mode="before")
    @classmethod
    def _python_number(cls, value: object) -> object:
        return value.item() if isinstance(value, np.integer | np.floating) else value

    @field_validator("image", mode="before")
    @classmethod
    def _check_image(cls, value: object) -> object:
        if value is None or isinstance(value, Image | PreparedImage):
            return value
        if isinstance(value, str | Path):
            try:
                return _opened(Path(value))
            except VisirError as error:
                raise ValueError(error.message) from error
        raise ValueError(f"must be a file or a PIL picture, not {type(value).__name__}")

    @field_validator("where", mode="before")
    @classmethod
    def _read_conditions(cls, value: object) -> object:
        if isinstance(value, str | Mapping | FieldCondition):
            value = (value,)
        if not isinstance(value, list | tuple):
            raise ValueError("must be a list of conditions")
        try:
            return tuple(read_condition(condition) for condition in value)
        except FilterError as error:
            raise ValueError(error.message) from error


def _opened(path: Path) -> Image:
    """The picture in a file. Raises `ImageError` or `VisirError` for what cannot be read."""
    from visir.collections.images import decode
    from visir.files import open_binary

    with open_binary(path) as stream:
        return decode(stream.read(), str(path))


_CHOICES: dict[str, tuple[str, ...]] = {"by": get_args(By), "system": get_args(System), "fusion": get_args(Fusion)}
_ASKING = {"text", "image", "like", "category", "where"}


def _error(faults: Sequence[str]) -> QueryError:
    try:
        raise_faults(QueryError, "query", faults, hint="correct the parts named above")
    except QueryError as error:
        return error.with_traceback(None)
    raise AssertionError("there is a fault")


def _faults(invalid: ValidationError, fields: Mapping[str, Any]) -> list[str]:
    """What pydantic found, in sentences, and what the sound fields have against each other."""
    faults = [_sentence(str(error["loc"][0]), error) for error in invalid.errors(include_url=False) if error["loc"]]
    if not _ASKING & _wrong_fields(invalid):
        faults += _sound_part(invalid, fields)._contradictions()
    return faults


def _wrong_fields(invalid: ValidationError) -> set[str]:
    return {str(error["loc"][0]) for error in invalid.errors(include_url=False) if error["loc"]}


def _sound_part(invalid: ValidationError, fields: Mapping[str, Any]) -> Query:
    """A query of the fields that are as they should be."""
    wrong = _wrong_fields(invalid)
    return Query.model_construct(**{name: value for name, value in fields.items() if name not in wrong})


def _sentence(name: str, error: Any) -> str:
    value, kind = error["input"], error["type"]
    if kind == "extra_forbidden":
        return f"unknown field {name!r} ({nearest(name, Query.model_fields)})"
    if kind == "literal_error":
        return f"unknown {name} {value!r} ({nearest(str(value), _CHOICES[name])})"
    if name == "k" and (fault := depth_fault(value, most=DEEPEST)):
        return fault
    limits = {side: getattr(limit, side) for limit in Query.model_fields[name].metadata for side in ("ge", "le")
              if hasattr(limit, side)}  # fmt: skip
    if len(limits) == 2 and isinstance(value, int | float):
        return f"{name} must lie between {limits['ge']} and {limits['le']}, not be {value}"
    return f"{name}: {error['msg'].removeprefix('Value error, ')}"

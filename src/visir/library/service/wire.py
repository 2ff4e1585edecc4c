"""The bodies of requests and answers over HTTP, and their limits. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model

from visir.library.facets import CountedOf
from visir.library.filters import FieldCondition, Op
from visir.library.query import AnsweredBy, By, Query, QueryFields, System, described

ITEM = "^[0-9a-f]{32}$"
"""An item's id: the first 32 hexadecimal digits of a SHA-256. No path can be written in these letters."""
MOST_RESULTS, MOST_QUERIES = 100, 64
MOST_TEXT, MOST_CONDITIONS, MOST_VALUES = 2_000, 16, 100

_LABEL = "What people call the system: dense search with several vectors for each picture is late interaction."

Whole = Annotated[int, Field(strict=True, ge=-(2**53), le=2**53)]
Scalar: TypeAlias = Whole | Annotated[float, Field(strict=True)] | Annotated[str, Field(max_length=500)]


class RequestBody(BaseModel):
    """A body: unknown fields, infinities and NaN are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class ImageData(RequestBody):
    """A picture inside JSON."""

    data: str = Field(min_length=1, description="The bytes of an image file (JPEG, PNG, WebP, …) in base64.")


class ConditionBody(RequestBody):
    """A condition on a field of a picture (`fields` of the library lists them)."""

    field: str = Field(min_length=1, max_length=100, examples=["width"])
    op: Op = "="
    value: Scalar | Annotated[list[Scalar], Field(min_length=1, max_length=MOST_VALUES)] = Field(
        description="A number or a text; for `in`, a list of them.", examples=[800]
    )

    def to_condition(self) -> FieldCondition:
        """The condition as a library takes it."""
        return FieldCondition(self.field, self.op, tuple(self.value) if isinstance(self.value, list) else self.value)


class ConditionList(RequestBody):
    """Conditions alone, for a list that is looked through."""

    where: list[ConditionBody] = Field([], max_length=MOST_CONDITIONS)


class SearchBody(QueryFields):
    """A search question: `visir.library.query.Query` with the limits of the service and a picture in base64."""

    text: str | None = described("text", None, min_length=1, max_length=MOST_TEXT)
    image: ImageData | None = described("image", None)
    like: str | None = described("like", None, min_length=1, max_length=MOST_TEXT)
    where: list[ConditionBody] = described("where", [], max_length=MOST_CONDITIONS)
    category: str | None = described("category", None, max_length=500)
    k: int = described("k", 10, ge=1, le=MOST_RESULTS)

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "a dog runs along the beach", "k": 5},
                {
                    "text": "a red car",
                    "system": "hybrid",
                    "where": [{"field": "width", "op": ">=", "value": 300}],
                    "offset": 10,
                },
            ]
        }
    )

    def to_query(self, image: Any) -> Query:
        """The query as a library takes it; it was checked when it was read."""
        conditions = tuple(condition.to_condition() for condition in self.where)
        return Query.model_construct(**{**vars(self), "image": image, "where": conditions})


_FORM_FIELDS: dict[str, Any] = {
    "photo": (bytes, Field(json_schema_extra={"format": "binary"}, description="An image file.")),
    "where": (str | None, Field(None, examples=['[{"field": "width", "op": ">=", "value": 300}]'])),
}
SearchForm: type[RequestBody] = create_model(  # type: ignore[call-overload]
    "SearchForm",
    __base__=RequestBody,
    __doc__="A photo as a file, and the fields of a search; `where` is the JSON text of a list of conditions.",
    **{name: (field.rebuild_annotation(), field) for name, field in SearchBody.model_fields.items()
       if name not in ("image", "like", *_FORM_FIELDS)},
    **_FORM_FIELDS,
)  # fmt: skip
"""What OpenAPI says of a form; it is read as a `SearchBody`."""


class BatchBody(RequestBody):
    """Several searches at once; they are answered in order."""

    queries: list[SearchBody] = Field(min_length=1, max_length=MOST_QUERIES)

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"queries": [{"text": "a dog"}, {"text": "a cat", "k": 3}]}]}
    )


class HitPart(BaseModel):
    """Where a result stood in one of the systems that were joined."""

    rank: int = Field(examples=[1])
    score: float = Field(examples=[0.3127])


class HitBody(BaseModel):
    """One result."""

    id: str = Field(examples=["0f343b0931126a20f133d67c2b018a3b"])
    rank: int = Field(examples=[1])
    score: float = Field(examples=[0.3127])
    parts: dict[str, HitPart]
    thumbnail: str | None = Field(
        examples=["/v1/libraries/photos/items/0f343b0931126a20f133d67c2b018a3b/thumbnail"],
        description="A path of this service; null where there is no picture.",
    )
    width: int | None = Field(examples=[500])
    height: int | None = Field(examples=[375])
    name: str = Field(examples=["beach/dog.jpg"])
    caption: str | None = Field(examples=["a dog runs along the beach"])
    product: str | None = Field(None, description="The id of the product in the shop's table.", examples=["SKU-7"])
    price: str | None = Field(None, examples=["49.90 EUR"])


class ReadWordsBody(BaseModel):
    """Words of a search that were read as conditions."""

    words: str = Field(examples=["under 50 €"])
    where: list[ConditionBody]


class Results(BaseModel):
    """An answer to a search."""

    hits: list[HitBody]
    total: int = Field(
        description="Items of the answer on all its pages: what words found, or everything under the conditions where "
        "vectors rank it. Pages end with rank 1,000."
    )
    matched: int | None = Field(
        None, description="Items that share a word with the search; null where words have no part in the answer."
    )
    next_offset: int | None = Field(description="The offset of the next page; null on the last.", examples=[10])
    by: AnsweredBy = Field(description="What answered; filters: what satisfies the conditions is listed.")
    system: System | None = Field(description="The system of vectors that answered; null for words alone.")
    label: str = Field(description=_LABEL, examples=["late interaction"])
    seconds: dict[str, float] = Field(examples=[{"encode": 0.006, "search": 0.002}])
    generation: int
    read: list[ReadWordsBody] = Field([], description="Words of the text that became conditions; see `read_prices`.")
    changes: list[str] = Field(
        [],
        description="What was searched beside or instead of words of the text: corrected spelling, synonyms.",
        examples=[["searched for 'dress' instead of 'drss'"]],
    )


class BatchResults(BaseModel):
    """Answers to a batch, in the order of its queries."""

    answers: list[Results]


class WeightedWord(BaseModel):
    """A word of a picture, and how heavy it is."""

    word: str = Field(examples=["dog"])
    weight: float = Field(examples=[1.87])


class MatchedTerm(BaseModel):
    """A word of both sides: its weight on each, and what it gives to the score."""

    word: str = Field(examples=["dog"])
    query: float
    document: float
    share: float


class ExplainedPart(BaseModel):
    """A picture in the list of one system, and what it added to the score; no rank where it is beyond the list."""

    rank: int | None = Field(examples=[1])
    score: float = Field(examples=[0.3127])
    contribution: float = Field(examples=[0.0164])
    label: str = Field(description=_LABEL, examples=["dense"])


class FoundWordBody(BaseModel):
    """A word of the search in the words of an item, as they stand there."""

    words: list[str] = Field(examples=[["perfume", "perfumes"]])
    fields: list[str] = Field(examples=[["title", "description"]])
    score: float = Field(description="What it adds to the score of the words.")


class NearCaption(BaseModel):
    """A caption near the query."""

    text: str
    score: float


class WordWithRegions(BaseModel):
    """A word of the search, and the parts of the picture that it matched."""

    word: str = Field(examples=["dog"])
    score: float = Field(description="What it adds to the score.")
    boxes: list[tuple[float, float, float, float]] = Field(
        description="Left, top, right, bottom, as fractions of the upright picture.",
        examples=[[(0.25, 0.5, 0.375, 0.625)]],
    )


class MatchedRegions(BaseModel):
    """What the words of the search matched in the picture; their scores and `other` are the score."""

    words: list[WordWithRegions]
    other: float = Field(description="What tokens of the model's own (a prompt, padding) add to the score.")
    missing: str = Field("", description="Why there are no words, or no places for them; empty where there are.")


class ExplainedHit(BaseModel):
    """Why a picture is an answer."""

    terms: list[MatchedTerm]
    captions: list[NearCaption]
    parts: dict[str, ExplainedPart]
    words: list[WeightedWord]
    found_words: list[FoundWordBody] = Field([], description="Words of the search that the item has; of products.")
    regions: MatchedRegions | None = Field(
        None, description="Of a model of late interaction; null for other models, and for searches without a text."
    )


class FileInfo(BaseModel):
    """Where an item's bytes lie."""

    path: str = Field(examples=["beach/dog.jpg"])
    name: str = Field(examples=["dog.jpg"])
    category: str = Field(examples=["beach"])
    place: str | None = Field(
        None,
        examples=["/home/ann/Photos/beach/dog.jpg"],
        description="Where it lies on the machine of the service; null where that is not told, or there is no file.",
    )


class ItemInfo(BaseModel):
    """Everything known of one picture."""

    id: str
    files: list[FileInfo]
    captions: list[str]
    fields: dict[str, Any]
    width: int | None
    height: int | None
    format: str | None
    bytes: int | None
    taken: str | None
    camera: str | None
    category: str | None
    duplicates: list[str] = Field(description="Items that look nearly the same.")
    words: list[WeightedWord]


class ItemSummary(BaseModel):
    """One picture of a list."""

    id: str
    thumbnail: str | None
    width: int | None
    height: int | None
    name: str
    caption: str | None
    product: str | None = None
    price: str | None = None


class ItemPage(BaseModel):
    """A page of pictures."""

    items: list[ItemSummary]
    total: int
    next_offset: int | None
    order: str = Field("by name", description="Newest first; by name where no picture has a date.")


class FacetValueBody(BaseModel):
    """A value, a range or a category, how many items have it, and the conditions that ask for it."""

    label: str = Field(examples=["20 – 50"])
    count: int
    where: list[ConditionBody]
    category: str | None = Field(description="The path of a category; null for other fields.")


class FacetBody(BaseModel):
    """The values of a field."""

    field: str = Field(examples=["brand"])
    type: Literal["category", "text", "number"]
    more: int = Field(description="How many further values there are.")
    left_out: list[ConditionBody] = Field([], description="Conditions on this very field, which its counts leave out.")
    values: list[FacetValueBody]


class FacetList(BaseModel):
    """How many items satisfy the conditions, and what they have. A field is counted without conditions on itself."""

    total: int
    of: CountedOf = Field("all", description="What is counted: all, what words found, or all that vectors ranked.")
    facets: list[FacetBody]


class CategoryNode(BaseModel):
    """A category, how many pictures it and those below it hold, and those below it."""

    name: str = Field(examples=["2024"])
    path: str = Field(examples=["holidays/2024"])
    items: int
    children: list[CategoryNode]


class FieldInfo(BaseModel):
    """A field on which conditions can be put; `values` where there are few."""

    name: str = Field(examples=["width"])
    type: Literal["number", "text", "date"]
    values: list[Any] | None = None
    items: int = Field(0, description="How many items have it.")


class LibraryStatus(BaseModel):
    """Whether a library is served as it lies on disk."""

    # "behind": it is not, or was not to be read, and the service is trying; "stale": for too long, and is not served.

    status: Literal["current", "behind", "stale"]
    generation: int = Field(description="That is served.")
    on_disk: int | None = Field(description="That lies on disk; null where it is unknown.")
    looked: str = Field(description="When the last look ended, UTC.", examples=["2026-05-01T12:00:00Z"])
    fault: str | None


class LibraryInfo(BaseModel):
    """What a library offers."""

    name: str = Field(examples=["photos"])
    items: int
    unit: Literal["pictures", "products"] = Field("pictures", description="What its items are.")
    ways: list[By] = Field(description="What a text can be searched by; the first is taken without `by`.")
    systems: list[System]
    labels: dict[System, str] = Field(description=_LABEL, examples=[{"dense": "late interaction"}])
    model: str
    head: str | None
    fields: list[FieldInfo]
    categories: bool
    folders: bool = Field(description="Whether categories are the folders that the pictures lie in.")
    captions: bool
    rerank: bool
    texts: bool = Field(description="Whether it takes texts; if not, pictures alone.")
    generation: int
    state: LibraryStatus


class Health(BaseModel):
    """The service is there."""

    status: Literal["ok", "closing"]
    version: str


class UpdateProgress(BaseModel):
    """The update that runs, and what the last one did."""

    running: bool
    stage: str | None = Field(examples=["encoding"])
    done: int
    total: int | None
    last: dict[str, Any] | None
    error: str | None


class DeletedItem(BaseModel):
    """An item that is no longer found."""

    id: str
    generation: int


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str = Field(examples=["not_found"])
    message: str = Field(examples=["there is no library 'photo'."])
    hint: str = Field(examples=["did you mean 'photos'? known: photos"])
    field: str | None = None


class ErrorBody(BaseModel):
    """The one shape of every refusal."""

    error: ErrorDetail


class NamedLibraryStatus(LibraryStatus):
    """The state of one library."""

    name: str


class Ready(Health):
    """Requests may be sent here. A service with tokens names no library here: their states are in `/v1/libraries`."""

    libraries: list[NamedLibraryStatus]


class NotReady(ErrorBody):
    """Why no request should be sent here, and the same of each library."""

    libraries: list[NamedLibraryStatus]

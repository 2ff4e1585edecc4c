"""The bodies of facets over HTTP."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from visir.library.facets import CountedOf
from visir.library.service.wire import ConditionBody


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

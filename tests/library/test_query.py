"""One question: the same fields in Python, over HTTP and on the command line, and all faults at once."""

from __future__ import annotations

from typing import get_type_hints

import numpy as np
import pytest
from PIL import Image

from verbs import say
from visir.library.cli.search import search
from visir.library.filters import FieldCondition
from visir.library.query import Query, QueryError, QueryFields
from visir.library.query_help import QUERY_HELP
from visir.library.service.wire import SearchBody, SearchForm


def test_fields_are_the_same_everywhere() -> None:
    assert list(Query.model_fields) == list(SearchBody.model_fields) == list(QueryFields.model_fields)
    assert set(QUERY_HELP) == set(Query.model_fields)
    for name, field in Query.model_fields.items():
        assert field.description == SearchBody.model_fields[name].description == QUERY_HELP[name]
        if name != "where":  # a tuple here, a list there
            assert field.default == SearchBody.model_fields[name].default
    form = set(SearchForm.model_fields)
    assert form == set(Query.model_fields) - {"image", "like"} | {"photo"}


def test_every_field_is_an_option_of_the_command_line() -> None:
    options = get_type_hints(search, include_extras=True)
    assert set(Query.model_fields) <= set(options)
    shown = " ".join(say(search, "--help").text.replace("│", " ").split())
    assert QUERY_HELP["text_weight"] in shown


def test_a_search_of_the_service_is_the_same_query() -> None:
    body = SearchBody.model_validate(
        {"text": "a dog", "text_weight": 1, "where": [{"field": "width", "op": "in", "value": [1, 2]}], "k": 3}
    )
    picture = Image.new("RGB", (4, 4))
    expected = Query(text="a dog", image=picture, text_weight=1, where=[FieldCondition("width", "in", (1, 2))], k=3)
    assert body.to_query(picture).model_dump() == expected.model_dump()


def test_conditions_are_texts_records_or_conditions() -> None:
    condition = FieldCondition("width", ">=", "800")
    for where in ("width >= 800", [condition], [{"field": "width", "op": ">=", "value": "800"}], ("width >= 800",)):
        assert Query(text="a dog", where=where).where == (condition,)
    with pytest.raises(QueryError, match="where: 'width' is no condition"):
        Query(text="a dog", where="width")
    with pytest.raises(QueryError, match="where: must be a list of conditions"):
        Query(text="a dog", where=3)


def test_all_faults_are_named_at_once_with_the_nearest_name() -> None:
    wrong = {"text": "a dog", "k": 0, "systm": "dense", "fusion": "rff", "weight": -1, "rerank": 5, "image": "dog.jpg"}
    with pytest.raises(QueryError) as raised:
        Query.checked(wrong, ("dense",), has_cross_encoder=False)
    for part in (
        "6 faults", "k must be at least 1", "did you mean 'system'", "did you mean 'rrf'",
        "weight must lie between 0 and 1, not be -1", "image: dog.jpg: no such file", "no matching head",
    ):  # fmt: skip
        assert part in str(raised.value)
    for wrong in (
        {},
        {"text": " "},
        {"like": "a", "image": Image.new("RGB", (4, 4))},
        {"text": "a", "k": 9, "offset": 992},
    ):
        with pytest.raises(QueryError, match=r"nothing is asked|one of them|k \+ offset"):
            Query(**wrong)


def test_numbers_of_numpy_are_numbers() -> None:
    query = Query(text="a dog", k=np.int64(3), text_weight=np.float32(0.25))
    assert (query.k, query.text_weight) == (3, 0.25)

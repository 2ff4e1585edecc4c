"""Schemathesis over the service's own OpenAPI: cases that fit the schema and cases that do not, with and without token.

Whatever is sent, the answer is one that OpenAPI declares: its status, its media type, its shape; never a 5xx (but 503,
which says when to come again), and never a traceback or a path of this machine.
"""

from __future__ import annotations

import base64
import copy
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("schemathesis", reason="the extra test is not installed")

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks
from served import Service, make

from visir.serving.tokens import new_token

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.unsupported_method,
    checks.use_after_free,
]


def drawn() -> bytes:
    """A small picture."""
    stream = io.BytesIO()
    Image.new("RGB", (9, 9), "red").save(stream, "PNG")
    return stream.getvalue()


class Fuzzed:
    """A service, its schema with names that are there, and how many cases were sent."""

    def __init__(self, folder: Path, tokens: Path, secret: str) -> None:
        self.service = Service(folder, tokens=tokens, timeout=120.0)
        items = [one["id"] for one in self._items(secret)]
        raw = self.service.ask("GET", "/v1/openapi.json").json()
        for path in raw["paths"].values():
            for method, operation in path.items():
                for parameter in operation.get("parameters", []):
                    if parameter["in"] == "path":  # else nearly every case would end at a name that is not there
                        some = items[:4] if method == "delete" else items[4:8]
                        known = {"library": ["photos"], "item": [*some, "0" * 32]}[parameter["name"]]
                        parameter["schema"] = {**parameter["schema"], "enum": known}
        picture = drawn()
        schemas = raw["components"]["schemas"]  # and nearly every search at fields and pictures that are none
        fields = ["width", "taken", "camera", "category", "name", "colour"]
        schemas["ConditionBody"]["properties"]["field"]["enum"] = fields
        schemas["SearchBody"]["properties"]["like"] = {"anyOf": [{"enum": [*items[4:8], "0" * 32]}, {"type": "null"}]}
        schemas["ImageData"]["properties"]["data"]["enum"] = [base64.b64encode(picture).decode(), "AAAA", "%"]
        schemathesis.openapi.format("binary", st.sampled_from([picture, picture[:99], b"GIF89a"]))
        # Asked with a token, "no token" is no fault of a case: `run` puts one into each.
        bare = copy.deepcopy(raw)
        for path in bare["paths"].values():
            for operation in path.values():
                operation.pop("security", None)
        self.operations = {token: self._operations(bare if token else raw) for token in (True, False)}
        listed = [(method, at, one) for at, path in raw["paths"].items() for method, one in path.items()]
        self.guarded = {f"{method.upper()} {at}" for method, at, one in listed if one.get("security")}
        self.secret = secret
        self.sent: Counter[tuple[str, int]] = Counter()

    def _operations(self, raw: dict[str, Any]) -> list[Any]:
        schema = schemathesis.openapi.from_dict(raw)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            """The service, whose life is longer than one test's."""
            if scope["type"] == "http":
                await self.service.app(scope, receive, send)

        schema.app = app
        return [found.ok() for found in schema.get_all_operations()]

    def _items(self, secret: str) -> Any:
        headers = {"authorization": f"Bearer {secret}"}
        return self.service.ask("GET", "/v1/libraries/photos/items", headers=headers).json()["items"]

    def run(self, mode: GenerationMode, examples: int, *, token: bool) -> None:
        """So many cases of every operation, checked."""
        for operation in self.operations[token]:
            if mode is GenerationMode.NEGATIVE and not (operation.body or list(operation.iter_parameters())):
                continue  # what takes nothing cannot be asked wrongly
            cases = operation.as_strategy(generation_mode=mode)
            checked = CHECKS if token else CHECKS[:5]
            if "multipart/form-data" in operation.definition.raw.get("requestBody", {}).get("content", {}):
                # A form has no types: a number where text belongs is text on the wire, and rightly answered.
                checked = [one for one in checked if one is not checks.negative_data_rejection]

            @seed(0)
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(cases)
            def ask(case: Any) -> None:
                headers = {"Authorization": f"Bearer {self.secret}"} if token else {}
                answer = case.call(headers=headers)
                self.sent[case.operation.label, answer.status_code] += 1
                case.validate_response(answer, checks=checked)  # noqa: B023  # called at once
                assert b"Traceback" not in answer.content and b"/tmp/" not in answer.content
                assert answer.headers["x-content-type-options"] == ["nosniff"]
                if not token and case.operation.label in self.guarded:
                    assert answer.status_code in (400, 401), answer.status_code

            ask()


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    place = tmp_path_factory.mktemp("fuzzed")
    made = make(place)
    secret = new_token(place / "tokens", "anna", ["search", "admin"], None)
    fuzzed = Fuzzed(made, place / "tokens", secret)
    yield fuzzed
    fuzzed.service.close()
    for (label, status), count in sorted(fuzzed.sent.items()):
        print(f"{count:6,} {status} {label}")
    print(f"{fuzzed.sent.total():6,} cases")


@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_a_few_hundred_cases(fuzzed: Fuzzed, mode: GenerationMode, token: bool) -> None:
    fuzzed.run(mode, 12 if token else 3, token=token)


@pytest.mark.nightly
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_thousands_of_cases(fuzzed: Fuzzed, mode: GenerationMode) -> None:
    fuzzed.run(mode, 250, token=True)
    fuzzed.run(mode, 30, token=False)

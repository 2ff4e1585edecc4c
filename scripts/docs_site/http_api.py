"""The reference of the HTTP service, printed from its OpenAPI description."""

from __future__ import annotations

import json
from typing import Any

MAX_ROWS = 40


def page() -> dict[str, str]:
    """Path → Markdown."""
    from visir.library import openapi

    schema = openapi()
    schemas = schema["components"]["schemas"]
    parts = [
        "# HTTP service",
        "`visir library serve` answers these requests. A running service describes them at `/v1/openapi.json`. "
        "Where tokens are used, send `Authorization: Bearer TOKEN`. An error is JSON with the fields of `Error` below. "
        "See also [Serve a library](../how-to/serve.md) and [limits, metrics and log](service-settings.md).",
    ]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts += _operation(path, method, operation)
    parts.append("## Bodies and answers")
    for name, one in sorted(schemas.items()):
        if rows := _rows(one):
            parts += [f"### {name}", _words(one.get("description", "")), rows]
    return {"reference/http.md": "\n\n".join(part for part in parts if part) + "\n"}


def _operation(path: str, method: str, operation: dict[str, Any]) -> list[str]:
    parts = [f"## {method.upper()} `{path}`", _words(operation.get("description") or operation.get("summary", ""))]
    parameters = operation.get("parameters", [])
    if parameters:
        lines = [
            f"| `{one['name']}` | {one['in']} | {_kind(one.get('schema', {}))} | {_cell(one.get('description', ''))} |"
            for one in parameters
        ]
        parts.append("| parameter | in | type | what it is |\n|---|---|---|---|\n" + "\n".join(lines))
    bodies = operation.get("requestBody", {}).get("content", {})
    if bodies:
        parts.append("Body: " + ", ".join(f"`{kind}` ({_kind(one.get('schema', {}))})" for kind, one in bodies.items()))
    answers = {
        status: _kind(next(iter(one.get("content", {"": {}}).values())).get("schema", {}))
        for status, one in operation.get("responses", {}).items()
        if status.startswith("2")
    }
    parts.append("Answer: " + ", ".join(f"{status} {kind}".strip() for status, kind in answers.items()))
    return parts


def _rows(schema: dict[str, Any]) -> str:
    needed = set(schema.get("required", []))
    lines = [
        f"| `{name}`{'' if name not in needed else ' (required)'} | {_kind(one)} | {_cell(one.get('description', ''))} |"
        for name, one in schema.get("properties", {}).items()
    ]
    return "| field | type | what it is |\n|---|---|---|\n" + "\n".join(lines) if lines else ""


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(kind for one in schema[word] if (kind := _kind(one)) != "null")
    match schema.get("type"):
        case "array":
            return f"list of {_kind(schema.get('items', {}))}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {_kind(schema['additionalProperties'])}"
        case None:
            return "any"
        case kind:
            return str(kind)


def _words(text: str) -> str:
    return text.replace("<", "&lt;")


def _cell(text: str) -> str:
    return " ".join(_words(text).split()).replace("|", "\\|")

"""Options that several verbs take."""

from __future__ import annotations

from typing import Any


def pairs_of(given: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE, as options give them."""
    from visir.errors import ConfigurationError

    pairs = {}
    for one in given or []:
        name, equals, value = one.partition("=")
        if not equals:
            raise ConfigurationError(f"--set {one}: expected NAME=VALUE.", hint="visir index kinds lists the settings")
        pairs[name.replace("-", "_")] = value
    return pairs

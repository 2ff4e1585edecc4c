"""Options that several verbs take."""

from __future__ import annotations

from typing import Any


def pairs_of(
    pairs: list[str] | None, option: str = "--set", hint: str = "visir index kinds lists them"
) -> dict[str, Any]:
    """The names (with "_" for "-") and values of a repeatable option NAME=VALUE.

    Args:
        pairs: The texts that were given.
        option: What the option is called, for errors.
        hint: Where the names are listed.

    Raises:
        ConfigurationError: Listing every text without a value, and every name that is given twice.
    """
    from visir.options import parse_pairs

    return {name.replace("-", "_"): value for name, value in parse_pairs(pairs or [], option, hint=hint).items()}

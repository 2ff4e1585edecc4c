"""`visir sessions token`: who may post events and read scores."""

from __future__ import annotations

from visir.cli.tokens import Days, Folder, Name, make_token, token_group


def new(folder: Folder, name: Name, days: Days = None) -> None:
    """Make a token and show it, this once; the folder holds its hash only. Its scope is score: post events."""
    make_token(folder, name, ["score"], days)


app = token_group("visir sessions serve", "who may post events", new)

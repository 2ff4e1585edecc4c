"""The verbs of tokens, for every application that has a service: who may do what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import name_option
from visir.cli.verbs import group

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of tokens.", show_default=False)]
Name = Annotated[str, name_option("whose token, or what for", show_default=False)]
Days = Annotated[float | None, typer.Option(help="For how many days. Default: for ever.")]


def show(folder: Folder) -> None:
    """Who has a token, for what, and until when."""
    from rich.table import Table

    from visir.errors import raise_faults
    from visir.serving.tokens import SCOPES, TokenError, read_tokens

    table = Table("name", "scopes", "made", "expires", box=None)
    tokens, faults = read_tokens(folder)
    for token in tokens:
        expires = "never" if token.expires is None else token.expires.isoformat()
        scopes = ", ".join(scope for scope in SCOPES if scope in token.scopes)
        table.add_row(token.name, scopes, token.made.isoformat(), expires + (" (over)" if token.expired() else ""))
    output.rich_table(table)
    raise_faults(TokenError, str(folder), faults, hint="these admit nobody; revoke them, and make them anew")


def revoke(folder: Folder, name: Name) -> None:
    """Take a token out of the folder; a running service refuses it from the next second on."""
    from visir.serving.tokens import revoke_token

    revoke_token(folder, name)
    output.line(f"{folder}: {name!r} revoked")


def make_token(folder: Path, name: str, scopes: list[str], days: float | None) -> None:
    """Make a token and print it."""
    from visir.serving.tokens import new_token

    token = new_token(folder, name, scopes, days)
    output.answer({"name": name, "token": token})
    output.line(token)
    typer.echo(f"{folder}: {name!r} added; the token is shown this once", err=True)


def token_group(verb: str, who: str, new: Callable[..., None]) -> typer.Typer:
    """The group `token` of an application, whose verb `new` makes tokens for the verb that serves."""
    return group("token", f"Tokens for {verb}: {who}.", {"new": new, "list": show, "revoke": revoke})

"""`visir sessions generate`: a log whose causes are known."""

from __future__ import annotations

from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    NewFolder,
    ReplaceOption,
    SeedOption,
)


def generate(
    out: NewFolder,
    sessions: Annotated[int, typer.Option(help="At least so many sessions, of about eight events each.")] = 100_000,
    seed: SeedOption = 0,
    dirt: Annotated[
        float, typer.Option(min=0, max=1, help="Dirt of every kind, each as this share of the events.")
    ] = 0.0,
    logs_in_at_checkout: Annotated[
        float,
        typer.Option(
            "--logs-in-at-checkout",
            min=0,
            max=1,
            help="The share of customers' sessions in which they log in at the checkout, or not at all.",
        ),
    ] = 0.0,
    planted: Annotated[
        bool, typer.Option("--planted", help="Write what nobody can see too: intents, chances, the exact truth.")
    ] = False,
    replace: ReplaceOption = False,
) -> None:
    """Make a shop's log whose causes are known, of any size: a larger log begins with the smaller one."""
    from visir.sessions.simulator import Dirt, Shop, generate

    log = generate(
        out,
        sessions,
        seed=seed,
        shop=Shop(logs_in_at_checkout=logs_in_at_checkout),
        dirt=Dirt.of_every_kind(dirt) if dirt else None,
        planted=planted,
        replace=replace,
    )
    output.facts(out=out.absolute(), **output.plain(log))
    output.line(
        f"{out}: {log.rows:,} rows, {log.sessions:,} sessions, {log.purchases:,} with a purchase, {log.people:,} people"
    )
    if log.dirt:
        output.line("dirt: " + ", ".join(f"{count:,} {kind}" for kind, count in log.dirt.items()))
    output.note(f"its sessions: visir sessions make {out}/events --mapping {out}/mapping.toml --out FOLDER")

"""The options that say which sessions are examples, shared by `predict` and `train`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from visir.sessions.examples import Sample

SettingsOption = Annotated[
    list[str] | None, typer.Option("--setting", "-s", help="anonymous or identified (repeatable). Default: both.")
]
MinPages = Annotated[int, typer.Option(help="Pages a session must have; steps end two before. The thesis: 12.")]
Count = Annotated[str, typer.Option(help='Which pages count: "before order" or "all".')]
Told = Annotated[str, typer.Option(help='What tells the setting: the "start" of a session, or the whole "session".')]
Seed = Annotated[int, typer.Option(help="Of samples, folds and models.")]


def samples_of(
    settings: list[str] | None, sizes: dict[str, int | None], min_pages: int, count: str, told: str, seed: int
) -> tuple[Sample, ...]:
    """One sample per setting."""
    from visir.sessions.examples import SETTINGS, Sample

    return tuple(
        Sample(one, sizes.get(one), seed, min_pages, count, told)  # type: ignore[arg-type]  # checked by Sample
        for one in settings or SETTINGS
    )

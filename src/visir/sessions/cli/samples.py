"""The options that say which sessions are examples, shared by `predict` and `train`."""

from __future__ import annotations

from typing import Annotated

import typer

from visir.cli.options import SeedOption

SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--setting", "-s", help="A setting: anonymous or identified. Repeatable. Default: both."),
]
MinPages = Annotated[int, typer.Option(help="Pages a session must have; steps end two before. The thesis: 12.")]
CountedPages = Annotated[str, typer.Option("--counted-pages", help='Which pages count: "before order" or "all".')]
SettingFrom = Annotated[
    str,
    typer.Option(
        "--setting-from", help='What the setting follows from: the "start" of a session, or all of the "session".'
    ),
]
DwellTimes = Annotated[
    str,
    typer.Option(
        "--dwell-times",
        help='Which dwell times are known at a step: of the "left pages", or of the "current page" too.',
    ),
]
Seed = SeedOption

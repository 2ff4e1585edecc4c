"""`visir sessions ab-test`: an online test read out at any time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import NewFolder, ReplaceOption, name_value_pairs
from visir.cli.verbs import examples

_PAGE, _JSON = "report.html", "ab-test.json"


@examples(
    "visir sessions ab-test decisions.jsonl --control rules --out read-out",
)
def ab_test(
    decisions: Annotated[
        Path, typer.Argument(metavar="DECISIONS", help="A log of decisions: JSON lines.", show_default=False)
    ],
    out: NewFolder,
    control: Annotated[
        str | None, typer.Option(help="The variant that others are compared with. Default: the first by name.")
    ] = None,
    share: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SHARE", help="Planned share of a variant, once for each.")
    ] = None,
    error: Annotated[float, typer.Option(help="How often the test may be wrong, whenever it is looked at.")] = 0.05,
    planned: Annotated[
        int, typer.Option(min=1, help="Visitors at which intervals are narrowest. Fix it before the test.")
    ] = 10_000,
    most: Annotated[
        float | None,
        typer.Option(metavar="AMOUNT", help="Larger amounts of a visitor count as this. Fix it before the test."),
    ] = None,
    replace: ReplaceOption = False,
) -> None:
    """Read out an online test: which variant does better, with intervals that hold at any time.

    Writes a page and JSON. Look as often as you like.
    """
    import shlex

    from visir.sessions.online.ab_test import ab_test as read_out
    from visir.sessions.reports.ab_test import sentences, variants_table, write_ab_test_report
    from visir.storage import FolderKind, new_folder

    shares = {name: _share(name, value) for name, value in name_value_pairs(share, "--share").items()} or None
    with new_folder(out, FolderKind("ab-test", "a read-out of an online test"), replace=replace) as change:
        test = read_out(decisions, control=control, shares=shares, error=error, planned=planned, most=most)
        change.write_json(_JSON, test.to_dict())
        command = shlex.join(["visir", *sys.argv[1:]])
        beside = {_JSON: "everything on this page, with the interval at every look"}
        write_ab_test_report(change.file(_PAGE), test, command=command, beside=beside)
    output.answer(test.to_dict())
    output.table(variants_table(test))
    for sentence in sentences(test):
        output.text(sentence)
    output.note(f"report: {out / _PAGE}")


def _share(name: str, value: object) -> float:
    from visir.errors import ConfigurationError

    try:
        return float(str(value))
    except ValueError:
        raise ConfigurationError(f"--share {name}={value}: not a number.", hint="--share model=0.5") from None

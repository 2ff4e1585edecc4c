"""`visir report`: anything that visir measured or made, looked at again; several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from visir.cli import output
from visir.cli.options import DATA, argument, option
from visir.cli.verbs import Call, calls, examples, reports


@calls("visir.reports.side_by_side:report", leave="sources", data=option("--data", metavar="COLLECTION", panel=DATA))
@examples(
    "visir report results/clip",
    "visir report results/clip results/siglip --out both.html --latex both.tex",
    "visir report results/clip --data photos.csv --out clip.html",
)
@reports
def report(
    folders: Annotated[list[Path], argument("FOLDER…")],
    call: Call,
    out: Path | None = None,
    replace: bool = False,
) -> None:
    """Show again what a command wrote; several side by side.

    Show what any command wrote into a folder: its tables, and with --out the page. Several stand side by side; results
    of one protocol are tested against one another.

    Args:
        folders: Folders that visir wrote: results, stress, profiles, probes, descriptions, trainings, indexes, …
        data: A collection: the one that was searched; with it the page shows the best and the worst queries.
        out: Where to write: a page, FILE.html, or a new folder with the page and its tables.
    """
    from visir.errors import ConfigurationError, raise_faults
    from visir.reports.page import check_page
    from visir.reports.report import REPORT
    from visir.storage import check_new_folder

    faults = [f"{folder}: not there" for folder in folders if not folder.exists()]
    raise_faults(ConfigurationError, "report", faults, hint="visir report FOLDER")
    is_page = out is not None and out.suffix.lower() in (".html", ".htm")
    if out is not None and is_page:
        check_page(out, "a report is one page", ".htm", replace=replace)
    elif out is not None:
        check_new_folder(out, REPORT, replace=replace)
    shown = call(None, [str(folder) for folder in folders], data=call.given["data"], title=call.given["title"])
    output.finish(shown, shown.to_dict(), None if is_page else out, page=out if is_page else None, replace=replace)

"""`visir library duplicates`: the same file, or the same picture, more than once."""

from __future__ import annotations

from typing import Annotated

import typer

from visir.cli import output
from visir.cli.verbs import examples
from visir.display import counted
from visir.library.cli.parts import LibraryFolder


@examples(
    "visir library duplicates photos.visir",
)
def duplicates(
    library: LibraryFolder,
    near: Annotated[
        int | None, typer.Option(min=0, max=128, help="Bits of 256 in which near duplicates may differ.")
    ] = None,
) -> None:
    """List copies, and pictures that nearly look the same.

    List files of equal content, and pictures that nearly look the same (resized, recompressed).
    """
    from visir.library.duplicates import duplicates
    from visir.library.perceptual_hash import NEAR
    from visir.library.snapshot import LibrarySnapshot

    most = NEAR if near is None else near
    with LibrarySnapshot.open(library) as opened:
        groups = duplicates(opened.database, near=most)
        near_groups = [[item.files[0].path for item in opened.items(items)] for items in groups.near]
        output.answer({"exact": groups.exact, "near": near_groups, "bits": most})
        output.line(f"exact: {counted(len(groups.exact), 'groups')} of files with the same content")
        for group in groups.exact:
            output.line("  " + "\n  ".join(group) + "\n")
        output.line(
            f"near: {counted(len(groups.near), 'groups')} of pictures that differ in at most {most} of 256 bits"
        )
        for paths in near_groups:
            output.line("  " + "\n  ".join(paths) + "\n")

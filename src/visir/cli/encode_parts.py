"""`visir encode --parts`: files of pictures, of any number and size, one part for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.cli import output
from visir.collections.tar_notes import END_REMEDY, LINKS_REMEDY
from visir.display import counted, named
from visir.progress import pace

if TYPE_CHECKING:
    from visir.encoders import Encoder
    from visir.encoders.compute import ForwardOptions
    from visir.encoders.parts_folder import PartsStatus

_SHOWN = 20
_WAITED = 5.0
"""So many seconds beside encoding are worth a word."""


def encode_into_parts(
    encoder: Encoder, source: str, place: str, options: ForwardOptions, *, key_ids: bool, replace: bool
) -> None:
    """Encode what others have not, and print what was done.

    Args:
        encoder: The model.
        source: The folder, pattern or address of the files.
        place: The folder or address of the parts.
        options: How pictures go through the model; without a size of batches it is that of the first process.
        key_ids: Whether keys alone are ids.
        replace: Whether files that have changed are encoded again.
    """
    from visir.encoders.parts import encode_parts

    result = encode_parts(
        encoder,
        source,
        place,
        batch_size=options.batch_size,
        workers=options.workers,
        skip_broken=options.skip_broken,
        ids="key" if key_ids else None,
        replace=replace,
    )
    rate = result.images / result.encoding_seconds if result.encoding_seconds else 0.0
    waited = result.seconds - result.encoding_seconds
    output.line(
        f"{place}: {counted(result.files, 'files')} with {counted(result.images, 'images')} encoded here "
        f"in {result.encoding_seconds:,.1f} s ({rate:,.0f}/s)"
        + (f"; {waited:,.0f} s more for listing files and waiting for other processes" if waited >= _WAITED else "")
    )
    if result.broken:
        output.line(f"  {counted(result.broken, 'broken pictures')} set aside; their parts list them")
    if result.passed_over:
        output.line(
            f"  {counted(result.passed_over, 'pictures')} passed over whose sample has another, which comes first"
        )
    if result.links:
        output.line(f"  {counted(result.links, 'links')} in tars passed over ({LINKS_REMEDY})")
    if result.going_on:
        tars = counted(len(result.going_on), "tars")
        output.line(f"  {tars} with more behind the mark of the end, not read: {result.going_on[0]} ({END_REMEDY})")
    print_status(place, result.parts.status())


def give_up_files(place: str, files: list[str]) -> None:
    """Leave files out, and print how far the parts are then.

    Args:
        place: The folder or address of the parts.
        files: The files, by name.
    """
    from visir.encoders.parts_folder import Parts

    parts = Parts(place)
    parts.give_up(*files)
    print_status(place, parts.status())


def print_status(place: str, status: PartsStatus) -> None:
    """Print how far the parts are."""
    output.facts(parts=place, **output.plain(status))
    speed = status.images_per_second
    rate = "" if speed is None else f"; images: {pace(speed)} in the time of encoding, all processes"
    broken = f", {counted(status.broken, 'broken pictures')} set aside" if status.broken else ""
    if status.broken is None:
        known = f"at least {counted(status.broken_at_least, 'broken pictures')} set aside"
        broken = f", {known} (not counted in parts of an earlier version: Parts(place).broken() lists them all)"
    given_up = f", {len(status.given_up):,} given up" if status.given_up else ""
    output.line(
        f"{place}: {status.finished:,} of {counted(status.files, 'files', 'are')} finished{broken}{given_up}{rate}"
    )
    for title, files in (
        ("running", status.running),
        ("expired", status.expired),
        ("failed", status.failed),
        ("given up", status.given_up),
    ):
        for name, about in list(files.items())[:_SHOWN]:
            output.line(f"  {title}: {named(name, about)}")
        if len(files) > _SHOWN:
            output.line(f"  {title}: … and {len(files) - _SHOWN:,} more")

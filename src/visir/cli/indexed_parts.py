"""What `visir index build` and `add` do with a folder of parts (`visir encode --parts`): nothing is encoded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.cli import output
from visir.cli.index_parts import remark_on_servers, report_index, size_in_words
from visir.display import counted

if TYPE_CHECKING:
    from visir.encoders import Parts
    from visir.encoders.joined_parts import PartsSummary
    from visir.records import Modality
    from visir.retrieval.index import Index


def check_options_of_parts(
    modality: Modality, split: str | None, images: list[str] | None, skip_broken: bool, only_device: bool
) -> None:
    """Refuse what is about encoding."""
    from visir.errors import ConfigurationError, raise_faults

    given = {
        "--to captions": modality != "image",
        "--split": split is not None,
        "--images": images is not None,
        "--skip-broken": skip_broken,
        "--device without --model": only_device,
    }
    raise_faults(
        ConfigurationError,
        "parts",
        [f"{name} does not go with a folder of parts" for name, is_given in given.items() if is_given],
        hint="parts are vectors of pictures already: all of them are indexed",
    )


def build_of_parts(
    place: str, model: str | None, device: str | None, kind: str | None, out: Path, settings: dict[str, Any]
) -> None:
    """Index a folder of parts, and print what was done."""
    from visir.retrieval.kinds import kind_for
    from visir.retrieval.parts_index import index_of_parts

    parts = _parts_by(place, model, device)
    index, summary = index_of_parts(parts, kind_for("dense", parts.encoder.name, kind), out, **settings)
    report_index(out, index)
    _print_parts(parts, summary)
    remark_on_servers(index)


def add_of_parts(index: Index[Any], folder: Path, place: str, model: str | None, device: str | None) -> None:
    """Add what the index lacks of a folder of parts, and print what was done."""
    from visir.retrieval.parts_index import add_parts

    parts = _parts_by(place, model, device)
    added, summary = add_parts(index, parts)
    there = summary.vectors - added
    output.facts(index=folder, added=added, there=there, **output.plain(index.info()))
    output.line(f"{folder}: {added:,} added, {there:,} were there; {size_in_words(index)}")
    _print_parts(parts, summary)


def _parts_by(place: str, model: str | None, device: str | None) -> Parts:
    """A folder of parts; where a model is named, it must be theirs."""
    from visir.encoders import Parts, load
    from visir.errors import EmbeddingError

    parts = Parts(place)
    if model is not None:
        mine = load(model, device=device).stored_card
        differing = mine.differences(parts.encoder, "image")
        if differing:
            raise EmbeddingError(
                f"{place}: made by {parts.encoder.name}, not by {mine.name} (they differ in {', '.join(differing)}).",
                hint="leave --model out: the parts say which model made them",
            )
    return parts


def _print_parts(parts: Parts, summary: PartsSummary) -> None:
    """Print of which parts an index was made, and what has no vector in them."""
    left_out = {"broken": summary.broken, "given_up": dict(summary.given_up)}
    output.facts(parts=parts.place, files=summary.files, **left_out)
    without = f"; without a vector: {summary.left_out()}" if summary.left_out() else ""
    output.line(f"  of {counted(summary.files, 'parts')} by {parts.encoder.name}{without}")

"""Input files that somebody gave up: they are gone, or changed, for ever, and the others are to be complete without.

    given-up/PART          who gave the file up, when and why

A part is named after the content of its file, so only this content is given up. A part that is finished counts, given
up or not: a process may have been at it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from visir.encoders.leases import SharedPlace, about_lease, about_process, facts_of, lease_states
from visir.encoders.part_list import FOLDER, GIVEN_UP, PartOf, given_up_parts, listed_parts
from visir.errors import EmbeddingError, nearest, raise_faults


def give_up(place: SharedPlace, names: Sequence[str]) -> None:
    """Leave input files out; nothing is read or removed."""
    listed = {part.file.name: part for part in listed_parts(place)}
    finished, states = place.listing(FOLDER), lease_states(place)
    chosen: list[PartOf] = []
    faults: list[str] = []
    for name in names:
        matching = _named(name, listed)
        if len(matching) != 1:
            several = f"{', '.join(matching)}: which of them?"
            faults.append(f"{name}: {several if matching else 'was never listed; ' + nearest(name, listed)}")
        elif f"{listed[matching[0]].part}.parquet" in finished:
            faults.append(f"{name}: has its part; to encode what the file is now: --replace (in Python: replace=True)")
        else:
            chosen.append(listed[matching[0]])
    raise_faults(
        EmbeddingError,
        f"{place.place}: files that cannot be given up",
        faults,
        hint="name files that have no part, as --status (in Python: Parts.status) shows them",
    )
    for part in chosen:
        state = states.get(part.part)
        failed = state is not None and state.ending == "failed"
        reason = about_lease(place, state).get("reason", "") if state is not None and failed else ""
        place.create(f"{GIVEN_UP}/{part.part}", about_process(file=part.file.name, reason=reason))


def why_given_up(place: SharedPlace, parts: Collection[PartOf], finished: Mapping[str, float]) -> dict[str, str]:
    """Input file → why it was given up, and by whom."""
    given = given_up_parts(place, finished)
    about: dict[str, str] = {}
    for part in parts:
        if part.part in given:
            values = facts_of(place, f"{GIVEN_UP}/{part.part}")
            who = f"{values.get('owner', 'unknown')}, {values.get('since', 'unknown')}"
            about[part.file.name] = f"{values['reason']} ({who})" if values.get("reason") else who
    return about


def _named(name: str, listed: Mapping[str, PartOf]) -> list[str]:
    """The file of this name; or those that a path or an address ends in."""
    return [name] if name in listed else [own for own in listed if name.endswith(f"/{own}")]

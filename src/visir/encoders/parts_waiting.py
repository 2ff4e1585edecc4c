"""What a process says that has nothing to do until other processes have finished, or are taken for dead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from visir.display import counted
from visir.encoders.leases import SharedPlace, about_lease, lease_states
from visir.encoders.part_list import PartOf


def waiting_line(place: SharedPlace, parts: Sequence[PartOf], seconds: float) -> str:
    """What is waited for, and until when; "" where nobody works on any of the parts."""
    # seconds: After so many seconds without a sign of life a process counts as dead.
    states = lease_states(place)
    held = [(states[part.part], part) for part in parts if part.part in states]
    held = [(state, part) for state, part in held if state.is_held(seconds)]
    if not held:
        return ""
    state, first = min(held, key=lambda item: item[0].renewed)
    about = about_lease(place, state)
    until = datetime.fromtimestamp(state.renewed + seconds, UTC)
    which = "" if len(held) == 1 else "first "
    return (
        f"waiting for {counted(len(held), 'files')} that other processes encode: {which}{first.file.name}, by "
        f"{about.get('owner', 'unknown')} since {about.get('since', 'unknown')}; without a sign of life from there it "
        f"is taken over at {until:%H:%M:%S} UTC"
    )

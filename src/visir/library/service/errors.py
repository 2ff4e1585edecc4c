"""What is raised while a library is searched, as refusals."""

from __future__ import annotations

from visir.errors import VisirError
from visir.serving.refusals import HttpError


def refusal_of(fault: VisirError) -> HttpError | None:
    """A query or a condition that cannot be answered: 422 with the same message and next action; an unknown item:
    404."""
    # None for every other error of visir: it is not the client's, and its text may name places on this machine.
    from visir.library.filters import FilterError
    from visir.library.layout import UnknownItemError
    from visir.library.query import QueryError

    if isinstance(fault, UnknownItemError):
        return HttpError(404, fault.message, hint=fault.hint)
    return HttpError(422, fault.message, hint=fault.hint) if isinstance(fault, FilterError | QueryError) else None

"""What tests ask of an error: its class, its code, its values. Its sentence stands in `snapshots/messages.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from visir.errors import VisirError

Fault = TypeVar("Fault", bound=VisirError)


@contextmanager
def refused(
    kind: type[Fault], *values: object, code: str = "", meant: str = "", hint: str | tuple[str, ...] | bool = True
) -> Iterator[pytest.ExceptionInfo[Fault]]:
    """`pytest.raises` for visir's own errors.

    Args:
        kind: The class, or one above it.
        *values: What the message names, in its order: a file, an id, a number; each as a whole word.
        code: Which fault of the class.
        meant: What the hint takes an unknown name for: "did you mean 'specific'?"
        hint: A value, or several, that the next action names. False: there is none.
    """
    __tracebackhide__ = True
    with pytest.raises(kind) as caught:
        yield caught
    check_fault(caught.value, *values, code=code, meant=meant, hint=hint)


def check_fault(
    fault: VisirError, *values: object, code: str = "", meant: str = "", hint: str | tuple[str, ...] | bool = True
) -> None:
    """The same of an error that is at hand."""
    __tracebackhide__ = True
    if code and fault.code != code:
        pytest.fail(f"the fault is {fault.code!r}, not {code!r}: {fault}")
    at = 0
    for value in map(str, values):
        place = _word(value).search(fault.message, at)
        if place is None:
            pytest.fail(f"{value!r} is not named{' after the values before it' if at else ''}: {fault}")
        at = place.end()
    if meant and f"did you mean {meant!r}" not in str(fault):
        pytest.fail(f"{meant!r} is not said to be meant: {fault}")
    if bool(fault.hint) != bool(hint):
        pytest.fail(f"{'a next action is missing' if hint else 'there is a next action now'}: {fault}")
    for value in () if isinstance(hint, bool) else (hint,) if isinstance(hint, str) else hint:
        if not _word(value).search(fault.hint):
            pytest.fail(f"the next action does not name {value!r}: {fault}")


def _word(value: str) -> re.Pattern[str]:
    """A value that is no part of a longer word."""
    return re.compile(rf"(?:(?<!\w)|(?=\W)){re.escape(value)}(?:(?!\w)|(?<=\W))")

"""What is said of a full disk, whoever noticed it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from refusals import refused
from visir.errors import VisirError
from visir.library.layout import LIBRARY, LibraryError
from visir.sessions.source import reason_of
from visir.storage.disk import disk_faults

HIDDEN = ".visir-full-1/new/items.sqlite"


def test_a_library_says_what_is_kept_and_names_itself() -> None:
    with (
        refused(LibraryError, "photos.visir", "kept", code="cannot-written"),
        disk_faults(Path("photos.visir"), LibraryError, progress=LIBRARY.progress),
        disk_faults(Path(HIDDEN), VisirError),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", HIDDEN)
    with (
        pytest.raises(VisirError, match=r"^another"),
        disk_faults(Path("photos.visir"), LibraryError, progress=LIBRARY.progress),
    ):
        raise VisirError("another fault")


def test_messages_of_the_engine_are_read() -> None:
    told = '{"exception_type":"IO","exception_message":"Could not write file \\".visir-x/new/a\\"","errno":"28"}'
    assert reason_of(told) == reason_of(f"IO Error: {told}") == "No space left on device"
    assert reason_of('{"exception_type":"IO","exception_message":"away"}') == "away"
    assert reason_of("Out of Memory Error: 1 GB\n\nLINE 1: SELECT") == "Out of Memory Error: 1 GB"

"""`visir library check`: is every byte as it was written?"""

from __future__ import annotations

from visir.cli import output
from visir.cli.verbs import examples
from visir.display import counted
from visir.library.cli.parts import LibraryFolder


@examples(
    "visir library check photos.visir",
)
def check(library: LibraryFolder) -> None:
    """Read every byte of a library, and check it.

    Read every byte of a library and compare it with its checksums.
    """
    from visir.errors import docs_page
    from visir.library.check import check
    from visir.library.layout import LibraryError

    faults = check(library)
    output.answer({"library": library.absolute(), "faults": [str(fault) for fault in faults]})
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise LibraryError(
            f"{library}: {counted(len(faults), 'faults')}:\n{listed}",
            hint=f"{docs_page('background/libraries')} says what to do",
        )
    output.line(f"{library}: everything is as it was written")

"""Duplicates as Python hands them out: paths of equal files, and pictures that look alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from visir.display import Displayed, brief, counted
from visir.library.hits import LibraryPicture, picture_of

if TYPE_CHECKING:
    from visir.library.snapshot import LibrarySnapshot


@dataclass(frozen=True, repr=False)
class DuplicatePictures(Displayed, view="visir.library.reports.duplicates"):
    """Pictures that a library has more than once, with what people see of them.

    Attributes:
        exact: Paths of files with the same content, group by group.
        near: Pictures that look alike, group by group.
    """

    exact: tuple[tuple[Path, ...], ...]
    near: tuple[tuple[LibraryPicture, ...], ...]

    @classmethod
    def of(cls, snapshot: LibrarySnapshot, *, near: int | None = None) -> DuplicatePictures:
        """Those of a library; `near` as in `duplicates`."""
        from visir.library.duplicates import duplicates
        from visir.library.perceptual_hash import NEAR

        groups, root = duplicates(snapshot.database, near=NEAR if near is None else near), Path(snapshot.card.root)
        return cls(
            tuple(tuple(root / path for path in group) for group in groups.exact),
            tuple(tuple(picture_of(snapshot, item) for item in snapshot.items(group)) for group in groups.near),
        )

    def __repr__(self) -> str:
        groups = [[path.name for path in group] for group in self.exact]
        groups += [[picture.name for picture in group] for group in self.near]
        head = f"{counted(len(self.exact), 'groups')} of equal files, {counted(len(self.near), 'groups')} of near ones"
        return brief(self, head, *(", ".join(group) for group in groups))

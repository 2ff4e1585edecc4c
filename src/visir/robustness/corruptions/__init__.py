"""Corruptions of pictures: registered, seeded, in five severities; and the view of a collection that carries one."""

from visir.robustness.corruptions.base import CORRUPTIONS, SEVERITIES, Corruption
from visir.robustness.corruptions.view import corrupt, pictures, spoilt, write_pictures

__all__ = [
    "CORRUPTIONS",
    "SEVERITIES",
    "Corruption",
    "corrupt",
    "pictures",
    "spoilt",
    "write_pictures",
]

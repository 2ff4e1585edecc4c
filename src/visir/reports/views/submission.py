"""The files of a submission, in a notebook."""

from __future__ import annotations

from visir.evaluation.submit import Submission
from visir.reports.page import Block
from visir.reports.table import Column, Table


def blocks(submission: Submission) -> list[Block]:
    """The files, and where they are handed in."""
    rows = [[str(file), submission.where] for file in submission.files]
    return [Table.of([Column("file"), Column("hand in")], rows)]

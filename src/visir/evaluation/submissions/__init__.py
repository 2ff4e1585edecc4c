"""The forms in which benchmarks take answers whose judgements they keep. A new one is a file here and a line below."""

from __future__ import annotations

from visir.evaluation.submissions import circo, cirr
from visir.evaluation.submissions.base import SubmissionFormat

FORMATS: dict[str, SubmissionFormat] = {form.name: form for form in (circo.FORMAT, cirr.FORMAT)}
"""By the name that a source of tasks says (`TaskFile.submission`)."""

__all__ = ["FORMATS", "SubmissionFormat"]

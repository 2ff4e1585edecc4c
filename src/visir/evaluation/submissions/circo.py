"""CIRCO's submissions: {query id: [50 image ids]}, both as they stand in its annotations."""

from __future__ import annotations

from typing import Any

from visir.evaluation.submissions.base import SubmissionFormat, SubmissionPart


def _content(answers: dict[str, list[str]]) -> dict[str, Any]:
    by_number = {int(query.rpartition("-")[2]): [int(image) for image in images] for query, images in answers.items()}
    return {str(number): by_number[number] for number in sorted(by_number)}


FORMAT = SubmissionFormat(
    name="circo",
    title="CIRCO",
    parts=(SubmissionPart("it2i", 50, "", _content),),
    where="https://circo.micc.unifi.it/",
    reference="https://github.com/miccunifi/CIRCO, section Submission Format",
)
